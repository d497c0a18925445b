#!/usr/bin/env bash
# Prints what worldkeeper's promises come to on this machine, with the three old cron scripts beside
# it where they have the same figure: how soon a loss is noticed, how long the world is away, what the
# supervisor costs while nothing happens. Figures to read, not a test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'END'
Usage: scripts/figures.sh [--quick] [--rounds N] [--old-rounds N]

Builds, starts a private MariaDB with the demo's world, and measures. About six minutes:
the old scripts look once a minute, so each of their rounds takes that long.

  --rounds N      kill -9 of the server under worldkeeper, N times (default: 7)
  --old-rounds N  the same under the old scripts, each at a random moment of the
                  minute (default: 4; 0: leave them out)
  --quick         3 rounds, 1 of the old scripts, 10 s of idling in place of 30
  --help          this text
END
}

rounds=7 old_rounds=4 idle=30
while [ $# -gt 0 ]; do
    case $1 in
    --quick) rounds=3 old_rounds=1 idle=10 ;;
    --rounds | --old-rounds)
        [[ ${2:-} =~ ^[0-9]+$ ]] || {
            usage >&2
            exit 2
        }
        if [ "$1" = --rounds ]; then rounds=$2; else old_rounds=$2; fi
        shift
        ;;
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

# shellcheck source-path=SCRIPTDIR source=private-world.sh
. scripts/private-world.sh
PW_CRON=''
finish() {
    if [ -n "$PW_CRON" ]; then pw_end "$PW_CRON" TERM 2; fi
    pw_finish
}
trap finish EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

down=3 # seconds that the server stays away in each round

# ---------------------------------------------------------------------------------------------------
# One round: kill, start again, watch
# ---------------------------------------------------------------------------------------------------

# The verdict in status.json, in `verdict`.
read_verdict() {
    local text=''
    verdict=''
    if [ -r "$PW_DIR/status/status.json" ]; then
        IFS= read -rd '' text <"$PW_DIR/status/status.json" || true
    fi
    if [[ $text =~ \"verdict\":\ *\"([A-Z]+)\" ]]; then verdict=${BASH_REMATCH[1]}; fi
}

# one_round LOSS_KNOWN SECONDS: sets, in microseconds since the kill, `answered` (the server accepts
# connections), `known` (the command LOSS_KNOWN says that the loss is known), `begun` (the flag says
# RESTORING) and `up`.
one_round() {
    local loss_known=$1 limit=$2 old=$PW_SERVER killed started='' next=0
    answered='' known='' begun='' up=''
    kill -s KILL "$old"
    pw_now
    killed=$PW_NOW
    while [ -z "$up" ]; do
        pw_now
        if [ -z "$started" ] && [ $((PW_NOW - killed)) -ge $((down * 1000000)) ] && ! pw_alive "$old"; then
            pw_start_server
            started=$PW_NOW
        fi
        if [ -n "$started" ] && [ -z "$answered" ] && [ "$PW_NOW" -ge "$next" ]; then
            next=$((PW_NOW + 30000))
            if pw_server_answers; then
                pw_now
                answered=$((PW_NOW - killed))
            fi
        fi
        if [ -n "$answered" ]; then
            if [ -z "$known" ] && "$loss_known"; then
                pw_now
                known=$((PW_NOW - killed))
            fi
            if [ -z "$begun" ] && flag_is_restoring; then
                pw_now
                begun=$((PW_NOW - killed))
            fi
            pw_read_flag
            if [ -n "$known" ] && [ -n "$begun" ] && [ "$PW_WORD" = UP ]; then
                pw_now
                up=$((PW_NOW - killed))
            fi
        fi
        [ $((PW_NOW - killed)) -lt $((limit * 1000000)) ] || pw_die "not restored within $limit s"
        pw_nap 0.005
    done
}

verdict_is_empty() {
    read_verdict
    [ "$verdict" = EMPTY ] || flag_is_restoring
}
flag_is_restoring() {
    pw_read_flag
    case $PW_WORD in RESTORING*) ;; *) false ;; esac
}

