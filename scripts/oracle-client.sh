#!/usr/bin/env bash
# Builds worldkeeper with Oracle's client library and runs the unit tests with it, in the Debian sid
# that Oracle's server comes from (scripts/servers.sh): this Debian has MariaDB's library only.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=build/oracle

usage() {
    cat <<'END_USAGE'
Usage: scripts/oracle-client.sh [--no-unit | --client]

Fetches Debian sid into a directory of its own when it is not there yet (scripts/servers.sh fetch
mysql), builds there with libmysqlclient, warnings as errors, and runs the unit tests. As root or by sudo,
for debootstrap and chroot.

Leaves build/oracle/worldkeeper, which runs here, by sid's own loader and libraries:

    WK_KIND=mysql WORLDKEEPER=build/oracle/worldkeeper /usr/bin/python3 -m pytest tests/system

  --no-unit   only build
  --client    of the unit tests only those that call the library

CFLAGS in the environment are added to the compiler's.
END_USAGE
}

die() {
    printf 'oracle-client: %s\n' "$*" >&2
    exit 1
}

args=("$@")
unit=yes
while [ $# -gt 0 ]; do
    case $1 in
    --no-unit) unit=no ;;
    --client) unit=client ;;
    --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
    shift
done
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null || die "needs root, for debootstrap and chroot, and there is no sudo"
    exec sudo env CMOCKA_MESSAGE_OUTPUT="${CMOCKA_MESSAGE_OUTPUT:-STDOUT}" CFLAGS="${CFLAGS:-}" \
        WORLDKEEPER_SERVERS="${WORLDKEEPER_SERVERS:-}" "$here/scripts/oracle-client.sh" "${args[@]}"
fi

"$here/scripts/servers.sh" fetch mysql
root=$("$here/scripts/servers.sh" root mysql)

# A copy is built, in a directory of its own: to mount the checkout there takes a right that a container has not.
# What is built comes back with its times, so that the next run builds only what has changed.
tree=$(mktemp -d "$root/usr/src/worldkeeper-XXXXXX")
trap 'rm -rf --one-file-system "$tree"' EXIT
trap 'exit 1' HUP INT TERM
mkdir -p "$here/$build"
tar -C "$here" -c Makefile src tests "$build" | tar -C "$tree" -x --no-same-owner

inside() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        make --no-print-directory -s -j2 -C "${tree#"$root"}" BUILD="$build" \
        PLUGIN_DIR="$root/usr/lib/mysql/plugin" "$@"
}

# It runs outside by the root's loader, with the root's libraries alone: those too that libraries need.
libc=$(compgen -G "$root/usr/lib/*/libc.so.6")
lib=${libc%/*}
loader=$(compgen -G "$lib/ld*.so.[0-9]")
# Unit tests that call the library do so through scripted_server.h; the others never reach it.
calling() {
    grep -lE '^#include "(scripted_server|check_kit)\.h"' "$here"/tests/unit/test_*.c |
        sed "s|.*/\(.*\)\.c\$|$build/unit/\1|"
}
what=(all "$build/bench/scan" "$build/tools/binlog_read" "$build/tools/segment_read" "$build/tools/row_images")
case $unit in
yes) what+=(unit-build) ;;
client)
    mapfile -t tests < <(calling) && what+=("${tests[@]}")
    [ ${#tests[@]} -gt 0 ] || die "no unit test calls the library"
    ;;
esac
inside CFLAGS="${CFLAGS:-}" LDFLAGS="-Wl,--dynamic-linker=$loader -Wl,--disable-new-dtags,-rpath,$lib" "${what[@]}"
tar -C "$tree" -c "$build" | tar -C "$here" -x --no-same-owner
# Who called sudo goes on with what was built.
[ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID:${SUDO_GID:?}" "$here/$build"
[ "$unit" != no ] || exit 0
which=()
[ "$unit" = yes ] || which=("UNIT_BIN=${tests[*]}")
make --no-print-directory -s -C "$here" BUILD="$build" "${which[@]}" unit-run
