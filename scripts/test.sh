#!/usr/bin/env bash
# Runs every check there is, goes on after a failure, and closes with one line: N passed, N failed, and how many were
# skipped, where this machine does not allow some (tests/machine.py). A test that is skipped for any other reason
# counts as failed, and so does a step that did not say how many tests it ran.
#
# A test that fails now and then is a defect, of the test or of the program, and is named with what it printed. It does
# not also hold up what other tests prove: up to two in a run are run once more, alone, and count as passed if they pass.
# Not after a finding of the sanitizers, which is one however seldom it comes.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

usage() {
    cat <<'END'
Usage: scripts/test.sh [STEP... | core | --quick]

Installs what is missing from Debian's packages and runs all steps but "system", "system-core", "system-quick" and "unit"
(what "system-san" and "unit-san" run more slowly), or the named ones. "core" is "build unit system-core", with few packages:
what another Debian, with other libraries and another server, could break first. --quick is "build unit system-quick":
one system test of each feature, on MariaDB. WK_SEED=N takes other random worlds,
kills and faults.
Where system tests run on both kinds of server, each kind runs its share of them, and "core" a share of their sweeps
(tests/system/README.md).
WK_WHOLE=yes runs everything on each, and all unit tests with Oracle's library, as make nightly does.
Up to two tests that fail are run once more, alone, but not with WK_WHOLE=yes or WK_AGAIN=no. Steps:
END
    printf '  %s\n' "${!title[@]}" | sort
}

declare -A title=(
    [build]='build, release'
    [build-san]='build, sanitizers'
    [lint]='C: format, cppcheck, clang-tidy'
    [models]='models of standby and swap: Spin'
    [shell]='shell: shellcheck'
    [man]='man page: mandoc, groff'
    [install]='make install'
    [systemd]='unit: verify, security at most 1.2'
    [unit]='unit tests, release'
    [unit-san]='unit tests, sanitizers'
    [unit-oracle]="unit tests, Oracle's client library"
    [fuzz]='what the fuzzers found, once'
    [system]='system tests, release'
    [system-core]='system tests of the core, release'
    [system-quick]='system tests, one of each feature'
    [system-san]='system tests, sanitizers'
    [system-mysql]='system tests on MySQL, release'
    [system-oracle]="system tests, Oracle's library"
    [soak]='soak, two minutes of it'
    [faults]='faults, a share of each kind'
    [scripts]='tests of the scripts, demo'
)
order=(build build-san install systemd unit-san unit-oracle fuzz system-mysql soak
    system-san scripts faults system-oracle lint shell man models)
# Tests wait, and leave processors idle. Beside the tests of a step run those that leave much of them, one after the
# other, when both are asked for.
declare -A beside=([system-mysql]=soak [system-san]='scripts faults system-oracle')
# These only compute, and no other step needs them: behind the others, in all gaps.
behind=(lint shell man models)

case ${1:-} in
--help)
    usage
    exit 0
    ;;
esac
[ "$*" != core ] || set -- build unit system-core
[ "$*" != --quick ] || set -- build unit system-quick
for name in "$@"; do
    [ -n "${title[$name]:-}" ] || {
        usage >&2
        exit 2
    }
