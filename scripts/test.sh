#!/usr/bin/env bash
# Runs every check there is, goes on after a failure, and closes with one line: N passed, N failed.
# A skipped test counts as failed, and so does a step that did not say how many tests it ran.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

usage() {
    cat <<'END'
Usage: scripts/test.sh [STEP...]

Installs what is missing from Debian's packages and runs all steps but "system" and "unit" (what "system-san"
and "unit-san" run more slowly), or the named ones. WK_SEED=N takes other random worlds, kills and faults:
END
    printf '  %s\n' "${!title[@]}" | sort
}

declare -A title=(
    [build]='build, release'
    [build-san]='build, sanitizers'
    [lint]='C: format, cppcheck, clang-tidy'
    [shell]='shell: shellcheck'
    [man]='man page: mandoc, groff'
    [install]='make install'
    [systemd]='unit: verify, security at most 1.2'
    [unit]='unit tests, release'
    [unit-san]='unit tests, sanitizers'
    [unit-oracle]="unit tests, Oracle's client library"
    [fuzz]='what the fuzzers found, once'
    [system]='system tests, release'
    [system-san]='system tests, sanitizers'
    [system-mysql]='system tests on MySQL, release'
    [system-oracle]="system tests, Oracle's library"
    [soak]='soak, five minutes of it'
    [faults]='faults, a share of each kind'
    [scripts]='tests of the scripts, demo'
)
order=(build build-san lint shell man install systemd unit-san unit-oracle fuzz system-mysql
    soak faults system-oracle system-san scripts)

case ${1:-} in
--help)
    usage
    exit 0
    ;;
esac
for name in "$@"; do
    [ -n "${title[$name]:-}" ] || {
        usage >&2
        exit 2
    }