# ---------------------------------------------------------------------------------------------------
# What a process and its children cost
# ---------------------------------------------------------------------------------------------------

# family PID: it and its children, one generation: workers have none of their own.
family() {
    local file pid line
    family=("$1")
    for file in /proc/[0-9]*/stat; do
        IFS= read -r line 2>/dev/null <"$file" || continue
        pid=${line%% *}
        line=${line##*) }
        read -r _ parent _ <<<"$line"
        if [ "$parent" = "$1" ]; then family+=("$pid"); fi
    done
}

# used PID: processor time in nanoseconds, in REPLY: of it and its living children from the scheduler's
# own account, of those that it has waited for in clock ticks, which is all that is kept of them.
used() {
    local pid line f ns sum=0
    family "$1"
    for pid in "${family[@]}"; do
        IFS= read -r line 2>/dev/null <"/proc/$pid/stat" || continue
        read -ra f <<<"${line##*) }"
        read -r ns _ 2>/dev/null <"/proc/$pid/schedstat" || continue
        sum=$((sum + ns + (f[13] + f[14]) * (1000000000 / tick)))
    done
    REPLY=$sum
}
tick=$(getconf CLK_TCK)

# cpu PID SECONDS: percent of one processor over that time, in REPLY.
cpu() {
    local before
    used "$1"
    before=$REPLY
    pw_nap "$2"
    used "$1"
    REPLY=$(awk -v ns=$((REPLY - before)) -v s="$2" 'BEGIN { printf "%.3f", ns / 1e7 / s }')
}

# memory PID...: their resident memory and, for root, their own share of it (what is shared is divided).
memory() {
    local pid rss=0 pss=0 kb
    for pid in "$@"; do
        kb=$(awk '$1 == "VmRSS:" { print $2 }' "/proc/$pid/status")
        rss=$((rss + kb))
        kb=$(awk '$1 == "Pss:" { print $2 }' "/proc/$pid/smaps_rollup" 2>/dev/null) || pss=''
        if [ -n "$pss" ]; then pss=$((pss + kb)); fi
    done
    awk -v rss="$rss" -v pss="$pss" 'BEGIN {
        printf "%.1f MB", rss / 1024
        if (pss != "") printf ", own share %.1f MB", pss / 1024
    }'
}

# ---------------------------------------------------------------------------------------------------
# The table
# ---------------------------------------------------------------------------------------------------

# seconds MICROSECONDS...: "median (least to most)".
seconds() {
    printf '%s\n' "$@" | sort -n | awk '
        { v[NR] = $1 / 1e6 }
        END {
            m = NR % 2 ? v[(NR + 1) / 2] : (v[NR / 2] + v[NR / 2 + 1]) / 2
            printf "%.2f s (%.2f to %.2f)", m, v[1], v[NR]
        }'
}
row() { printf '  %-47s %-30s%s\n' "$1" "$2" "${3:+ $3}" | sed 's/ *$//'; }

# ---------------------------------------------------------------------------------------------------

scripts/deps.sh build demo
make -j2 >/dev/null
pw_begin
cp build/release/worldkeeper "$PW_DIR/bin/"
pw_free_port
pw_install_server
pw_start_server
pw_wait_server
pw_make_world
pw_sql galaxy -e "CREATE TABLE up_sentinel (id INT PRIMARY KEY, v INT) ENGINE=MEMORY;
    INSERT INTO up_sentinel VALUES (1, 1)"
pw_start_game
pw_configure 15m
pw_keeper --init >/dev/null
pw_start_keeper
pw_wait_flag UP 20 || pw_die 'the flag did not go UP'
pw_wait_dump 20 || pw_die 'no first dump within 20 s'
pw_nap 2

