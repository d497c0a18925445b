#!/usr/bin/env bash
# Database servers to try things with: fetched into a directory of their own where this Debian has
# them not, run privately, never installed as a service.
#
# shellcheck disable=SC2016 # what another user's shell is to expand
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# Not in the checkout: the servers run as a user who may not be able to reach that, as in root's home.
roots=${WORLDKEEPER_SERVERS:-/var/cache/worldkeeper/servers}

usage() {
    cat <<'END'
Usage: scripts/servers.sh COMMAND KIND [DIR] [OPTION...]

  fetch KIND              get the server, when it is not there yet (as root or by sudo)
  start KIND DIR [OPTION...]
                          a server with its data in DIR, made when it is not there; root has no
                          password, the socket is DIR/socket, the port is said. Options are the
                          server's own, such as --log-bin=log --max-heap-table-size=1G
  stop KIND DIR           ends it in order; its data stays
  install KIND DATADIR [OPTION...]
                          only an empty data directory
  run KIND [OPTION...]    only the server's program, in the foreground, with these options
                          (MySQL has keys to encrypt with when --keys=DIR is one of them, as with
                          --keys=DIR --binlog-encryption=ON; start takes it as well)
  words KIND [NAME]       says the command that runs the server's program, or another one that comes with it, one
                          word on each line: for whoever cannot reach this script
  tool KIND NAME [ARGUMENT...]
                          another program that comes with it, such as mysqldump
  root KIND               says the directory that it was fetched into

Kinds:
  mariadb       MariaDB of this Debian
  mysql         Oracle's MySQL of Debian sid
  mariadb-10.5  MariaDB of Debian 11 (bullseye)
  mariadb-11.8  MariaDB of Debian 13 (trixie)
  mariadb-new   MariaDB of Debian sid
  radosgw       no database: the S3 server of Debian sid, for the tests; only fetch and root
  mariadb-plugins
                no database: what this Debian's MariaDB can load, such as metadata_lock_info, and
                its core package does not have; only fetch and root

What is fetched lies under /var/cache/worldkeeper/servers, or where WORLDKEEPER_SERVERS says. Started by
root, servers run as user mysql where there is one, else as nobody; the data directory has to be theirs.
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
suite=sid
case $kind in
mariadb) packages='' ;;
mysql) # and what scripts/oracle-client.sh builds with: fetching twice would take twice as long
    packages=mysql-server-core,mysql-client-core,gcc,libc6-dev,make,pkg-config,libmysqlclient-dev
    packages+=,zlib1g-dev,libcurl4-openssl-dev,libisal-dev,libinih-dev,libjansson-dev,libssl-dev
    packages+=,libcmocka-dev
    ;;
mariadb-10.5) suite=bullseye packages=mariadb-server-core-10.5 ;;
mariadb-11.8) suite=trixie packages=mariadb-server-core ;;
mariadb-new) packages=mariadb-server-core ;;
mariadb-plugins) # of the version that is installed: a server loads no others
    packages=mariadb-server$(dpkg-query -W -f '=${Version}' mariadb-server-core 2>/dev/null || true)
    ;;
radosgw) packages=radosgw ;;
*) die "no kind '$kind': there are mariadb, mysql, mariadb-10.5, mariadb-11.8, mariadb-new, mariadb-plugins and radosgw" ;;
esac
case $kind-$command in
radosgw-fetch | radosgw-root | mariadb-plugins-fetch | mariadb-plugins-root) ;;
radosgw-* | mariadb-plugins-*) die "$kind is no database server: it can be fetched" ;;
esac
root=$roots/$kind

# MySQL's root is built in (scripts/oracle-client.sh), so it has to be one that can be entered. mariadb-new is made the
# same way.
is_set_up() { [ "$kind" = mysql ] || [ "$kind" = mariadb-new ]; }

fetched() { [ "$(cat "$root/.complete" 2>/dev/null)" = "$packages" ]; }

