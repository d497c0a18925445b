#!/usr/bin/env bash
# Installs what is missing from Debian's packages. With everything there it says nothing and
# takes no time.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)

usage() {
    cat <<'END'
Usage: scripts/deps.sh [build|demo|test|test-programs|core|bench|coverage|package|clean-root|clean-root-boot]...

Installs what is missing of the named sets (default: build), with apt-get, as root or by sudo.
Nothing is ever removed, no service is started, now or at boot.

  build       compiler and libraries
  demo        a MariaDB server and its clients, without the system's own database service
  test        what the tests, the linters and the checks use (brings build, demo and bench)
  test-programs
              the same without what is only unpacked: S3's server and the agent of Pacemaker
  core        what scripts/test.sh core uses (brings build and demo)
  bench       what scripts/bench.sh measures beside worldkeeper, and draws with
  coverage    what scripts/coverage.sh uses (brings test)
  package     what make deb uses, without the unit tests (brings build)
  clean-root  what scripts/clean-root.sh uses
  clean-root-boot  the same, for its --boot
END
}

die() {
    printf 'deps: %s\n' "$*" >&2
    exit 1
}

build='gcc libc6-dev make pkg-config default-libmysqlclient-dev zlib1g-dev libcurl4-openssl-dev
       libisal-dev libinih-dev libjansson-dev libssl-dev'
# The server's core package has no service and no system database: nothing starts, now or at boot.
demo='mariadb-server-core mariadb-client'
core='libcmocka-dev openssl strace procps mount util-linux systemd python3 python3-pytest python3-pytest-xdist
      python3-pytest-timeout python3-pymysql python3-aiosmtpd age apache2-bin openssh-server curl'
tests='lintian clang-format clang-tidy cppcheck shellcheck mandoc groff-base libxml2-utils binutils e2fsprogs
       chromium python3-yaml galera-4 php-cli php-mysql spin'
# These come with services, which stay off: tests start the programs on ports of their own.
services='openssh-server etcd-server prometheus prometheus-node-exporter prometheus-alertmanager'
# Unpacked where the tests look for them (tests/system/wk/stores.py): installed, some thirty more packages come with
# them, with services that watch and change disks, or a cluster.
stores='ceph-mon ceph-osd ceph-common radosgw resource-agents'
unpacked=${WORLDKEEPER_SERVERS:-/var/cache/worldkeeper/servers}/stores
package='build-essential debhelper'
bench='python3 python3-pymysql mydumper pigz gnuplot-nox'
# Debian 13 has none: what uses it goes on without.
optional='mydumper'

[ $# -gt 0 ] || set -- build
wanted=() with_stores='' unpack=''
for set in "$@"; do
    case $set in
    build) list=$build ;;
    demo) list=$demo ;;
    test | test-programs)
        [ "$set" = test-programs ] || with_stores=yes
        list="$build $demo $bench $core $tests $services $package"
        ;;
    core) list="$build $demo $core" ;;
    bench) list=$bench ;;
    coverage) list="$build $demo $bench $core $tests gcovr" ;;
    package) list="$build $package" ;;
    clean-root) list='debootstrap' ;;
    clean-root-boot) list='debootstrap systemd-container' ;;
    --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    read -ra words <<<"${list//$'\n'/ }"
    wanted+=("${words[@]}")
done

mapfile -t wanted < <(printf '%s\n' "${wanted[@]}" | awk '!seen[$0]++')
command -v dpkg-query >/dev/null || die "this is no Debian system: install the equivalents of: ${wanted[*]}"

# dpkg-query fails for a package that it has never heard of: that one is missing too.
installed=" $(dpkg-query -W -f '${db:Status-Abbrev}${Package} ' "${wanted[@]}" 2>/dev/null || true)"
missing=()
for package in "${wanted[@]}"; do
    case $installed in
    *" ii $package "*) ;;
    *) missing+=("$package") ;;
    esac