done
[ $# -eq 0 ] || order=("$@")

out=$PWD/build/test
stage=$PWD/build/stage
mkdir -p "$out"

# Sanitizers: any finding ends the program with an exit status that no test expects.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
export PYTHONDONTWRITEBYTECODE=1

# Each step writes to its log and leaves in `ran` and `bad` how many tests passed and failed; a step
# that is no set of tests is one test.
ran=0 bad=0

run_build() { make -j2; }
run_build_san() { make -j2 SAN=1; }
# `make lint` looks at more states of each function, for three times as long.
run_lint() { make lint ANALYZER_NODES=50000; }
run_shell() {
    local files
    mapfile -t files < <(find scripts .ci tests/scripts -type f \( -name '*.sh' -o -path .ci/run \) | sort)
    shellcheck -x -P SCRIPTDIR "${files[@]}" && echo "clean: ${files[*]}"
}
run_man() {
    local said
    mandoc -T lint -W warning etc/worldkeeper.8 || return 1
    said=$(groff -mandoc -ww -T utf8 etc/worldkeeper.8 2>&1 >/dev/null)
    [ -z "$said" ] || {
        printf '%s\n' "$said"
        return 1
    }
}
run_install() {
    rm -rf "$stage"
    make install PREFIX="$stage" SYSCONFDIR="$stage/etc" && "$stage/bin/worldkeeper" --version &&
        find "$stage" -type f | sort
}
run_systemd() {
    local unit="$stage/lib/systemd/system/worldkeeper@.service"
    [ -f "$unit" ] || run_install || return 1
    grep -n '@PREFIX@' "$unit" && return 1
    local said
    said=$(systemd-analyze verify --man=no "$unit" 2>&1)
    # Only what it says of this unit: another one on this machine is not ours to mend.
    if grep worldkeeper <<<"$said"; then return 1; fi
    systemd-analyze security --offline=true --threshold=12 --no-pager "$unit"
}

# cmocka in its TAP form; a program that died says less than it announced.
count_tap() {
    local log=$1 rc=$2
    ran=$(grep -cE '^ok ' "$log")
    bad=$(grep -cE '^not ok ' "$log")
    local skipped planned
    skipped=$(grep -cE '^ok .*# *SKIP' "$log")
    ran=$((ran - skipped)) bad=$((bad + skipped))
    planned=$(sed -n 's/^1\.\.//p' "$log" | awk '{ n += $1 } END { print n + 0 }')
    if [ $((ran + bad)) -lt "$planned" ]; then bad=$((planned - ran)); fi
    if [ "$rc" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    if [ "$ran" = 0 ] && [ "$bad" = 0 ]; then bad=1; fi
}
run_unit() { CMOCKA_MESSAGE_OUTPUT=TAP make -j2 unit; }
run_fuzz() { make fuzz-replay; }
run_unit_san() { CMOCKA_MESSAGE_OUTPUT=TAP make -j2 unit SAN=1; }

# The same random worlds, kills and faults in each run, so that what fails is what was changed;
# `make ledger`, `make faults` and `make soak` take others each time.
seed=${WK_SEED:-20261127}

# As whom `as` says.
as=()
pytest() {
    local name=$1
    shift
    rm -f "$out/$name.xml"
    "${as[@]}" timeout --kill-after=30 1200 env "WK_SEED=$seed" "WK_FAULT_SEED=$seed" \
        /usr/bin/python3 -m pytest -q -p no:cacheprovider -rfEsxX --junitxml="$out/$name.xml" -n 8 "$@"
}
count_junit() {
    local suite tests failures errors skipped
    suite=$(grep -o '<testsuite [^>]*' "$out/$1.xml" 2>/dev/null | head -n 1)
    number() { sed -n "s/.* $1=\"\([0-9]*\)\".*/\1/p" <<<"$suite"; }
    tests=$(number tests) failures=$(number failures) errors=$(number errors) skipped=$(number skipped)
    bad=$((${failures:-0} + ${errors:-0} + ${skipped:-0}))
    ran=$((${tests:-0} - bad))
    if [ "$2" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    if [ "$ran" = 0 ] && [ "$bad" = 0 ]; then bad=1; fi
}
# Everything runs once on each server, on one of them with sanitizers.
run_system_san() { WORLDKEEPER=$PWD/build/san/worldkeeper pytest system-san tests/system; }
run_system() { WORLDKEEPER=$PWD/build/release/worldkeeper pytest system tests/system; }
# What cannot be fetched fails, and what an earlier run found does not count for this one.
run_system_mysql() {
    rm -f "$out/system-mysql.xml"
    scripts/servers.sh fetch mysql || return 1
    WK_KIND=mysql WORLDKEEPER=$PWD/build/release/worldkeeper pytest system-mysql tests/system
}
# In Debian sid, which has Oracle's client library; what is built there runs here too.
run_unit_oracle() { CMOCKA_MESSAGE_OUTPUT=TAP scripts/oracle-client.sh; }
# A share: connecting, reading rows.
run_system_oracle() {
    rm -f "$out/system-oracle.xml"
    scripts/oracle-client.sh --no-unit || return 1
    WK_KIND=mysql WORLDKEEPER=$PWD/build/oracle/worldkeeper pytest system-oracle \
        tests/system/test_{connection,dump_exact}.py
}
run_soak() {
    WORLDKEEPER=$PWD/build/release/worldkeeper timeout --kill-after=30 900 \
        tests/soak/soak.py --seconds 300 --pause 0.02 --seed "$seed" --out "$out"
}
# Disks that break have to be mounted.
run_faults() {
    local binary=$PWD/build/release/worldkeeper as=()
    [ "$(id -u)" = 0 ] || as=(sudo env "PATH=$PATH" PYTHONDONTWRITEBYTECODE=1 "WORLDKEEPER=$binary")
    WORLDKEEPER=$binary pytest faults tests/faults
}
run_scripts() { pytest scripts tests/scripts; }

scripts/deps.sh test || {
    echo '0 passed, 1 failed'
    exit 1
}

# Debian sid, which the steps of MySQL and of Oracle's library wait for, comes while others run. Whether it
# could be had they say themselves.
case " ${order[*]} " in
*" system-mysql "* | *oracle*) scripts/servers.sh fetch mysql >"$out/fetch.log" 2>&1 </dev/null & ;;
esac

# These wait more than they work: begun beside another step, when both are asked for.
declare -A beside=([soak]=system-mysql [scripts]=system-san) begun=()
begin_beside() {
    local name
    for name in "${!beside[@]}"; do
        case " ${order[*]} " in *" $1 "*"$name "*) ;; *) continue ;; esac
        [ "${beside[$name]}" = "$1" ] || continue
        "run_${name//-/_}" >"$out/$name.log" 2>&1 </dev/null &
        begun[$name]=$!
    done
}

passed=0 failed=0
printf '%-36s %7s %7s %8s\n' step passed failed time
for name in "${order[@]}"; do
    log=$out/$name.log
    start=$SECONDS
    begin_beside "$name"
    rc=0
    if [ -n "${begun[$name]:-}" ]; then
        wait "${begun[$name]}" || rc=$?
    else
        "run_${name//-/_}" >"$log" 2>&1 </dev/null || rc=$?
    fi
    ran=0 bad=0
    case $name in
    unit*) count_tap "$log" "$rc" ;;
    system | system-* | faults | scripts) count_junit "$name" "$rc" ;;
    *) if [ "$rc" = 0 ]; then ran=1; else bad=1; fi ;;
    esac
    passed=$((passed + ran)) failed=$((failed + bad))
    printf '%-36s %7d %7d %6d s\n' "${title[$name]}" "$ran" "$bad" $((SECONDS - start))
    if [ "$bad" != 0 ]; then
        printf '  %s ends:\n' "${log#"$PWD/"}"
        tail -n 40 "$log" | sed 's/^/  | /'
    fi
done
wait
printf '\n%d passed, %d failed\n' "$passed" "$failed"
[ "$failed" = 0 ]