done
[ $# -eq 0 ] || order=("$@")
few=''
[ "$*" != "build unit system-core" ] || few=yes

out=$PWD/build/test
mkdir -p "$out"

# Sanitizers: any finding ends the program with an exit status that no test expects.
export ASAN_OPTIONS=detect_leaks=1:abort_on_error=0:exitcode=99
export UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
# Each of pytest's workers reads all tests: compiled once before they begin, not by each of them at the same time. Not
# below tests, which stays clean.
unset PYTHONDONTWRITEBYTECODE
export PYTHONPYCACHEPREFIX=$out/pycache
compile_tests() {
    [ ! -e "$out/pycache/compiled" ] || return 0
    mkdir -p "$out/pycache"
    WORLDKEEPER=$PWD/build/release/worldkeeper /usr/bin/python3 -m pytest -q --collect-only \
        tests/system >/dev/null 2>&1
    touch "$out/pycache/compiled"
}

# Each new server is a copy of the first one of its kind, which is made while other steps run.
WK_TEMPLATES=$(mktemp -d) && chmod 0755 "$WK_TEMPLATES" || exit 1
export WK_TEMPLATES
trap 'rm -rf --one-file-system "$WK_TEMPLATES"' EXIT
make_template() {
    PYTHONPATH=tests/system /usr/bin/python3 -c 'import sys, wk.server; wk.server.template(*sys.argv[1:])' \
        "$WK_TEMPLATES" "$1"
}

# Each step writes to its log and leaves in `ran`, `bad` and `not` how many tests passed, failed and were skipped; a
# step that is no set of tests is one test.
ran=0 bad=0 not=0
# How many more tests may be run once more.
again=2
[ "${WK_WHOLE:-}" != yes ] && [ "${WK_AGAIN:-}" != no ] || again=0

# What this machine lacks; for what runs as root, faults, what root may not do.
lacking=''
lacks() { grep -q "^$1:" <<<"$lacking"; }
look_at_machine() {
    lacking=$(tests/machine.py)
    # Each run of the tests needs the same answer.
    WK_MACHINE=$(cut -d: -f1 <<<"$lacking")
    export WK_MACHINE
    lacking=$(grep -E '^(strace|processors|root|chroot|galera|mount|loop):' <<<"$lacking")
    if [ "$(id -u)" != 0 ]; then
        lacking=$(sed '/^loop:/d' <<<"$lacking")
        lacks root || lacking+=$'\n'$(sudo tests/machine.py mount loop strace)
    fi
    lacking=$(sort -u <<<"$lacking" | sed '/^$/d')
    [ -z "$lacking" ] || sed 's/^/this machine lacks /; s/$/ (skipped)/' <<<"$lacking"
}

run_build() { make -j2; }
run_build_san() { make -j2 SAN=1; }
# The analyzer takes most of clang-tidy's time: here it looks only at the files that were changed last, and at a sixth of
# the states that `make lint` and `make nightly` have it look at in all files. A checkout that does not know: at all files.
run_lint() {
    local changed=() file
    while read -r file; do
        [ ! -e "$file" ] || changed+=("tidy/$file")
    done < <(git log -100 --format= --name-only -- 'src/*.c' 2>/dev/null | awk '!seen[$0]++' | head -n 12)
    [ ${#changed[@]} != 0 ] || {
        make lint ANALYZER_NODES=12000
        return
    }
    make lint ANALYZER_NODES=0 || return
    # Of another Debian's clang-tidy make lint has said that it is left out.
    [[ $(clang-tidy --version) != *'version 14.'* ]] || make -s -k -j2 ANALYZER_NODES=40000 "${changed[@]}"
}
run_shell() {
    local files
    mapfile -t files < <(find scripts .ci tests/scripts debian systemd etc -type f \( -name '*.sh' -o -path .ci/run -o -name 'worldkeeper.p[or]*' -o -name restart-worlds -o -path debian/tests/world -o -name '*.bash' \) | sort)
    shellcheck -x -P SCRIPTDIR "${files[@]}" && echo "clean: ${files[*]}"
}
run_models() { make -s models; }
run_man() {
    local said
    mandoc -T lint -W warning etc/worldkeeper*.[78] || return 1
    said=$(groff -mandoc -ww -T utf8 etc/worldkeeper*.[78] 2>&1 >/dev/null)
    [ -z "$said" ] || {
        printf '%s\n' "$said"
        return 1
    }
}
# Not below the checkout: neither make nor systemd has a way to name a place with blanks.
stage=''
run_install() {
    stage=$(mktemp -d) && make install PREFIX="$stage" SYSCONFDIR="$stage/etc" &&
        "$stage/bin/worldkeeper" --version && find "$stage" -type f | sort
}
run_systemd() {
    local unit
    [ -n "$stage" ] || run_install || return 1
    unit=$stage/lib/systemd/system/worldkeeper@.service
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
run_fuzz() { make -j2 fuzz-replay; }
run_unit_san() { CMOCKA_MESSAGE_OUTPUT=TAP make -j2 unit SAN=1; }

# The same random worlds, kills and faults in each run, so that what fails is what was changed;
# `make kills`, `make faults`, `make soak` and the tortures take others each time.
seed=${WK_SEED:-20261127}

# As whom `as` says, in so many processes.
as=() workers=10
pytest() {
    local name=$1 n=$workers
    shift
    rm -f "$out/$name.xml"
    # What fails is remembered for `once_more`.
    if [ -n "${alone:-}" ]; then
        set -- --last-failed --last-failed-no-failures=none "$@"
        n=1
    else
        rm -rf --one-file-system "$out/failed-$name"
    fi
    compile_tests
    # pytest cuts the reasons in its summary off at COLUMNS.
    "${as[@]}" timeout --kill-after=30 7200 env COLUMNS=300 "WK_SEED=$seed" "WK_FAULT_SEED=$seed" \
        "WK_LEDGER_SEED=$seed" "WK_PROGRESS_SEED=$seed" "WK_TAKEOVER_SEED=$seed" \
        /usr/bin/python3 -m pytest -q -o "cache_dir=$out/failed-$name" -rfEsxX --junitxml="$out/$name.xml" -n "$n" "$@"
}
count_junit() {
    local suite tests failures errors skipped
    not=$(grep -o '<skipped type="pytest.skip" message="this machine: ' "$out/$1.xml" 2>/dev/null | wc -l)
    suite=$(grep -o '<testsuite [^>]*' "$out/$1.xml" 2>/dev/null | head -n 1)
    number() { sed -n "s/.* $1=\"\([0-9]*\)\".*/\1/p" <<<"$suite"; }
    tests=$(number tests) failures=$(number failures) errors=$(number errors) skipped=$(number skipped)
    bad=$((${failures:-0} + ${errors:-0} + ${skipped:-0} - not))
    ran=$((${tests:-0} - bad - not))
    if [ "$2" != 0 ] && [ "$bad" = 0 ]; then bad=1; fi
    if [ "$ran" = 0 ] && [ "$bad" = 0 ] && [ "$not" = 0 ]; then bad=1; fi
}
# Runs the tests that have just failed in a step of pytest again, alone, if there are few of them. If all pass, ran and
# bad count them as passed, and their names and what they printed are shown (NAME.first.log has all of it).
once_more() {
    local name=$1 log=$2 all=$ran few=$bad skipped=$not rc=0
    [ "$bad" -gt 0 ] && [ "$bad" -le "$again" ] && [ -s "$out/failed-$name/v/cache/lastfailed" ] || return 0
    ! grep -qE 'ERROR: [A-Za-z]+Sanitizer|runtime error:' "$log" || return 0
    mv "$log" "$out/$name.first.log" && mv "$out/$name.xml" "$out/$name.first.xml"
    alone=yes "run_${name//-/_}" >"$log" 2>&1 </dev/null || rc=$?
    count_junit "$name" "$rc"
    if [ "$bad" = 0 ] && [ "$ran" = "$few" ]; then
        ran=$((all + few)) again=$((again - few)) at_first=$((at_first + few))
        grep -E '^(FAILED|ERROR) ' "$out/$name.first.log" | sed 's/^/  failed at first, passed alone: /'
        tail -n 40 "$out/$name.first.log" | sed 's/^/  | /'
    else
        mv "$out/$name.first.log" "$log"
        mv "$out/$name.first.xml" "$out/$name.xml"
        ran=$all bad=$few
    fi
    not=$skipped
}
# Tests of what depends on the kind of server run on both, on MariaDB with sanitizers; the others, and each case of a test,
# on one of them (tests/system/README.md), unless all is wanted, or the other kind does not run.
share=()
wanted() { [[ " ${order[*]} " == *" $1 "* ]]; }
if wanted system-mysql && wanted system-san && [ "${WK_WHOLE:-}" != yes ]; then share=(--share); fi
run_system_san() { WORLDKEEPER=$PWD/build/san/worldkeeper pytest system-san "${share[@]}" tests/system; }
# Connections and TLS, stores, privileges; dumps, losses and restores. Of the two S3 servers only the one that starts quickly.
run_system_core() {
    local files=() swept=(--sweep)
    [ "${WK_WHOLE:-}" != yes ] || swept=()
    mapfile -t files < <(compgen -G 'tests/system/test_impostor*.py')
    WORLDKEEPER=$PWD/build/release/worldkeeper pytest system-core "${swept[@]}" -k 'not test_s3' "${files[@]}" \
        tests/system/test_{connection,rogue_server,security,stores,privileges}.py \
        tests/system/test_{dump_exact,verdicts,loss,crash_server,restore_auto}.py
}
run_system_quick() {
    WORLDKEEPER=$PWD/build/release/worldkeeper pytest system-quick -m quick tests/system
}
run_system() { WORLDKEEPER=$PWD/build/release/worldkeeper pytest system tests/system; }
# What cannot be fetched fails, and what an earlier run found does not count for this one.
run_system_mysql() {
    rm -f "$out/system-mysql.xml"
    scripts/servers.sh fetch mysql || return 1
    WK_KIND=mysql WORLDKEEPER=$PWD/build/release/worldkeeper pytest system-mysql "${share[@]}" tests/system
}
# In Debian sid, which has Oracle's client library; what is built there runs here. To optimize it takes longer than to
# run its tests.
with_oracle() {
    if [ "${WK_WHOLE:-}" = yes ]; then scripts/oracle-client.sh "$@"; else CFLAGS="-O0 -g0" scripts/oracle-client.sh "$@"; fi
}
run_unit_oracle() {
    local some=(--client)
    [ "${WK_WHOLE:-}" != yes ] || some=()
    CMOCKA_MESSAGE_OUTPUT=TAP with_oracle "${some[@]}"
}
# A share: connecting, reading rows.
run_system_oracle() {
    rm -f "$out/system-oracle.xml"
    with_oracle --no-unit || return 1
    WK_KIND=mysql WORLDKEEPER=$PWD/build/oracle/worldkeeper pytest system-oracle "${share[@]}" \
        tests/system/test_{connection,dump_exact}.py
}
run_soak() {
    WORLDKEEPER=$PWD/build/release/worldkeeper timeout --kill-after=30 600 \
        tests/soak/soak.py --seconds 120 --pause 0.02 --seed "$seed" --out "$out"
}
# Disks that break have to be mounted.
run_faults() {
    local binary=$PWD/build/release/worldkeeper as=()
    [ "$(id -u)" = 0 ] || as=(sudo env "PATH=$PATH" PYTHONDONTWRITEBYTECODE=1 "WORLDKEEPER=$binary")
    WORLDKEEPER=$binary pytest faults -o timeout=900 tests/faults
}
run_scripts() { pytest scripts tests/scripts; }

scripts/deps.sh "$([ -n "$few" ] && echo core || echo test-programs)" || {
    echo '0 passed, 1 failed'
    exit 1
}

# A compiler that remembers, where there is one and it has a place to: what has not changed since another run is not
# compiled again.
if [ -z "${CC:-}" ] && ccache gcc -c -x c /dev/null -o "$out/probe.o" 2>/dev/null; then
    export CC='ccache gcc' CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
fi

# Servers that cannot reach their files would fail one test after the other.
tests/machine.py --way-out || {
    echo '0 passed, 1 failed'
    exit 1
}

# What only some steps wait for comes while others run: Debian sid, for those of MySQL and of Oracle's library, and what
# off-site stores are tested with. Whether it could be had the steps say themselves.
case " ${order[*]} " in
*" system-mysql "* | *oracle*)
    { scripts/servers.sh fetch mysql && make_template mysql; } >"$out/fetch.log" 2>&1 </dev/null &
    ;;
esac
if [ -n "$few" ]; then scripts/servers.sh fetch radosgw; else scripts/deps.sh test; fi >"$out/stores.log" 2>&1 </dev/null &
stores_pid=$!
case " ${order[*]} " in
*" system "* | *" system-san "* | *" system-core "* | *" system-quick "*) make_template mariadb >"$out/template.log" 2>&1 </dev/null & ;;
esac

# Before the first step that is more than a build.
all_is_there() {
    [ -n "$stores_pid" ] || return 0
    if ! wait "$stores_pid"; then
        failed=$((failed + 1))
        echo 'what the tests need could not be had:'
        tail -n 40 "$out/stores.log" | sed 's/^/  | /'
    fi
    stores_pid=''
    look_at_machine
}

# A step as a whole cannot be had.
declare -A needs=([unit-oracle]=chroot [system-oracle]=chroot [faults]=root)
cannot() { [ -n "${needs[$1]:-}" ] && lacks "${needs[$1]}"; }

# begin LEVEL WORKERS STEP...: those that are asked for and did not run yet, one after the other in a process of their
# own, which is remembered for each. Each leaves its exit status and its time.
declare -A begun=()
begin() {
    local level=$1 few=$2 name row=()
    shift 2
    for name in "$@"; do
        if wanted "$name" && ! cannot "$name" && [ -z "${begun[$name]:-}" ]; then row+=("$name"); fi
    done
    [ ${#row[@]} != 0 ] || return 0
    for name in "${row[@]}"; do rm -f "$out/$name.ended"; done
    {
        renice -n "$level" -p "$BASHPID" >/dev/null
        workers=$few
        for name in "${row[@]}"; do
            rc=0 start=$SECONDS
            "run_${name//-/_}" >"$out/$name.log" 2>&1 </dev/null || rc=$?
            echo "$rc $((SECONDS - start))" >"$out/$name.ended"
        done
    } &
    for name in "${row[@]}"; do begun[$name]=$!; done
}

passed=0 failed=0 skipped=0 at_first=0
printf '%-36s %7s %7s %7s %8s\n' step passed failed skipped time
for name in "${order[@]}"; do
    log=$out/$name.log
    case $name in
    build | build-san) ;;
    *)
        all_is_there
        begin 19 8 "${behind[@]}"
        ;;
    esac
    if cannot "$name"; then
        printf '%-36s %7d %7d %7d %6d s\n' "${title[$name]}" 0 0 1 0
        skipped=$((skipped + 1))
        continue
    fi
    start=$SECONDS
    read -ra row <<<"${beside[$name]:-}"
    begin 0 3 "${row[@]}"
    rc=0 took='' ran=0 bad=0 not=0
    if [ "${begun[$name]:-here}" != here ]; then
        wait "${begun[$name]}" 2>/dev/null
        read -r rc took <"$out/$name.ended" || rc=1
    else
        begun[$name]=here
        "run_${name//-/_}" >"$log" 2>&1 </dev/null || rc=$?
    fi
    case $name in
    unit*) count_tap "$log" "$rc" ;;
    system | system-* | faults | scripts)
        count_junit "$name" "$rc"
        once_more "$name" "$log"
        ;;
    *) if [ "$rc" = 0 ]; then ran=1; else bad=1; fi ;;
    esac
    passed=$((passed + ran)) failed=$((failed + bad)) skipped=$((skipped + not))
    printf '%-36s %7d %7d %7d %6d s\n' "${title[$name]}" "$ran" "$bad" "$not" "${took:-$((SECONDS - start))}"
    if [ "$bad" != 0 ]; then
        printf '  %s ends:\n' "${log#"$PWD/"}"
        tail -n 40 "$log" | sed 's/^/  | /'
    fi
done
wait
[ -z "$stage" ] || rm -rf --one-file-system "$stage"
printf '\n%d passed, %d failed' "$passed" "$failed"
[ "$skipped" = 0 ] || printf ', %d skipped' "$skipped"
[ "$at_first" = 0 ] || printf ', %d of the passed failed at first and passed alone' "$at_first"
echo
[ "$failed" = 0 ]
