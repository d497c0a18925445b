#!/usr/bin/env bash
# Database servers to try things with: fetched into a directory of their own where Debian 12 has
# them not, run privately, never installed as a service.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
roots=${WORLDKEEPER_SERVERS:-$here/build/servers}

usage() {
    cat <<'END'
Usage: scripts/servers.sh COMMAND KIND [DIR] [OPTION...]

  fetch KIND              get the server, when it is not there yet (as root)
  start KIND DIR [OPTION...]
                          a server with its data in DIR, made when it is not there; root has no
                          password, the socket is DIR/socket, the port is said
  stop KIND DIR           ends it in order
  install KIND DATADIR [OPTION...]
                          only an empty data directory
  run KIND [OPTION...]    only the server's program, in the foreground, with these options

Kinds:
  mariadb       MariaDB of this Debian
  mysql         Oracle's MySQL of Debian sid
  mariadb-new   MariaDB of Debian sid

What is fetched lies under build/servers, or where WORLDKEEPER_SERVERS says.
END
}

die() {
    printf 'servers: %s\n' "$*" >&2
    exit 1
}

case ${1:-} in
--help)
    usage
    exit 0
    ;;
esac
[ $# -ge 2 ] || {
    usage >&2
    exit 2
}
command=$1 kind=$2
shift 2
case $kind in
mariadb) packages='' ;;
mysql) packages=mysql-server-core ;;
mariadb-new) packages=mariadb-server-core ;;
*) die "no kind '$kind': there are mariadb, mysql and mariadb-new" ;;
esac
root=$roots/$kind

# The root is made beside its place and put there whole: who finds it may use it. One at a time.
fetch() {
    if [ "$kind" = mariadb ]; then
        "$here/scripts/deps.sh" demo
        return
    fi
    [ ! -e "$root/.complete" ] || return 0
    [ "$(id -u)" = 0 ] || die "fetching $kind needs root (debootstrap)"
    "$here/scripts/deps.sh" clean-root
    mkdir -p "$roots"
    exec 9>"$roots/$kind.lock"
    flock 9
    [ ! -e "$root/.complete" ] || return 0
    rm -rf --one-file-system "$root"
    debootstrap --variant=minbase --include="$packages" sid "$root" >"$roots/$kind.log" 2>&1 || {
        tail -n 20 "$roots/$kind.log" >&2
        die "debootstrap could not fetch $kind; its output ends as above"
    }
    rm -rf "$root/var/cache/apt/archives"
    : >"$root/.complete"
}

# A program of the root, run in this system's name space by the root's own loader: sockets, data and
# pids are where everybody else sees them, and no mount is needed.
program() {
    local lib=$root/usr/lib/x86_64-linux-gnu
    words=("$root/lib64/ld-linux-x86-64.so.2" --library-path "$lib:$root/usr/lib/mysql/private" "$root$1"
        --no-defaults)
}

server_words() {
    case $kind in
    mariadb) words=(mariadbd --no-defaults) ;;
    mysql)
        program /usr/sbin/mysqld
        words+=(--lc-messages-dir="$root/usr/share/mysql" --plugin-dir="$root/usr/lib/mysql/plugin"
            --character-sets-dir="$root/usr/share/mysql/charsets" --mysqlx=OFF --secure-file-priv=)
        ;;
    mariadb-new)
        program /usr/sbin/mariadbd
        words+=(--lc-messages-dir="$root/usr/share/mariadb" --plugin-dir="$root/usr/lib/mysql/plugin"
            --character-sets-dir="$root/usr/share/mariadb/charsets")
        ;;
    esac
}

run() {
    [ "$kind" = mariadb ] || [ -e "$root/.complete" ] || die "not there yet: scripts/servers.sh fetch $kind"
    local words
    server_words
    exec "${words[@]}" "$@"
}

install() {
    local data=$1 words
    shift
    [ "$kind" = mariadb ] || [ -e "$root/.complete" ] || die "not there yet: scripts/servers.sh fetch $kind"
    case $kind in
    mariadb)
        mariadb-install-db --no-defaults --skip-test-db --force --auth-root-authentication-method=normal \
            --datadir="$data" "$@"
        ;;
    mysql)
        server_words
        "${words[@]}" --initialize-insecure --datadir="$data" "$@"
        ;;
    mariadb-new)
        server_words
        mkdir -p "$data/mysql"
        local sql=$root/usr/share/mariadb
        {
            printf 'use mysql;\nSET @auth_root_socket=NULL;\n'
            cat "$sql/mariadb_system_tables.sql" "$sql/mariadb_performance_tables.sql" \
                "$sql/mariadb_system_tables_data.sql" "$sql/maria_add_gis_sp_bootstrap.sql"
        } | "${words[@]}" --bootstrap --datadir="$data" --enforce-storage-engine= "$@"
        ;;
    esac
}

case $command in
fetch) fetch ;;
run) run "$@" ;;
install)
    [ $# -ge 1 ] || die "install wants the data directory"
    install "$@"
    ;;
*)
    usage >&2
    exit 2
    ;;
esac
