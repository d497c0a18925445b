#!/usr/bin/env bash
# Measures worldkeeper's dumps and restores beside mysqldump, mariadb-dump, mydumper and what the
# server itself allows, in one run on one private server of each kind. tests/bench/README.md says how, and what
# each figure means.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'END'
Usage: scripts/bench.sh [--server KIND] [--quick] [--rounds N] [--sizes LIST] [--growth-rounds N] [--no-cron]
                        [--journal MODES] [--journal-rounds N] [--only journal|ledger|progress|offsite|fleet|switch]
                        [--ledger-rounds N] [--ledger-size N] [--ledger-flat ROWS] [--out DIR]

Installs what is missing from Debian's packages, builds, starts private MariaDB servers in a
temporary directory and measures. Prints the figures, and writes them to DIR/bench.json with a
picture, DIR/bench.svg. Leaves nothing else behind; fails when a restore was not whole.

  --server KIND      mariadb (this Debian's), mysql (Oracle's, of Debian sid, fetched by
                     scripts/servers.sh) or both, one after the other, with a table that has both;
                     figures of MySQL are in DIR/bench-mysql.json (default: mariadb)
  --rounds N         rounds of the main size, after one that is thrown away (default: 5)
  --sizes LIST       sizes of the world, the main one first; 1 is 3.75 million rows and 10 needs
                     13 GiB of memory and 21 GiB of disk (default: 1,0.1,4,10)
  --growth-rounds N  rounds of each other size (default: 1)
  --no-cron          without the whole outage under the old scripts, a minute and more a round
  --journal MODES    modes of the journal to measure, server or follow, or none (default: server,follow)
  --journal-rounds N rounds of them, on the world of the main size (default: 3)
  --only journal     nothing but these, a quarter of an hour, half an hour for both; draws no picture
  --only ledger      ledgers with rollups, ten minutes; nothing of the above
  --only progress    players' progress: the central store, of one server and of a Galera cluster, and writing
                     back to it, with a picture; minutes
  --only offsite     copies on another machine, by SFTP and S3 on this one; minutes
  --only fleet       a hundred idle worlds, and twenty that are lost together; ten minutes
  --only switch      a world that moves to another machine and back, warm and cold; ten minutes
  --ledger-rounds N  rounds of it (default: 3)
  --ledger-size N    1 is 2 million rows of 100,000 keys (default: 1)
  --ledger-flat ROWS that pass through one MEMORY table, to see whether its memory stays what it is (default: 10000000)
  --quick            a tiny world, one round, a minute: whether all of it still works;
                     its figures mean nothing
  --out DIR          where to write (default: build/bench)
  --help             this text

The default run takes about an hour and a quarter. Nothing else should run on the machine meanwhile.
BUILD=DIR names a build directory other than build/release, as for make.
END
}

wrong() {
    usage >&2
    exit 2
}

options=() out=build/bench kinds=(mariadb) packages=(build demo bench)
while [ $# -gt 0 ]; do
    case $1 in
    --quick)
        options+=(--sizes 0.02 --rounds 1 --no-warm-up --no-cron --crowd 10)
        options+=(--journal-rounds 1 --journal-seconds 1)
        options+=(--progress-rounds 1 --progress-blobs 1000)
        options+=(--offsite-rounds 1 --offsite-rows 2000)
        options+=(--fleet-worlds 3 --fleet-lost 2 --fleet-seconds 2)
        options+=(--switch-sizes 0.002 --switch-rounds 1)
        options+=(--ledger-rounds 1 --ledger-size 0.02 --ledger-seconds 1 --ledger-flat 200000)
        ;;
    --no-cron) options+=("$1") ;;
    --rounds | --growth-rounds | --journal-rounds | --ledger-rounds | --ledger-flat)
        [[ ${2:-} =~ ^[1-9][0-9]*$ ]] || wrong
        options+=("$1" "$2")
        shift
        ;;
    --ledger-size)
        [[ ${2:-} =~ ^[0-9.]+$ ]] || wrong
        options+=("$1" "$2")
        shift
        ;;
    --sizes)
        [[ ${2:-} =~ ^[0-9.]+(,[0-9.]+)*$ ]] || wrong
        options+=("$1" "$2")
        shift
        ;;
    --journal)
        [[ ${2:-} =~ ^(none|server|follow|server,follow)$ ]] || wrong
        options+=("$1" "$2")
        shift
        ;;
    --only)
        [[ ${2:-} =~ ^(journal|ledger|progress|offsite|fleet|switch)$ ]] || wrong
        [[ $2 != offsite && $2 != switch ]] || packages+=(test)
        options+=("$1" "$2")
        shift
        ;;
    --server)
        case ${2:-} in
        mariadb | mysql) kinds=("$2") ;;
        both) kinds=(mariadb mysql) ;;
        *) wrong ;;
        esac
        shift
        ;;
    --out)
        [ -n "${2:-}" ] || wrong
        out=$2
        shift
        ;;
    --help)
        usage
        exit 0
        ;;
    *) wrong ;;
    esac
    shift
done

build=${BUILD:-build/release}
scripts/deps.sh "${packages[@]}"
make -s -j2 BUILD="$build" all bench-tools
PATH=$PATH:/usr/sbin:/sbin # mariadbd lives there, not in everyone's PATH
for kind in "${kinds[@]}"; do
    scripts/servers.sh fetch "$kind"
done
# Debian's own python, which has Debian's packages.
for kind in "${kinds[@]}"; do
    WK_KIND=$kind /usr/bin/python3 tests/bench/bench.py --build "$build" --out "$out" "${options[@]}"
done
if [ ${#kinds[@]} -gt 1 ] && [[ " ${options[*]} " != *' --only '* ]]; then
    /usr/bin/python3 tests/bench/report.py "$out/bench.json" "$out/bench-mysql.json"
fi
