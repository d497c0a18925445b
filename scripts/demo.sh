#!/usr/bin/env bash
# Shows in under a minute what worldkeeper does: a private MariaDB with a small MEMORY-table world and
# a game that writes to it, the real daemon, kill -9 of the server, and the world back by itself.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'END'
Usage: scripts/demo.sh [--keep]

Installs what is missing from Debian's packages, builds, starts a private MariaDB with
a small world in a temporary directory, kills the server with kill -9, starts it again
and shows how worldkeeper puts the world back. Leaves nothing behind; exits non-zero
when the world was not restored.

  --keep   leave everything running at the end, and say how to look around
  --help   this text
END
}

keep=no
case ${1:-} in
'') ;;
--keep) keep=yes ;;
--help)
    usage
    exit 0
    ;;
*)
    usage >&2
    exit 2
    ;;
esac

# shellcheck source-path=SCRIPTDIR source=private-world.sh
. scripts/private-world.sh
# shellcheck disable=SC2034 # private-world.sh reads it
PW_STAY=$keep

trap 'pw_finish' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

item() { printf '  %-12s %s\n' "$1" "$2"; }

# 1234567 as 1,234,567
group() {
    local n=$1 out=''
    while [ ${#n} -gt 3 ]; do out=,${n: -3}$out n=${n:0:-3}; done
    printf '%s%s' "$n" "$out"
}

# event FLAG TEXT: one line of the time table, with the seconds since the kill.
event() {
    local us=$((PW_NOW - killed)) sign='' time
    if [ "$us" -lt 0 ]; then sign=- us=$((-us)); fi
    printf -v time '%s%d.%02d' "$sign" $((us / 1000000)) $((us % 1000000 / 10000))
    printf '  %8s s   %-10s  %s\n' "$time" "$1" "$2"
}

# count_rows SCHEMA ARRAY: rows of each table, in the order of PW_TABLES.
count_rows() {
    local table query=''
    for table in "${PW_TABLES[@]}"; do query+="SELECT COUNT(*) FROM $1.$table;"; done
    mapfile -t "$2" < <(pw_sql -e "$query")
}

checksums() {
    local table query=''
    for table in "${PW_TABLES[@]}"; do query+="CHECKSUM TABLE $1.$table;"; done
    pw_sql -e "$query" | cut -f 2
}

total() {
    local n sum=0
    for n in "$@"; do sum=$((sum + n)); done
    group "$sum"
}

failed() {
    tail -n 15 "$PW_LOG" >&2
    pw_die "$1; the log of worldkeeper ends as above"
}

set_up() {
    local log start=$SECONDS
    echo 'Set-up'
    scripts/deps.sh build demo
    log=$(mktemp)
    make -j2 >"$log" 2>&1 || {
        tail -n 30 "$log" >&2
        rm -f "$log"
        pw_die 'the build failed; its output ends as above'
    }
    rm -f "$log"
    item build "build/release/worldkeeper, $((SECONDS - start)) s"

    pw_begin
    cp build/release/worldkeeper "$PW_DIR/bin/"
    pw_free_port
    pw_install_server
    pw_start_server
    pw_wait_server
    item server "MariaDB $(pw_sql -e 'SELECT @@version'), private, port $PW_PORT"
    pw_make_world
    pw_start_game
    item world 'schema galaxy, four MEMORY tables; a game gives about 20 orders a second'

    pw_configure 15m
    pw_keeper --init >"$PW_DIR/init.log" 2>&1 || {
        cat "$PW_DIR/init.log" >&2
        pw_die 'worldkeeper --init failed'
    }
    pw_nap 1
    pw_start_keeper
    pw_wait_flag UP "$patience" || failed 'the flag did not go UP'
    pw_wait_dump "$patience" || failed "no first dump within $patience s"
    pw_now
    dumped=$PW_NOW
    item worldkeeper 'probes each second, dumps each 15 minutes; the first dump is there'
}

# Kills the server, starts it again three seconds later, and tells what the flag file says until it
# says UP again.
kill_and_watch() {
    local old=$PW_SERVER started='' answered='' next_try=0 shown=UP
    seen=UP
    kill -s KILL "$old"
    pw_now
    killed=$PW_NOW

    echo '  since kill   flag file   what happens'
    PW_NOW=$dumped
    event UP "worldkeeper has its dump, the game plays on"
    PW_NOW=$killed
    event UP "kill -9 of the server, with $(total "${before[@]}") rows in the world"

    while :; do
        pw_now
        if [ -z "$started" ] && [ $((PW_NOW - killed)) -ge 3000000 ] && ! pw_alive "$old"; then
            pw_start_server
            started=yes
            event "$shown" 'the server is started again'
        fi
        if [ -n "$started" ] && [ -z "$answered" ] && [ "$PW_NOW" -ge "$next_try" ]; then
            next_try=$((PW_NOW + 50000))
            if pw_server_answers; then
                answered=yes
                pw_now
                event "$shown" 'the server answers; its tables are empty'
            fi
        fi
        pw_read_flag
        PW_WORD=${PW_WORD%%.*} # RESTORING gets a dot for each minute
        if [ -n "$PW_WORD" ] && [ "$PW_WORD" != "$shown" ]; then
            pw_now
            shown=$PW_WORD
            seen+=" $shown"
            case $shown in
            WAITING) event "$shown" 'worldkeeper sees no server' ;;
            RESTORING) event "$shown" 'worldkeeper sees the loss and puts the world back' ;;
            UP) return 0 ;;
            esac
        fi
        if [ $((PW_NOW - killed)) -gt $((patience * 1000000)) ]; then
            failed "the world was not restored within $patience s"
        fi
        pw_alive "$PW_KEEPER" || failed 'worldkeeper ended'
        pw_nap 0.005
    done
}

