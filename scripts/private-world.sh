# shellcheck shell=bash
# Sourced by demo.sh and figures.sh: a private MariaDB in a temporary directory, a small MEMORY-table
# world with a game that writes to it, and a worldkeeper that keeps it. Nothing of the system's own
# database is touched.
#
# Set by pw_begin:  PW_DIR  everything is in here; PW_USER  who server and daemon run as.
# Children are known by their pids, in PW_SERVER, PW_GAME and PW_KEEPER (empty: not running), and are
# killed by the kernel when the shell that started them is, unless PW_STAY=yes.

PW_SERVER='' PW_GAME='' PW_KEEPER=''
PW_STAY=no
PW_PASSWORD=$(od -An -N12 -tx1 /dev/urandom | tr -d ' \n')

pw_die() {
    printf '%s: %s\n' "${0##*/}" "$*" >&2
    exit 1
}

# Microseconds since 1970 in PW_NOW, without starting a process.
# shellcheck disable=SC2034 # for those who source this
pw_now() { PW_NOW=${EPOCHREALTIME/[.,]/}; }

# Sleeps without starting a process: waits for input that never comes.
exec {PW_NAP}<> <(:)
pw_nap() { read -rt "$1" -u "$PW_NAP" || true; }

# Runs a command as the unprivileged user, and so that it dies with this shell.
pw_as_user() {
    local how=()
    [ "$PW_STAY" = yes ] || how+=(--pdeathsig KILL)
    [ "$(id -u)" != 0 ] || how+=(--reuid "$PW_USER" --regid "$(id -g "$PW_USER")" --clear-groups)
    if [ ${#how[@]} -gt 0 ]; then exec setpriv "${how[@]}" -- "$@"; fi
    exec "$@"
}

pw_begin() {
    PATH=$PATH:/usr/sbin:/sbin # mariadbd lives there, not in everyone's PATH
    PW_USER=$(id -un)
    if [ "$(id -u)" = 0 ]; then
        PW_USER=nobody
        if id -u mysql >/dev/null 2>&1; then PW_USER=mysql; fi
    fi
    umask 022
    local base=${TMPDIR:-/tmp}
    # Root's own temporary directory may be closed to others.
    (pw_as_user test -x "$base") 2>/dev/null || base=/tmp
    PW_DIR=$(mktemp -d "$base/worldkeeper-XXXXXX")
    mkdir "$PW_DIR"/{bin,data,status,dumps,run,tmp}
    chmod 0755 "$PW_DIR" "$PW_DIR"/{bin,status}
    chmod 0700 "$PW_DIR"/{data,dumps,run,tmp}
    export TMPDIR=$PW_DIR/tmp
    printf '%s\n' "$PW_PASSWORD" >"$PW_DIR/password"
    chmod 0600 "$PW_DIR/password"
    PW_SOCKET=$PW_DIR/data/mysqld.sock
    PW_FLAG=$PW_DIR/status/index.html
    PW_LOG=$PW_DIR/worldkeeper.log
    : >"$PW_LOG"
    # Not the directory itself: root's files in it stay root's.
    if [ "$(id -u)" = 0 ]; then chown "$PW_USER" "$PW_DIR"/{data,status,dumps,run,tmp,password}; fi
}

# A child that has ended is not alive, even before this shell has been told of its end.
pw_alive() {
    local stat
    [ -n "$1" ] && kill -0 "$1" 2>/dev/null && read -r stat 2>/dev/null <"/proc/$1/stat" && [[ ${stat##*) } != Z* ]]
}

# pw_end PID [SIGNAL [SECONDS]]: ends a child, by force when it does not listen, and waits for that.
pw_end() {
    local pid=$1 tries
    pw_alive "$pid" || return 0
    kill -s "${2:-TERM}" "$pid" 2>/dev/null || true
    for ((tries = 0; tries < ${3:-10} * 20; tries++)); do
        pw_alive "$pid" || return 0
        pw_nap 0.05
    done
    kill -s KILL "$pid" 2>/dev/null || true
    while pw_alive "$pid"; do pw_nap 0.02; done
}

# Ends everything and removes the directory.
pw_finish() {
    if [ -n "$PW_GAME" ]; then kill -s KILL -- "-$PW_GAME" 2>/dev/null || true; fi
    pw_end "$PW_KEEPER" TERM
    pw_end "$PW_SERVER" KILL
    PW_GAME='' PW_KEEPER='' PW_SERVER=''
    if [ -n "${PW_DIR:-}" ]; then rm -rf --one-file-system "$PW_DIR"; fi
}

pw_sql() { mariadb --no-defaults --socket="$PW_SOCKET" --user=root --skip-column-names --batch "$@"; }

# A port that nobody listens on.
pw_free_port() {
    while :; do
        PW_PORT=$((20000 + RANDOM % 12000))
        # shellcheck disable=SC2188 # only the attempt to connect matters
        if ! (: <>"/dev/tcp/127.0.0.1/$PW_PORT") 2>/dev/null; then return 0; fi
    done
}

pw_install_server() {
    (cd "$PW_DIR" && pw_as_user mariadb-install-db --no-defaults --datadir="$PW_DIR/data" \
        --auth-root-authentication-method=normal --skip-test-db --force --innodb-log-file-size=4M) \
        >"$PW_DIR/install.log" 2>&1 || {
        tail -n 20 "$PW_DIR/install.log" >&2
        pw_die "the private MariaDB could not be set up; its log ends as above"
    }
}

# Starts the server in the background; pw_wait_server waits for it.
pw_start_server() {
    pw_as_user mariadbd --no-defaults --datadir="$PW_DIR/data" --socket="$PW_SOCKET" \
        --bind-address=127.0.0.1 --port="$PW_PORT" --pid-file="$PW_DIR/data/pid" \
        --log-error="$PW_DIR/data/error.log" --innodb-buffer-pool-size=16M --innodb-log-file-size=4M \
        --performance-schema=off --skip-name-resolve --server-id=1 --log-bin=binlog \
        --binlog-format=ROW >/dev/null 2>&1 </dev/null &
    PW_SERVER=$!
    disown "$PW_SERVER"
}

pw_server_answers() { pw_sql -e 'SELECT 1' >/dev/null 2>&1; }

pw_wait_server() {
    local tries
    for ((tries = 0; tries < 600; tries++)); do
        if pw_server_answers; then return 0; fi
        pw_alive "$PW_SERVER" || break
        pw_nap 0.05
    done
    tail -n 20 "$PW_DIR/data/error.log" >&2
    pw_die "the private MariaDB did not start; its log ends as above"
}

# The world: schema galaxy, and the account that worldkeeper uses.
pw_make_world() {
    pw_sql <<END
CREATE DATABASE galaxy CHARACTER SET utf8mb4;
USE galaxy;
CREATE TABLE players (id INT UNSIGNED PRIMARY KEY, nick VARCHAR(40) NOT NULL, points BIGINT NOT NULL,
    UNIQUE KEY (nick)) ENGINE=MEMORY;
INSERT INTO players SELECT seq, CONCAT('player', seq), FLOOR(RAND(1) * 1e6) FROM seq_1_to_2000;
CREATE TABLE planets (id INT UNSIGNED PRIMARY KEY, owner INT UNSIGNED NOT NULL, name VARCHAR(60) NOT NULL,
    x INT NOT NULL, y INT NOT NULL, ore DOUBLE NOT NULL, KEY (owner)) ENGINE=MEMORY;
INSERT INTO planets SELECT seq, 1 + seq % 2000, CONCAT('Bolygó ', seq, ' ★'), RAND(1) * 1e5, RAND(2) * 1e5,
    RAND(3) * 1e6 FROM seq_1_to_20000;
CREATE TABLE fleets (id INT UNSIGNED PRIMARY KEY, owner INT UNSIGNED NOT NULL, ships INT NOT NULL,
    goal INT UNSIGNED NULL, KEY (owner)) ENGINE=MEMORY;
INSERT INTO fleets SELECT seq, 1 + seq % 2000, 1 + RAND(4) * 500, IF(seq % 3, NULL, seq) FROM seq_1_to_8000;
CREATE TABLE orders (id INT UNSIGNED AUTO_INCREMENT PRIMARY KEY, fleet INT UNSIGNED NOT NULL,
    goal INT UNSIGNED NOT NULL, given DATETIME(3) NOT NULL) ENGINE=MEMORY;
CREATE USER worldkeeper@localhost IDENTIFIED BY '$PW_PASSWORD';
GRANT SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, CREATE TEMPORARY TABLES, TRIGGER, SHOW VIEW,
    EVENT ON galaxy.* TO worldkeeper@localhost;
GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO worldkeeper@localhost;
GRANT SELECT, INSERT, UPDATE, CREATE, DROP, ALTER, LOCK TABLES, TRIGGER ON \`worldkeeper\\_drill\\_demo\`.*
    TO worldkeeper@localhost;
END
}
# shellcheck disable=SC2034 # for those who source this
PW_TABLES=(players planets fleets orders)

# The game: about twenty orders a second, each of which changes a planet and a fleet too. When the
# server goes away it connects again, ten times a second. It ends with its directory, or with the
# shell that started it.
pw_goes_on() { [ -d "$PW_DIR" ] && { [ "$PW_STAY" = yes ] || kill -0 $$ 2>/dev/null; }; }
pw_play() {
    while pw_goes_on; do
        while pw_goes_on; do
            printf 'INSERT INTO orders (fleet, goal, given) VALUES (%d, %d, NOW(3));' \
                $((1 + RANDOM % 8000)) $((1 + RANDOM % 20000))
            printf 'UPDATE planets SET ore = ore + 1.5 WHERE id = %d;' $((1 + RANDOM % 20000))
            printf 'UPDATE fleets SET ships = ships + 1 WHERE id = %d;\n' $((1 + RANDOM % 8000))
            pw_nap 0.05
        done | pw_sql galaxy || true
        pw_nap 0.1
    done >/dev/null 2>&1
}

# In a process group of its own, so that it can be stopped and ended as a whole.
pw_start_game() {
    set -m
    pw_play </dev/null >/dev/null 2>&1 &
    PW_GAME=$!
    disown "$PW_GAME"
    set +m
}
pw_pause_game() { kill -s STOP -- "-$PW_GAME"; }
pw_resume_game() { kill -s CONT -- "-$PW_GAME"; }

# pw_configure INTERVAL: the config, with everything else as it is by default.
pw_configure() {
    cat >"$PW_DIR/world.ini" <<END
[world]
name = demo
schema = galaxy

[mysql]
socket = $PW_SOCKET
user = worldkeeper
password_file = $PW_DIR/password

[dump]
dir = $PW_DIR/dumps
interval = $1

[status]
dir = $PW_DIR/status

[control]
dir = $PW_DIR/run
END
}

# pw_keeper ARGUMENT...: one action of worldkeeper.
pw_keeper() { (pw_as_user "$PW_DIR/bin/worldkeeper" --config "$PW_DIR/world.ini" "$@"); }

pw_start_keeper() {
    pw_as_user "$PW_DIR/bin/worldkeeper" --config "$PW_DIR/world.ini" --run >>"$PW_LOG" 2>&1 </dev/null &
    PW_KEEPER=$!
    disown "$PW_KEEPER"
}

# The word in the flag file, without starting a process: PW_WORD, empty when there is none.
pw_read_flag() {
    PW_WORD=''
    if [ -r "$PW_FLAG" ]; then read -r PW_WORD <"$PW_FLAG" || true; fi
}

# pw_wait_flag WORD SECONDS
pw_wait_flag() {
    local tries
    for ((tries = 0; tries < $2 * 100; tries++)); do
        pw_read_flag
        case $PW_WORD in "$1"*) return 0 ;; esac
        pw_nap 0.01
    done
    return 1
}

# The newest dump's name, empty when there is none: its manifest is what makes it a dump.
pw_newest_dump() {
    local file
    PW_DUMP=''
    for file in "$PW_DIR"/dumps/demo-*.json; do
        if [ -e "$file" ]; then PW_DUMP=${file##*/} PW_DUMP=${PW_DUMP%.json}; fi
    done
}

# pw_wait_dump SECONDS: until there is one.
pw_wait_dump() {
    local tries
    for ((tries = 0; tries < $1 * 20; tries++)); do
        pw_newest_dump
        if [ -n "$PW_DUMP" ]; then return 0; fi
        pw_nap 0.05
    done
    return 1
}
