#!/usr/bin/env bash
# Which lines and branches of src the tests reach.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

usage() {
    cat <<'END'
Usage: scripts/coverage.sh [unit|system|mysql|again]...

Builds build/cov/worldkeeper, runs the named sets (default: unit system) with it, and prints lines and
branches of each file and of all; fails under limits.

  unit     unit tests
  system   system tests on MariaDB; SYSTEM names some of them: SYSTEM="test_check.py -k rights"
  mysql    the same on MySQL
  again    what was counted before counts too

  COVERAGE_LINES, COVERAGE_BRANCHES   limits in percent (95, 85)
  COVERAGE_JOBS                       processes at a time (2)

build/cov/report has a page for each file.
END
}

sets=("$@")
[ $# -gt 0 ] || sets=(unit system)
for set in "${sets[@]}"; do
    case $set in
    unit | system | mysql | again) ;;
    --help)
        usage
        exit 0
        ;;
    *)
        usage >&2
        exit 2
        ;;
    esac
done

jobs=${COVERAGE_JOBS:-2}
failed=()
export PYTHONDONTWRITEBYTECODE=1

system_tests() {
    local -a what=()
    read -ra what <<<"${SYSTEM:-}"
    (cd tests/system && WORLDKEEPER=$OLDPWD/build/cov/worldkeeper WK_KIND=$1 \
        /usr/bin/python3 -m pytest -q -n "$jobs" "${what[@]}") >"build/cov/$1.log" 2>&1
}

scripts/deps.sh coverage
make -s COV=1 -j"$jobs"
[[ " ${sets[*]} " = *" again "* ]] || find build/cov -name '*.gcda' -delete
for set in "${sets[@]}"; do
    case $set in
    unit) make -s COV=1 -j"$jobs" unit >build/cov/unit.log 2>&1 || failed+=("$set: build/cov/unit.log") ;;
    system) system_tests mariadb || failed+=("$set: build/cov/mariadb.log") ;;
    mysql) system_tests mysql || failed+=("$set: build/cov/mysql.log") ;;
    esac
done

# What no compiler can reach is no line and no branch; whatever else cannot be reached counts as missed. A count that
# was written down while threads went on counting may not add up by one: then gcov tells -1 of a branch, which
# counts as missed too.
mkdir -p build/cov/report
gcovr --root . --object-directory build/cov --filter src/ --exclude-unreachable-branches --exclude-throw-branches \
    --gcov-ignore-parse-errors -j "$jobs" --csv build/cov/report/files.csv --html-details build/cov/report/index.html build/cov/src \
    >build/cov/gcovr.log 2>&1 || {
    tail -n 20 build/cov/gcovr.log >&2
    exit 1
}
# filename,line_total,line_covered,line_percent,branch_total,branch_covered,…
awk -F, -v lines="${COVERAGE_LINES:-95}" -v branches="${COVERAGE_BRANCHES:-85}" '
    function percent(part, all) { return all ? 100 * part / all : 100 }
    NR == 1 { printf "%-36s %6s %7s %9s %7s\n", "file", "lines", "", "branches", ""; next }
    { printf "%-36s %6d %6.1f%% %9d %6.1f%%\n", $1, $2, percent($3, $2), $5, percent($6, $5)
      l += $2; lc += $3; b += $5; bc += $6 }
    END { printf "%-36s %6d %6.1f%% %9d %6.1f%%\n", "all", l, percent(lc, l), b, percent(bc, b)
          if (percent(lc, l) < lines || percent(bc, b) < branches) {
              printf "below %s%% of lines or %s%% of branches\n", lines, branches
              exit 1
          } }' build/cov/report/files.csv || failed+=("coverage")

for what in "${failed[@]}"; do
    printf 'failed: %s\n' "$what" >&2
done
[ ${#failed[@]} -eq 0 ]
