#!/usr/bin/env bash
# Who may include whom, how wide lines are, and what the READMEs name. One line per violation, file and line first.
# shellcheck disable=SC2016 # backticks in single quotes are text
set -euo pipefail

usage() {
    cat <<'END'
Usage: tests/arrows.sh [DIRECTORY]     check the tree there (default: the one this script is in)
       tests/arrows.sh --self-check    prove that each kind of violation is found

  matrix    the table in src/README.md that says which folder of src may include which: it names
            each folder once, in an order in which none includes a later one, and allows nothing
            that no file makes use of
  includes  each folder of src includes only what the matrix allows; src/main.c and src/parts see
            all; only src/mysql/client.* includes the client library's headers
  parts     in src/supervisor each file includes only headers of files that the list in
            src/supervisor/world.h names below it; the list names each file of the folder
  width     no line of a .c or .h file in src or tests has more than 100 characters
  READMEs   what README.md, CONTRIBUTING.md and src/README.md name in `backticks`, files and
            functions, exists
END
}

# The database client's headers, whoever ships them.
client='^((mysql|mariadb)/|(mysql|mysqld_error|errmsg|ma_common|mariadb_[a-z_]*)\.h$)'

found=0
violation() { # file, line, what
    printf '%s:%s: %s\n' "$1" "$2" "$3"
    found=$((found + 1))
}

# ---- the matrix ----

declare -A may=() used=() # may[folder]: the folders that it may include; used["a b"]: an include
matrix=src/README.md