# What a fetch that was broken off left: debootstrap may have had these mounted in it.
remove_root() {
    [ -e "$1" ] || return 0
    local mounted
    for mounted in dev/pts dev proc sys; do
        ! mountpoint -q "$1/$mounted" || umount -l "$1/$mounted"
    done
    rm -rf --one-file-system "$1"
}

# The root is made beside its place and put there whole: who finds it may use it. One at a time.
fetch() {
    if [ "$kind" = mariadb ]; then
        "$here/scripts/deps.sh" demo
        return
    fi
    ! fetched || return 0
    if [ "$(id -u)" != 0 ]; then
        command -v sudo >/dev/null || die "fetching $kind needs root (debootstrap), and there is no sudo"
        exec sudo env WORLDKEEPER_SERVERS="$roots" "$here/scripts/servers.sh" fetch "$kind"
    fi
    ! is_set_up || "$here/scripts/deps.sh" clean-root
    mkdir -p "$roots"
    exec 9>"$roots/$kind.lock"
    flock 9
    ! fetched || return 0
    new=$root.new
    remove_root "$new"
    trap 'remove_root "$new"' EXIT
    trap 'exit 1' HUP INT TERM
    if is_set_up; then
        bootstrap "$new"
    elif [ "$kind" = mariadb-plugins ]; then
        unpack_plugins "$new"
    else
        unpack "$new"
    fi
    mkdir -p "$new/usr/lib/mysql/plugin" # MariaDB's core package has none
    printf '%s\n' "$packages" >"$new/.complete"
    remove_root "$root"
    mv "$new" "$root"
    trap - EXIT HUP INT TERM
}

bootstrap() {
    local new=$1
    # Without a network this is to fail, not to try for half an hour.
    printf 'timeout = 30\ntries = 3\n' >"$roots/wgetrc"
    # The lock is not for what it starts: a process left behind would keep everybody out.
    WGETRC=$roots/wgetrc debootstrap --variant=minbase --include="$packages" "$suite" "$new" \
        >"$root.log" 2>&1 9>&- || {
        tail -n 20 "$root.log" >&2
        die "debootstrap could not fetch $kind; its output ends as above"
    }
    rm -rf "$new/var/cache/apt/archives"
}

# Unpacks the packages without setting them up, which takes a third of the time. apt sees the suite in a state of its own,
# in which nothing is installed.
unpack() {
    local own=$1/apt package name
    mkdir -p "$own/lists/partial" "$own/cache/archives/partial"
    : >"$own/status"
    printf 'deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] http://deb.debian.org/debian %s main\n' \
        "$suite" >"$own/sources.list"
    local apt=(apt-get -qq -o Dir::Etc::sourcelist="$own/sources.list" -o Dir::Etc::sourceparts=/dev/null -o Dir::State="$own"
        -o Dir::State::status="$own/status" -o Dir::Cache="$own/cache" -o APT::Sandbox::User=root
        -o Acquire::http::Timeout=30 -o Acquire::Retries=3)
    { "${apt[@]}" update && "${apt[@]}" install --yes --download-only --no-install-recommends "$packages"; } \
        >"$root.log" 2>&1 9>&- || {
        tail -n 20 "$root.log" >&2
        die "apt-get could not fetch $kind; its output ends as above"
    }
    # Packages of Debian 11 still put libraries into /lib.
    for name in lib lib64 bin sbin; do
        mkdir -p "$1/usr/$name"
        ln -s "usr/$name" "$1/$name"
    done
    for package in "$own"/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$package" | tar -x --keep-directory-symlink -p -C "$1"
    done
    rm -rf "$own"
    [ "$kind" != radosgw ] || rm -rf "${1:?}/usr/share"
}

