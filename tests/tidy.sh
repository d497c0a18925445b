#!/usr/bin/env bash
# clang-tidy over one file: silent, or what it found and a failure. What it finds depends on the file, on all that is
# included, on the words and on the checks; where all of that was clean once, it is not looked at again. Remembered in
# WK_TIDY_CACHE, by default a directory of the user's; empty: each time anew.
#   tests/tidy.sh FILE NODES WORD...     how many states of a function its analyzer looks at, 0: it does not run; the
#                                        words of the compiler
set -euo pipefail
file=$1 checks=()
case $2 in
0) checks=('--checks=-clang-analyzer-*') ;;
*) set -- "$@" -Xclang -analyzer-config -Xclang "max-nodes=$2" ;;
esac
shift 2
home=${XDG_CACHE_HOME:-${HOME:+$HOME/.cache}}
cache=${WK_TIDY_CACHE-${home:+$home/worldkeeper-tidy}}

# Comments and macros are part of it: they hold NOLINT, and checks are about macros.
key() {
    clang-tidy --version
    printf '%s\n' "$file" "${checks[@]}" "$@"
    cat "$file" .clang-tidy "${BASH_SOURCE[0]}"
    clang -E -CC -dD -dI "$@" "$file" 2>/dev/null
}

known=''
if [ -n "$cache" ] && mkdir -p "$cache" 2>/dev/null && said=$(key "$@" | sha256sum); then
    known=$cache/${said%% *}
    if [ -e "$known" ]; then
        touch -c "$known" 2>/dev/null || true
        exit 0
    fi
fi
rc=0
found=$(clang-tidy --quiet --warnings-as-errors='*' "${checks[@]}" "$file" -- "$@" 2>&1) || rc=$?
found=$(grep -vE '^[0-9]+ warnings? generated|^$' <<<"$found" || true)
if [ -n "$found" ] || [ "$rc" != 0 ]; then
    printf '%s\n' "${found:-$file: clang-tidy ends with $rc}"
    exit 1
fi
[ -z "$known" ] || : >"$known" || true