# "| from | base | config |" and, for each folder, "| config | x | |".
read_matrix() {
    local number line folder i cells=() columns=() seen=' '
    while IFS=: read -r number line; do
        IFS='|' read -ra cells <<<"${line//[[:space:]\`]/}"
        if [ "${cells[1]:-}" = from ]; then
            columns=("${cells[@]:2}")
            continue
        fi
        folder=${cells[1]}
        [[ $seen != *" $folder "* ]] || violation "$matrix" "$number" "$folder stands there twice"
        may[$folder]=
        for ((i = 0; i < ${#columns[@]}; i++)); do
            [ "${cells[i + 2]:-}" = x ] || continue
            may[$folder]+="${columns[i]} "
            [[ $seen == *" ${columns[i]} "* ]] ||
                violation "$matrix" "$number" "$folder may include ${columns[i]}, which stands at or below it"
        done
        seen+="$folder "
    done < <(awk '/^\| from / { on = 1 } on && !/^\|/ { exit } on && !/^\|[-| ]*$/ { print FNR ":" $0 }' "$matrix")
    [ "${#may[@]}" -gt 0 ] || violation "$matrix" 1 'no table "| from | … |": whom may each folder include?'
}

check_unused() {
    local from to
    for from in "${!may[@]}"; do
        [ -d "src/$from" ] || violation "$matrix" 1 "the matrix names src/$from, which does not exist"
        for to in ${may[$from]}; do
            [ "$from" = "$to" ] || [ -n "${used["$from $to"]:-}" ] || violation "$matrix" 1 "$from may include $to, and no file does"
        done
    done
}

# ---- includes ----

check_own() { # file, line, folder of the file, header inside src
    local file=$1 line=$2 from=$3 header=$4 to=${4%%/*}
    case $header in
    *..*) violation "$file" "$line" "$header: named by a way up, not from src" && return ;;
    *.c) violation "$file" "$line" "$header: a source file is no interface" && return ;;
    esac
    if [ ! -f "src/$header" ]; then
        violation "$file" "$line" "$header: no such file in src"
    elif [ "$from" != main ] && [ "$from" != "$to" ]; then
        used["$from $to"]=1
        [[ " ${may[$from]}" == *" $to "* ]] ||
            violation "$file" "$line" "$from includes $header: it may include only ${may[$from]:-its own}"
    fi
}

check_include() { # file, line, folder of the file, rest of the line behind "include"
    local file=$1 line=$2 from=$3 rest=$4 header
    if [[ $rest =~ ^[[:space:]]*\"([^\"]+)\" ]]; then
        header=${BASH_REMATCH[1]}
        if [[ $header =~ $client && ! -f src/$header ]]; then
            violation "$file" "$line" "$header: a system header belongs in angle brackets"
            [[ $file == src/mysql/client.[ch] ]] ||
                violation "$file" "$line" "$header: only src/mysql/client knows the client library"
        else
            check_own "$file" "$line" "$from" "$header"
        fi
    elif [[ $rest =~ ^[[:space:]]*\<([^\>]+)\> ]]; then
        header=${BASH_REMATCH[1]}
        if [[ $header =~ $client ]]; then
            [[ $file == src/mysql/client.[ch] ]] ||
                violation "$file" "$line" "$header: only src/mysql/client knows the client library"
        elif [ -f "src/$header" ]; then
            violation "$file" "$line" "$header: a header of ours in angle brackets"
        fi
    else
        violation "$file" "$line" 'an include that cannot be read'
    fi
}

check_includes() {
    local file from line rest
    while IFS= read -r file; do
        from=${file#src/}
        case $from in
        */*/*) violation "$file" 1 'a folder in a folder: the matrix knows one level' && continue ;;
        parts/*) from=main ;;
        */*) from=${from%%/*} ;;
        main.c) from=main ;;
        *) violation "$file" 1 'at the top of src lies nothing but main.c' && continue ;;
        esac
        if [ "$from" != main ] && [ -z "${may[$from]+set}" ]; then
            violation "$file" 1 "src/$from is not in the matrix of src/README.md"
            continue
        fi
        while IFS=: read -r line rest; do
            check_include "$file" "$line" "$from" "${rest#*include}"
        done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' "$file" || true)
    done < <(find src -name '*.[ch]' | LC_ALL=C sort)
}

# ---- parts ----

parts=src/supervisor/world.h

# " *   lease, lease_table  which machine has the world" in the first comment: two names, in their order.
read_parts() {
    sed -n '/\*\//q; s/^ \*   \([a-z_]*\(, [a-z_]*\)*\) .*/\1/p' "$parts" | tr -d ' ' | tr , '\n'
}

check_parts() {
    local name file line rest other i=0
    local -A place=()
    [ -f "$parts" ] || return 0
    while IFS= read -r name; do
        place[$name]=$((i += 1))
        [ -f "src/supervisor/$name.c" ] || [ -f "src/supervisor/$name.h" ] ||
            violation "$parts" 1 "the list names $name, which does not exist"
    done < <(read_parts)
    while IFS= read -r file; do
        name=$(basename "${file%.[ch]}")
        [ -n "${place[$name]:-}" ] || { violation "$file" 1 "$parts does not list it" && continue; }
        while IFS=: read -r line rest; do
            [[ $rest =~ \"supervisor/([a-z_]+)\.h\" ]] || continue
            other=${BASH_REMATCH[1]}
            [ "$other" = "$name" ] || [ "${place[$other]:-0}" -gt "${place[$name]}" ] ||
                violation "$file" "$line" "$name includes supervisor/$other.h, which $parts does not list below it"
        done < <(grep -n '^#include "supervisor/' "$file" || true)
    done < <(find src/supervisor -name '*.[ch]' | LC_ALL=C sort)
}

# ---- width ----

check_width() {
    local file line
    # C.UTF-8: characters, not bytes. -H: one file alone is named too.
    while IFS=: read -r file line _; do
        violation "$file" "$line" 'more than 100 characters'
    done < <(find src tests -name '*.[ch]' -print0 | LC_ALL=C sort -z |
        LC_ALL=C.UTF-8 xargs -0r grep -aHnE '^.{101}' || true)
}

# ---- READMEs ----

function_exists() { # a declaration, definition or macro at the left edge of a file in src
    grep -rqE --include='*.[ch]' "^([a-z].*[ *]|#define )$1\(" src
}

check_name() { # file, line, what stood between two backticks
    local file=$1 line=$2 name=$3
    if [[ $name =~ ^([a-z_][a-z0-9_]*)\(.*\)$ ]]; then
        function_exists "${BASH_REMATCH[1]}" ||
            violation "$file" "$line" "${BASH_REMATCH[1]}(): no such function in src"
        return
    fi
    name=${name%% *} # a command line names its program
    name=${name#./}
    case $name in
    src/* | tests/* | scripts/* | etc/* | systemd/* | .ci/*) ;;
    *)
        # In src/README.md the paths may start below src.
        [[ $file == src/README.md && $name == [a-z]*/* && -n ${may[${name%%/*}]+set} ]] || return 0
        name=src/$name
        ;;
    esac
    compgen -G "$name" >/dev/null || violation "$file" "$line" "$name: no such file"
}

check_readmes() {
    local file line name
    for file in README.md CONTRIBUTING.md src/README.md; do
        [ -f "$file" ] || continue
        # Fenced blocks are commands and pictures, not names.
        while IFS=: read -r line name; do
            check_name "$file" "$line" "$name"
        done < <(awk '/^[[:space:]]*```/ { fenced = !fenced; next }
            !fenced { n = split($0, part, "`"); for (i = 2; i < n; i += 2) print FNR ":" part[i] }' "$file")
    done
}

check_tree() { # directory
    cd "$1"
    [ -d src ] || { echo "arrows: no src in $PWD" >&2 && exit 2; }
    read_matrix
    check_includes
    check_unused
    check_parts
    check_width
    check_readmes
    [ "$found" = 0 ] || exit 1
}

# ---- the check of the check ----

self=$(realpath "$0")
here=$(dirname "$(dirname "$self")")

clean_tree() { # directory: a small tree without fault
    mkdir -p "$1"/src/{base,mysql,dump,restore} "$1"/tests
    local folder
    for folder in base mysql dump restore; do
        printf '#include <stdio.h>\nint %s_one(int n);\n' "$folder" >"$1/src/$folder/one.h"
    done
    printf '#include "base/one.h"\n#include "mysql/client.h"\n' >"$1/src/mysql/one.c"
    printf '#include <mysql.h>\n' >"$1/src/mysql/client.h"
    printf '#include "mysql/one.h"\n' >"$1/src/dump/one.c"
    printf '#include "dump/one.h"\n' >"$1/src/restore/one.c"
    printf '#include "restore/one.h"\n' >"$1/src/main.c"
    printf 'Read `src/base/one.h`, `src/mysql/*.c`, `base_one()`.\n```\n`src/no`\n```\n' >"$1/README.md"
    printf '%s\n' 'See `base/one.h`, `dump_one(n)`, `/etc/x`, `mysqldump`.' '' \
        '| from | base | mysql | dump | restore | shop |' '|---|---|---|---|---|---|' '| base | | | | |' \
        '| mysql | x | | | |' '| dump | | x | | |' '| restore | | | x | |' >"$1/src/README.md"
}

expect() { # what is expected ("clean", or the start of a line), then pairs: file, line to append to it
    local want=$1 tree got ok
    tree=$(mktemp -d)
    clean_tree "$tree"
    shift
    while [ $# -gt 0 ]; do
        mkdir -p "$(dirname "$tree/$1")"
        printf '%s\n' "$2" >>"$tree/$1"
        shift 2
    done
    got=$("$self" "$tree" 2>&1) && [ "$want" = clean ] && [ -z "$got" ] && ok=1 || ok=0
    [ "$want" != clean ] && [[ $got == "$want"* ]] && [[ $got != *$'\n'* ]] && ok=1
    rm -rf "$tree"
    [ "$ok" = 1 ] && return
    printf 'self-check: expected %s, got: %s\n' "$want" "$got"
    found=$((found + 1))
}

self_check() {
    expect clean
    expect 'src/base/two.c:1: base includes mysql/one.h' src/base/two.c '#include "mysql/one.h"'
    expect 'src/mysql/one.c:3: mysql includes dump/one.h' src/mysql/one.c '  #  include "dump/one.h"'
    expect 'src/dump/one.h:3: dump includes restore/one.h' src/dump/one.h '#include "restore/one.h"'
    expect 'src/dump/two.c:1: mysql.h: only src/mysql/client' src/dump/two.c '#include <mysql.h>'
    expect 'src/main.c:2: mysql/mysql.h: only src/mysql' src/main.c '#include <mysql/mysql.h>'
    expect 'src/base/two.c:1: errmsg.h: only src/mysql' src/base/two.c '#include <errmsg.h>'
    expect 'src/mysql/one.c:3: mysql.h: only src/mysql/client' src/mysql/one.c '#include <mysql.h>'
    expect 'src/mysql/client.h:2: mysql.h: a system header' src/mysql/client.h '#include "mysql.h"'
    expect 'src/mysql/two.c:1: base/one.h: a header of ours' src/mysql/two.c '#include <base/one.h>'
    expect 'src/mysql/two.c:1: ../base/one.h: named by a way up' src/mysql/two.c '#include "../base/one.h"'
    expect 'src/mysql/two.c:1: one.h: no such file' src/mysql/two.c '#include "one.h"'
    expect 'src/restore/two.c:1: restore/one.c: a source file' src/restore/two.c '#include "restore/one.c"'
    expect 'src/mysql/two.c:1: an include that cannot be read' src/mysql/two.c '#include HEADER'
    expect 'src/shop/one.c:1: src/shop is not in the matrix' src/shop/one.c 'int a;'
    expect 'src/two.c:1: at the top of src' src/two.c 'int a;'
    expect 'src/base/sub/one.c:1: a folder in a folder' src/base/sub/one.c 'int a;'
    expect 'src/README.md:9: shop may include shop, which stands' src/README.md '| shop | | | | | x |' \
        src/shop/one.h 'int a;'
    expect 'src/README.md:9: mysql stands there twice' src/README.md '| mysql | x | | | |'
    expect 'src/README.md:1: the matrix names src/shop' src/README.md '| shop | | | | |'
    expect 'README.md:5: src/base/gone.c: no such file' README.md 'then `src/base/gone.c`'
    expect 'README.md:5: src/base/one.h:2: no such file' README.md 'never a line: `src/base/one.h:2`'
    expect 'README.md:5: scripts/gone.sh: no such file' README.md 'run `scripts/gone.sh --all`'
    expect 'README.md:5: base_two(): no such function' README.md 'and `base_two()`, `base_one()`'
    local list='/* Order:
 *   loop          top
 *   jobs, words   below it
 *   world         this
 */' row='| supervisor | x | | | | |'
    expect clean src/README.md "$row" src/supervisor/world.h "$list" src/supervisor/words.h 'int a;' \
        src/supervisor/loop.c '#include "supervisor/jobs.h"' src/supervisor/loop.c '#include "base/one.h"' \
        src/supervisor/jobs.h '#include "supervisor/words.h"'
    expect 'src/supervisor/words.h:1: words includes supervisor/jobs.h, which' src/README.md "$row" \
        src/supervisor/world.h "$list" src/supervisor/words.h '#include "supervisor/jobs.h"' \
        src/supervisor/loop.c '#include "base/one.h"' src/supervisor/jobs.h 'int a;'
    expect 'src/supervisor/clients.c:1: src/supervisor/world.h does not list it' src/README.md "$row" \
        src/supervisor/world.h "$list" src/supervisor/words.h 'int a;' src/supervisor/loop.c '#include "base/one.h"' \
        src/supervisor/jobs.h 'int a;' src/supervisor/clients.c 'int a;'
    expect 'src/supervisor/world.h:1: the list names words, which' src/README.md "$row" \
        src/supervisor/world.h "$list" src/supervisor/loop.c '#include "base/one.h"' src/supervisor/jobs.h 'int a;'
    expect 'src/README.md:1: shop may include base, and no file does' src/README.md '| shop | x | | | |' \
        src/shop/one.c 'int a;'
    local wide
    wide="/* $(printf '%0*d' 94 0) */"
    expect clean src/base/two.c "$wide" tests/two.h "${wide//0/ä}"
    expect 'src/base/two.c:1: more than 100 characters' src/base/two.c "$wide "
    expect 'tests/unit/two.h:1: more than 100 characters' tests/unit/two.h "${wide//0/ä}."
    [ "$found" = 0 ] || exit 1
    echo 'arrows: each kind of violation is found'
}

case ${1:-} in
--help) usage ;;
--self-check) self_check ;;
-*)
    usage >&2
    exit 2
    ;;
*) check_tree "${1:-$here}" ;;
esac