# Of one package of this Debian, without what it depends on: the server is there.
unpack_plugins() {
    mkdir -p "$1/debs"
    (cd "$1/debs" && apt-get -qq -o APT::Sandbox::User=root -o Acquire::http::Timeout=30 -o Acquire::Retries=3 \
        download "$packages") >"$root.log" 2>&1 9>&- || {
        tail -n 20 "$root.log" >&2
        die "apt-get could not fetch $kind; its output ends as above"
    }
    dpkg-deb --fsys-tarfile "$1"/debs/*.deb | tar -x -C "$1" ./usr/lib/mysql/plugin
    rm -rf "$1/debs"
}

first_of() {
    local found
    found=$(compgen -G "$1") && printf '%s\n' "${found%%$'\n'*}"
}

# A program of the root, run in this system's name space by the root's own loader: sockets, data and
# pids are where everybody else sees them, and no mount is needed.
program() {
    local lib loader
    lib=$(first_of "$root/usr/lib/*/libc.so.6") || die "$root has no C library: remove it and fetch again"
    lib=${lib%/libc.so.6}
    loader=$(first_of "$lib/ld*.so.[0-9]") || die "$lib has no loader: remove $root and fetch again"
    [ -x "$root$1" ] || die "$kind comes without ${1##*/}"
    words=("$loader" --library-path "$lib:$root/usr/lib/mysql/private" "$root$1" --no-defaults)
}

# MariaDB's files were called mysql until Debian 12.
their_name() { if [ -d "$root/usr/share/mariadb" ]; then echo mariadb; else echo mysql; fi; }

must_be_there() {
    if [ "$kind" = mariadb ]; then
        command -v mariadbd >/dev/null
    else
        [ -e "$root/.complete" ]
    fi || die "not there yet: scripts/servers.sh fetch $kind"
}

server_words() {
    local share
    must_be_there
    case $kind in
    mariadb)
        words=(mariadbd --no-defaults)
        return
        ;;
    mysql)
        program /usr/sbin/mysqld
        share=$root/usr/share/mysql
        words+=(--mysqlx=OFF --secure-file-priv=)
        ;;
    mariadb-*)
        program /usr/sbin/mariadbd
        share=$root/usr/share/$(their_name)
        ;;
    esac
    words+=(--lc-messages-dir="$share" --character-sets-dir="$share/charsets"
        --plugin-dir="$root/usr/lib/mysql/plugin")
}

