#!/usr/bin/env bash
# Installs what is missing from Debian's packages. With everything there it says nothing and
# takes no time.
set -euo pipefail

usage() {
    cat <<'END'
Usage: scripts/deps.sh [build|demo|test|bench|coverage|clean-root]...

Installs what is missing of the named sets (default: build), with apt-get, as root or by sudo.
Nothing is ever removed, no service is installed or started.

  build       compiler and libraries
  demo        a MariaDB server and its clients, without the system's own database service
  test        what the tests, the linters and the checks use (brings build, demo and bench)
  bench       what scripts/bench.sh measures beside worldkeeper, and draws with
  coverage    what scripts/coverage.sh uses (brings test)
  clean-root  what scripts/clean-root.sh uses
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
tests='libcmocka-dev clang-format clang-tidy cppcheck shellcheck mandoc groff-base systemd openssl
       strace procps binutils e2fsprogs mount util-linux
       python3 python3-pytest python3-pytest-xdist python3-pymysql python3-aiosmtpd'
bench='python3 python3-pymysql mydumper pigz gnuplot-nox'

[ $# -gt 0 ] || set -- build
wanted=()
for set in "$@"; do
    case $set in
    build) list=$build ;;
    demo) list=$demo ;;
    test) list="$build $demo $bench $tests" ;;
    bench) list=$bench ;;
    coverage) list="$build $demo $bench $tests gcovr" ;;
    clean-root) list='debootstrap' ;;
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
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "missing, and neither root nor sudo to install them: ${missing[*]}"
    as_root=(sudo)
fi

printf 'Installing from Debian: %s\n' "${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# --no-remove: better an error than somebody's other packages gone.
apt() {
    "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get -qq -o DPkg::Lock::Timeout=300 "$@" \
        >>"$log" 2>&1 </dev/null
}
if ! { apt update && apt install --yes --no-remove --no-install-recommends "${missing[@]}"; }; then
    tail -n 25 "$log" >&2
    die "apt-get could not install them; its output ends as above"
fi
