#!/usr/bin/env bash
# ThreadSanitizer over what uses threads: unit tests, and the system tests in which dumps are packed and read back,
# tables copied and loaded, changes merged, copies fetched and restored meanwhile.
set -uo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.." || exit 1

tests=(dump_files snapshot load standby_warm journal_random restore_hand conflicts offsite)

usage() {
    cat <<END
Usage: scripts/tsan.sh [TEST...]

Builds build/tsan/worldkeeper and runs the unit tests and some of the system tests with it, or in place of these the
named files of tests/system or tests in them (test_load.py::test_counters): ${tests[*]/#/test_}.
Any finding makes it fail; all of them are in build/tsan/found, a file for each process.
END
}

case ${1:-} in
--help)
    usage
    exit 0
    ;;
esac
[ $# -gt 0 ] || set -- "${tests[@]/#/test_}"
args=()
for arg in "$@"; do
    case $arg in
    test_*.py*) args+=("$arg") ;;
    test_*) args+=("$arg.py") ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
done

# In files, not on standard error: tests read that, and some of the processes have none. Whoever a test runs as writes there.
found=$PWD/build/tsan/found
rm -rf "$found"
mkdir -p "$found" && chmod 1777 "$found" || exit 1
export TSAN_OPTIONS="log_path=$found/of second_deadlock_stack=1 exitcode=66"
# The compiler's library knows fewer bits of address randomisation than newer kernels use.
same() { setarch "$(uname -m)" -R "$@"; }

# A run without findings proves nothing where a race that is there is not found.
race=$(mktemp -d) || exit 1
trap 'rm -rf "$race"' EXIT
cat >"$race/race.c" <<'END'
#include <pthread.h>
static int shared;
static void *touch(void *arg)
{
    (void)arg;
    shared++;
    return NULL;
}
int main(void)
{
    pthread_t t;
    if (pthread_create(&t, NULL, touch, NULL) != 0)
        return 1;
    shared++;
    return pthread_join(t, NULL);
}
END
if ! ${CC:-gcc} -g -fsanitize=thread -pthread "$race/race.c" -o "$race/race"; then
    echo 'tsan: this compiler has no ThreadSanitizer' >&2
    exit 1
fi
TSAN_OPTIONS="log_path=$race/found" same "$race/race"
if ! grep -qs 'data race' "$race"/found.*; then
    echo 'tsan: a race that is there was not found' >&2
    exit 1
fi

rc=0
make -j2 TSAN=1 || exit 1
same make -j2 TSAN=1 unit || rc=1
(cd tests/system && WORLDKEEPER=$OLDPWD/build/tsan/worldkeeper same /usr/bin/python3 -m pytest -q -rfEs -n 4 "${args[@]}") || rc=1
if [ -n "$(ls "$found")" ]; then
    head -n 60 "$found"/* | cut -c 1-160
    grep -h '^SUMMARY' "$found"/* | sort | uniq -c | sort -rn
    rc=1
fi
exit $rc