echo "worldkeeper: idle for $idle s" >&2
cpu "$PW_KEEPER" "$idle"
keeper_cpu=$REPLY
family "$PW_KEEPER"
all_memory=$(memory "${family[@]}")
each_memory=()
for pid in "${family[@]}"; do each_memory+=("$(memory "$pid")"); done

notice=() begin=() outage=() work=()
for ((i = 1; i <= rounds; i++)); do
    echo "worldkeeper: kill -9, round $i of $rounds" >&2
    one_round verdict_is_empty 60
    notice+=($((known - answered)))
    begin+=($((begun - answered)))
    outage+=("$up")
    work+=($((up - answered)))
    pw_nap 3
done
pw_end "$PW_KEEPER" TERM
PW_KEEPER=''

old_cpu='-' old_memory='-' old_begin=() old_outage=() old_work=()
if [ "$old_rounds" -gt 0 ]; then
    old=$PW_DIR/old
    cp -r tests/old-scripts "$old"
    mkdir "$old/dumps"
    cat >"$old/settings.sh" <<END
BASE=$old
DB=galaxy
DBUSER=worldkeeper
DBPASS=$PW_PASSWORD
SOCKET=$PW_SOCKET
SENTINEL=up_sentinel
FLAG=$PW_FLAG
DUMPS=$old/dumps
ADMIN=admin@example.com
END
    chmod 0600 "$old/settings.sh"
    echo UP >"$PW_FLAG"
    if [ "$(id -u)" = 0 ]; then chown -h -R "$PW_USER" "$old" "$PW_FLAG"; fi
    (pw_as_user "$old/dump.sh")
    pw_as_user "$old/cron.sh" "$old" >/dev/null 2>&1 </dev/null &
    PW_CRON=$!
    disown "$PW_CRON"
    echo "old scripts: idle for a minute" >&2
    cpu "$PW_CRON" 60
    old_cpu="$REPLY %" old_memory='none between its runs'
    for ((i = 1; i <= old_rounds; i++)); do
        phase=$((RANDOM % 60))
        pw_now
        wait=$(((60 + phase - PW_NOW / 1000000 % 60) % 60))
        echo "old scripts: kill -9 at second $phase of the minute, round $i of $old_rounds" >&2
        pw_nap "$wait.3"
        one_round flag_is_restoring 200
        old_begin+=($((begun - answered)))
        old_outage+=("$up")
        old_work+=($((up - answered)))
    done
fi

echo >&2
old_seconds() { if [ "$old_rounds" -gt 0 ]; then seconds "$@"; else printf -- '-'; fi; }
echo "$(pw_sql -e "SELECT FORMAT(SUM(table_rows), 0) FROM information_schema.tables
    WHERE table_schema = 'galaxy' AND engine = 'MEMORY'") rows, MariaDB $(pw_sql -e 'SELECT @@version'), down for $down s each time."
printf 'Times: median (least to most) of %d rounds' "$rounds"
if [ "$old_rounds" -gt 0 ]; then printf ', of %d for the old scripts' "$old_rounds"; fi
echo .
echo
row '' worldkeeper 'old scripts'
row 'server answers -> verdict EMPTY (at most 2 s)' "$(seconds "${notice[@]}")" '-'
row 'server answers -> the restore begins' "$(seconds "${begin[@]}")" "$(old_seconds "${old_begin[@]}")"
row 'server answers -> UP' "$(seconds "${work[@]}")" "$(old_seconds "${old_work[@]}")"
row 'kill -9 -> UP, the whole outage' "$(seconds "${outage[@]}")" "$(old_seconds "${old_outage[@]}")"
row 'idle, processor (under 0.2 %)' "$keeper_cpu %" "$old_cpu"
row 'idle, resident memory (under 12 MB)' "$all_memory" "$old_memory"
row '  of that the supervisor' "${each_memory[0]}"
for one in "${each_memory[@]:1}"; do row '  a worker' "$one"; done
