#!/usr/bin/env bash
# Builds worldkeeper with Oracle's client library and runs the unit tests with it, in the Debian sid
# that Oracle's server comes from (scripts/servers.sh): this Debian has MariaDB's library only.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
build=build/oracle

usage() {
    cat <<'END_USAGE'
Usage: scripts/oracle-client.sh [--no-unit]

Fetches Debian sid into a directory of its own when it is not there yet (scripts/servers.sh fetch
mysql), builds there with libmysqlclient, warnings as errors, and runs the unit tests there. As root
or by sudo, for debootstrap and chroot.

Leaves build/oracle/worldkeeper, which runs here too, by sid's own loader and libraries:

    WK_KIND=mysql WORLDKEEPER=build/oracle/worldkeeper /usr/bin/python3 -m pytest tests/system

  --no-unit   only build
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
    exec sudo env CMOCKA_MESSAGE_OUTPUT="${CMOCKA_MESSAGE_OUTPUT:-STDOUT}" \
        WORLDKEEPER_SERVERS="${WORLDKEEPER_SERVERS:-}" "$here/scripts/oracle-client.sh" "${args[@]}"
fi

# A mount namespace of its own: whatever happens, nothing stays mounted.
if [ -z "${ORACLE_CLIENT_INSIDE:-}" ]; then
    "$here/scripts/servers.sh" fetch mysql
    ORACLE_CLIENT_INSIDE=yes exec unshare --mount --pid --fork --kill-child "$0" "${args[@]}"
fi

root=$("$here/scripts/servers.sh" root mysql)
tree=/usr/src/worldkeeper
mkdir -p "$root$tree" "$here/build"
mount --make-rprivate /
mount --bind "$here" "$root$tree"
mount -t proc proc "$root/proc"
mount --rbind /dev "$root/dev"

# Who called sudo goes on with what was built.
give_back() {
    [ -z "${SUDO_UID:-}" ] || chown -R "$SUDO_UID:" "$here/$build"
}
trap give_back EXIT

inside() {
    chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8 \
        CMOCKA_MESSAGE_OUTPUT="${CMOCKA_MESSAGE_OUTPUT:-STDOUT}" \
        make --no-print-directory -s -j2 -C "$tree" BUILD="$build" "$@"
}

# What runs outside does so by the root's loader, with the root's libraries alone: those too that
# libraries need.
libc=$(compgen -G "$root/usr/lib/*/libc.so.6")
lib=${libc%/*}
loader=$(compgen -G "$lib/ld*.so.[0-9]")
tools=("$build/bench/scan" "$build/tools/binlog_read" "$build/tools/segment_read" "$build/tools/row_images")
inside LDFLAGS="-Wl,--dynamic-linker=$loader -Wl,--disable-new-dtags,-rpath,$lib" all "${tools[@]}"
[ "$unit" = no ] || inside unit