# MySQL loads the component that keeps its keys only when a file beside its program says so, and the
# component looks into the directory of plugins for its own settings: here the program and the plugins
# are links in a directory of who asks, and the root stays as it is for all the others.
with_keys() {
    local dir=$1 n
    [ "$kind" = mysql ] || die "--keys is for mysql"
    [[ $dir == /* && $dir != *[\"\\]* ]] || die "--keys wants an absolute path without quotes"
    if [ ! -e "$dir/mysqld.my" ]; then
        mkdir -p "$dir"
        ln -sf "$root/usr/sbin/mysqld" "$root"/usr/lib/mysql/plugin/*.so "$dir"
        printf '{"path": "%s/keyring", "read_only": false}\n' "$dir" >"$dir/component_keyring_file.cnf"
        printf '{"components": "file://component_keyring_file"}\n' >"$dir/mysqld.my"
        chmod 0444 "$dir/component_keyring_file.cnf" "$dir/mysqld.my"
    fi
    for n in "${!words[@]}"; do
        [ "${words[n]}" != "$root/usr/sbin/mysqld" ] || words[n]=$dir/mysqld
    done
    words+=(--plugin-dir="$dir")
}

# Servers refuse to be root; a machine with the core packages alone has no user mysql. This script itself stays
# root until the program is started: the user may have no way to where the script lies. Whoever wants the server
# to end with him (PR_SET_PDEATHSIG) still has that.
choose_user() {
    as=()
    [ "$(id -u)" = 0 ] || return 0
    user=nobody
    ! id mysql >/dev/null 2>&1 || user=mysql
    as=(setpriv --pdeathsig keep --reuid="$user" --regid="$(id -g "$user")" --clear-groups --)
}

run() {
    local words option options=()
    server_words
    for option in "$@"; do
        case $option in
        --keys=*) with_keys "${option#--keys=}" ;;
        *) options+=("$option") ;;
        esac
    done
    choose_user
    exec "${as[@]}" "${words[@]}" "${options[@]}"
}

tool_words() {
    must_be_there
    words=("$1" --no-defaults)
    [ "$kind" = mariadb ] || program "/usr/bin/$1"
}

tool() {
    local words
    tool_words "$1"
    shift
    exec "${words[@]}" "$@"
}

# An account without a password is not for the network.
root_is_local="DELETE FROM mysql.global_priv WHERE User='root' AND Host<>'localhost';"

install() {
    local data=$1 words
    shift
    server_words
    choose_user
    cd / # where this was started may be closed to the server's user
    # Its own: MariaDB servers that start clear theirs of tables that others use.
    tmp=$(mktemp -d)
    trap 'rm -rf "$tmp"' EXIT
    [ ${#as[@]} = 0 ] || chown "$user:" "$tmp"
    set -- --tmpdir="$tmp" "$@"
    case $kind in
    mariadb)
        "${as[@]}" mariadb-install-db --no-defaults --skip-test-db --force --auth-root-authentication-method=normal \
            --datadir="$data" "$@"
        printf '%s\n' "$root_is_local" | "${as[@]}" "${words[@]}" --bootstrap --datadir="$data" "$@"
        ;;
    mysql)
        "${as[@]}" "${words[@]}" --initialize-insecure --skip-log-bin --datadir="$data" "$@"
        ;;
    mariadb-*)
        "${as[@]}" mkdir -p "$data/mysql"
        local name sql
        name=$(their_name)
        sql=$root/usr/share/$name
        {
            printf 'use mysql;\nSET @auth_root_socket=NULL;\n'
            cat "$sql/${name}_system_tables.sql" "$sql/${name}_performance_tables.sql" \
                "$sql/${name}_system_tables_data.sql" "$sql/maria_add_gis_sp_bootstrap.sql"
            printf '%s\n' "$root_is_local"
        } | "${as[@]}" "${words[@]}" --bootstrap --datadir="$data" --enforce-storage-engine= "$@"
        ;;
    esac
}

# ---- for a person: start and stop ---------------------------------------------------------------

# The pid of the server whose data is in $dir, if it runs.
server_pid() {
    local pid
    pid=$(cat "$dir/pid" 2>/dev/null) && [ -e "/proc/$pid/cmdline" ] &&
        tr '\0' '\n' <"/proc/$pid/cmdline" | grep -qxF -- "--datadir=$dir/data" && printf '%s\n' "$pid"
}

# A server that lives greets whoever comes.
greets() {
    perl -MIO::Socket::UNIX -e 'alarm 5; my $s = IO::Socket::UNIX->new($ARGV[0]) or exit 1;
        exit(sysread($s, my $greeting, 5) == 5 ? 0 : 1)' "$dir/socket" 2>/dev/null
}

is_taken() { (: <"/dev/tcp/127.0.0.1/$1") 2>/dev/null; }

# A server keeps its port as long as nobody else has it; a new one gets the first where nobody listens.
choose_port() {
    port=3310
    [ ! -s "$dir/port" ] || port=$(cat "$dir/port")
    while is_taken "$port"; do port=$((port + 1)); done
    printf '%s\n' "$port" | put port
}

# put NAME: standard input as that file of $dir. The server's user owns the directory and could have put a link there.
put() { "${as[@]}" sh -c 'exec cat >"$1"' sh "$dir/$1"; }

# $dir/kind is written when all is there: what was broken off before is made anew.
make_data() {
    if [ -e "$dir/kind" ]; then
        [ "$(cat "$dir/kind")" = "$kind" ] || die "$dir holds the data of another kind: $(cat "$dir/kind")"
        return
    fi
    [ -e "$dir/making" ] || [ -z "$(ls -A "$dir")" ] || die "$dir is not empty, and no data of ours"
    # Root has no password: nobody else is to reach the socket.
    chmod 0700 "$dir"
    [ ${#as[@]} = 0 ] || chown "$user:" "$dir"
    put making </dev/null
    rm -rf --one-file-system "$dir/data" "$dir/tmp"
    "${as[@]}" mkdir "$dir/data" "$dir/tmp" ||
        die "the server will run as $user, who cannot reach $dir: choose a directory elsewhere"
    "$here/scripts/servers.sh" install "$kind" "$dir/data" 2>&1 | put install.log || {
        "${as[@]}" tail -n 20 "$dir/install.log" >&2
        die "cannot make $dir/data; $dir/install.log ends as above"
    }
    rm -f "$dir/data/auto.cnf"
    printf '%s\n' "$kind" | put kind
    rm "$dir/making"
}

start() {
    local port user='' words as n
    must_be_there
    mkdir -p "$1"
    dir=$(cd "$1" && pwd)
    shift
    # sockaddr_un has room for so much
    [ ${#dir} -lt 100 ] || die "$dir: that name is too long for a socket in it"
    ! server_pid >/dev/null || die "it runs already, as process $(server_pid)"
    choose_user
    make_data
    # Another server may take the port between the look and the start, and be gone again by now.
    for ((n = 0; n < 5; n++)); do
        choose_port
        ! begin "$@" || break
        grep -qi 'address already in use' "$dir/error.log" || break
        [[ " $*" != *" --port="* ]] || break
    done
    greets || {
        "${as[@]}" tail -n 20 "$dir/error.log" >&2
        die "the server ended; $dir/error.log ends as above"
    }
    server_words
    printf '%s\n' "$("${words[@]}" --version | sed 's/^.*Ver /Ver /')" \
        "answers on the socket $dir/socket and on port $port, root has no password there" \
        "scripts/servers.sh stop $kind $dir ends it"
}

# Waits until it answers; 1: it has ended.
begin() {
    local n early
    [ ! -e "$dir/error.log" ] || "${as[@]}" mv -f "$dir/error.log" "$dir/error.log.old"
    early=$(mktemp) # what it says before it has its log
    (
        cd /
        umask 077
        exec setsid "$here/scripts/servers.sh" run "$kind" --bind-address=127.0.0.1 \
            --skip-name-resolve --port="$port" --tmpdir="$dir/tmp" "$@" --datadir="$dir/data" --socket="$dir/socket" \
            --pid-file="$dir/pid" --log-error="$dir/error.log"
    ) </dev/null >"$early" 2>&1 &
    for ((n = 0; n < 600; n++)); do
        if greets || [ -z "$(jobs -r)" ]; then break; fi
        sleep 0.2
    done
    "${as[@]}" sh -c 'exec cat >>"$1"' sh "$dir/error.log" <"$early"
    rm "$early"
    [ -n "$(jobs -r)" ] || return 1
    greets || die "no answer after two minutes, see $dir/error.log; it still runs, as process $!"
}

stop() {
    local pid n user as
    dir=$(cd "$1" 2>/dev/null && pwd) || die "$1: no such directory"
    [ -e "$dir/kind" ] || die "$dir is nothing that start made"
    [ "$(cat "$dir/kind")" = "$kind" ] || die "$dir holds the data of another kind: $(cat "$dir/kind")"
    pid=$(server_pid) || die "no server runs on $dir"
    choose_user
    "${as[@]}" sh -c 'kill "$1"' sh "$pid" || die "process $pid is somebody else's: stop it as who started it"
    for ((n = 0; n < 600; n++)); do
        server_pid >/dev/null || return 0
        sleep 0.2
    done
    die "process $pid has not ended in two minutes, see $dir/error.log"
}

needs() {
    [ "$1" -ge 1 ] || {
        printf 'servers: %s wants %s\n' "$command" "$2" >&2
        exit 2
    }
}

case $command in
fetch) fetch ;;
start)
    needs $# 'a directory'
    start "$@"
    ;;
stop)
    needs $# 'a directory'
    stop "$@"
    ;;
run) run "$@" ;;
words)
    if [ $# -gt 0 ]; then tool_words "$1"; else server_words; fi
    printf '%s\n' "${words[@]}"
    ;;
tool)
    needs $# "the program's name"
    tool "$@"
    ;;
root) printf '%s\n' "$root" ;;
install)
    needs $# 'the data directory'
    install "$@"
    ;;
*)
    usage >&2
    exit 2
    ;;
esac