done
[ -z "$with_stores" ] || [ "$(cat "$unpacked/.complete" 2>/dev/null)" = "$stores" ] || unpack=yes
# Without it there is one kind of S3 less to try things with: no reason to stop.
[ -z "$with_stores" ] || "$here/servers.sh" fetch radosgw || printf 'deps: going on without radosgw of Debian sid\n' >&2
[ -z "$with_stores" ] || "$here/servers.sh" fetch mariadb-plugins || printf 'deps: going on without plugins of MariaDB\n' >&2

# Drops from `missing` the optional packages that this Debian does not have.
drop_unknown() {
    local package rest=()
    for package in "${missing[@]}"; do
        # Not piped into grep -q: that ends at the first match, and apt-cache, which then cannot write, fails.
        if [[ " $optional " == *" $package "* && $(apt-cache policy "$package") != *'Candidate: '[^\(]* ]]; then
            printf 'deps: this Debian has no %s: going on without it\n' "$package"
        else
            rest+=("$package")
        fi
    done
    missing=("${rest[@]}")
}
# apt knows what there is only after it has looked once.
looked=''
if [[ " $optional " == *" ${missing[*]} "* ]] && compgen -G '/var/lib/apt/lists/*_Packages*' >/dev/null; then
    looked=yes
    drop_unknown
fi
[ ${#missing[@]} -gt 0 ] || [ -n "$unpack" ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "missing, and neither root nor sudo to install them: ${missing[*]}${unpack:+ $stores}"
    as_root=(sudo)
fi

[ -z "$unpack" ] || printf 'Unpacking from Debian into %s: %s\n' "$unpacked" "$stores"
log=$(mktemp)
# What packages ask before they start a service. One that is there already says what this machine wants.
policy=/usr/sbin/policy-rc.d
own_policy=''
finish() {
    rm -f "$log"
    [ -z "$own_policy" ] || "${as_root[@]}" rm -f "$policy"
}
trap finish EXIT
if [ ! -e "$policy" ]; then
    own_policy=yes
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
fi
# --no-remove: better an error than somebody's other packages gone. One of us at a time: for its lists' lock apt-get does
# not wait.
apt() {
    "${as_root[@]}" flock /var/lib/apt/lists env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" \
        >>"$log" 2>&1 </dev/null
}
failed() {
    tail -n 25 "$log" >&2
    die "apt-get could not $1; its output ends as above"
}
apt update || failed "find out which packages there are"
[ -n "$looked" ] || drop_unknown
if [ ${#missing[@]} -gt 0 ]; then
    printf 'Installing from Debian: %s\n' "${missing[*]}"
    apt install --yes --no-remove --no-install-recommends "${missing[@]}" || failed "install them"
fi
for package in "${missing[@]}"; do
    case " $services " in
    *" $package "*)
        # Not always of the package's name: openssh-server brings ssh.service.
        mapfile -t units < <(dpkg -L "$package" | sed -n 's|^\(/usr\)\?/lib/systemd/system/\([^@/]*\.service\)$|\2|p')
        "${as_root[@]}" systemctl --quiet disable "${units[@]}" >>"$log" 2>&1 ||
            die "$package is installed, but would start at boot: systemctl disable ${units[*]}"
        ;;
    esac
done
[ -n "$unpack" ] || exit 0
new=$unpacked.new
read -ra packages <<<"$stores"
"${as_root[@]}" rm -rf "$new"
"${as_root[@]}" mkdir -p "$new/debs/partial"
apt install --yes --download-only --no-install-recommends -o Dir::Cache::archives="$new/debs" "${packages[@]}" ||
    failed "fetch what S3 and the agent of Pacemaker are tested with"
for package in "$new"/debs/*.deb; do
    "${as_root[@]}" dpkg-deb -x "$package" "$new"
done
"${as_root[@]}" rm -rf "$new/debs" "$unpacked"
"${as_root[@]}" tee "$new/.complete" <<<"$stores" >/dev/null
"${as_root[@]}" mv "$new" "$unpacked"