# The world must be what it was when its server was killed, bit for bit. The dump, which the stock client
# loads beside it, is older: the rest came out of the binary log.
prove() {
    local i
    pw_sql -e 'CREATE DATABASE proof'
    gunzip -c "$PW_DIR/dumps/$PW_DUMP.sql.gz" | pw_sql proof
    count_rows proof in_dump
    printf '  %-14s %15s %15s %15s\n' 'rows of' 'before the kill' 'in the dump' 'afterwards'
    for i in "${!PW_TABLES[@]}"; do
        printf '  %-14s %15s %15s %15s\n' "${PW_TABLES[i]}" "$(group "${before[i]}")" \
            "$(group "${in_dump[i]}")" "$(group "${after[i]}")"
    done
    echo
    [ "$(checksums galaxy)" = "$sums" ] ||
        failed 'the world is not what it was before the kill: checksums differ'
    pw_sql -e 'DROP DATABASE proof'
}

# What to type to look around, as scripts in the demo's directory.
leave_running() {
    local as='' dir words
    if [ "$(id -u)" = 0 ]; then
        as="setpriv --reuid $PW_USER --regid $(id -g "$PW_USER") --clear-groups "
    fi
    # The directory is where TMPDIR says, whose name may have blanks.
    printf -v dir %q "$PW_DIR"
    mapfile -d '' -t words <"/proc/$PW_SERVER/cmdline"
    cat >"$PW_DIR/wk" <<END
#!/bin/bash
exec $as$dir/bin/worldkeeper --config $dir/world.ini "\$@"
END
    cat >"$PW_DIR/end" <<END
#!/bin/bash
kill -KILL -- -$PW_GAME
kill $PW_KEEPER
kill -KILL \$(cat $dir/data/pid)
sleep 1
rm -rf $dir
END
    cat >"$PW_DIR/restart-server" <<END
#!/bin/bash
# kill -9 of the server, and a new one.
kill -KILL \$(cat $dir/data/pid)
sleep 3
$as$(printf '%q ' "${words[@]}")>/dev/null 2>&1 </dev/null &
END
    chmod 0755 "$PW_DIR"/{wk,end,restart-server}
    cat <<END

Everything is still running, in $PW_DIR:
  flag file       cat $(printf %q "$PW_FLAG")
  state           $dir/wk --status
  dumps           $dir/wk --list
  log             tail -f $(printf %q "$PW_LOG")
  the world       mariadb --no-defaults --socket=$(printf %q "$PW_SOCKET") --user=root galaxy
  kill again      $dir/restart-server
  end it all      $dir/end
END
    trap - EXIT
}

before=() after=() in_dump=()
patience=${DEMO_PATIENCE:-120} # seconds; a test in which it fails waits for less
echo 'worldkeeper: a world in memory, its server killed, the world back by itself'
echo
set_up
pw_nap 5
# The game stands still from the kill until everything is counted, so that the figures are exact.
pw_pause_game
pw_nap 0.1
count_rows galaxy before
sums=$(checksums galaxy)
echo
kill_and_watch
count_rows galaxy after
restored=$PW_NOW
event UP "the world is back, with $(total "${after[@]}") rows"
echo
prove
pw_resume_game

younger=$((before[3] - in_dump[3]))
# Microseconds as seconds: 3.66
as_seconds() { printf '%d.%02d' $(($1 / 1000000)) $(($1 % 1000000 / 10000)); }
cat <<END
Restored: every table is, bit for bit, what it was when the server was killed.
Outage: $(as_seconds $((restored - killed))) s from the kill to UP, three of them without a server.
Lost: nothing. $(group "$younger") orders, and what they had changed, were written in the $(as_seconds $((killed - dumped))) s since
the last dump; they came back out of the server's binary log.
END

case $seen in
'UP WAITING RESTORING UP') ;;
*) failed "the flag file should have said UP, WAITING, RESTORING, UP, and said: $seen" ;;
esac
[ "$keep" = no ] || leave_running
