#!/usr/bin/env bash
# Who may include whom, and what the READMEs name. One line per violation, file and line first.
# shellcheck disable=SC2016 # backticks in single quotes are text
set -euo pipefail

usage() {
    cat <<'END'
Usage: tests/arrows.sh [DIRECTORY]     check the tree there (default: the one this script is in)
       tests/arrows.sh --self-check    prove that each kind of violation is found

  includes  each folder of src includes only the folders that it may see; at the top of src only
            main, world*, act*, check*, control and scribe see all; only src/db/client.* see the
            client library's headers
  READMEs   what README.md and src/README.md name in `backticks`, files and functions, exists
END
}

# The arrows. A stage sees core, config, db, itself, and the stage whose result it reads. "top" is a
# file at the top of src other than these: what a person sees (screen).
declare -A may=(
    [top]='core'
    [core]='core'
    [config]='core config'
    [db]='core db'
    [watch]='core config db watch'
    [dump]='core config db dump journal store'
    [journal]='core config db journal store'
    [store]='core config db store dump'
    [restore]='core config db restore dump journal store'
    [report]='core config db report'
)
# The database client's headers, whoever ships them.
client='^((mysql|mariadb)/|(mysql|mysqld_error|errmsg|ma_common|mariadb_[a-z_]*)\.h$)'

found=0
violation() { # file, line, what
    printf '%s:%s: %s\n' "$1" "$2" "$3"
    found=$((found + 1))
}

# ---- includes ----

may_see() { # folder of the file, folder that it includes
    case " ${may[$1]} " in
    *" $2 "*) return 0 ;;
    *) return 1 ;;
    esac
}

check_own() { # file, line, folder of the file, header inside src
    local file=$1 line=$2 from=$3 header=$4 to
    case $header in
    *..*) violation "$file" "$line" "$header: named by a way up, not from src" && return ;;
    *.c) violation "$file" "$line" "$header: a source file is no interface" && return ;;
    esac
    if [ ! -f "src/$header" ]; then
        violation "$file" "$line" "$header: no such file in src"
        return
    fi
    case $header in
    */*) to=${header%%/*} ;;
    *) to='' ;; # at the top of src
    esac
    [ "$from" != all ] || return 0
    if [ -z "$to" ]; then
        # its own, or another of the screen's
        [ "src/$header" = "${file%.c}.h" ] || [[ $file == src/screen* && $header == screen* ]] ||
            violation "$file" "$line" "$from includes $header: nothing below may know the top"
    elif ! may_see "$from" "$to"; then
        violation "$file" "$line" "$from includes $header: it may see only ${may[$from]}"
    fi
}

check_include() { # file, line, folder of the file, rest of the line behind "include"
    local file=$1 line=$2 from=$3 rest=$4 header
    if [[ $rest =~ ^[[:space:]]*\"([^\"]+)\" ]]; then
        header=${BASH_REMATCH[1]}
        if [[ $header =~ $client ]]; then
            violation "$file" "$line" "$header: a system header belongs in angle brackets"
            [[ $file == src/db/client.[ch] ]] ||
                violation "$file" "$line" "$header: only src/db/client knows the client library"
        else
            check_own "$file" "$line" "$from" "$header"
        fi
    elif [[ $rest =~ ^[[:space:]]*\<([^\>]+)\> ]]; then
        header=${BASH_REMATCH[1]}
        if [[ $header =~ $client ]]; then
            [[ $file == src/db/client.[ch] ]] ||
                violation "$file" "$line" "$header: only src/db/client knows the client library"
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
        */*/*) violation "$file" 1 'a folder in a folder: the arrows know one level' && continue ;;
        */*) from=${from%%/*} ;;
        main.[ch] | world*.[ch] | act*.[ch] | check*.[ch] | control.[ch] | scribe.[ch] | typed.[ch]) from=all ;;
        *) from=top ;;
        esac
        if [ "$from" != all ] && [ -z "${may[$from]:-}" ]; then
            violation "$file" 1 "src/$from has no arrows: say in tests/arrows.sh whom it may see"
            continue
        fi
        while IFS=: read -r line rest; do
            check_include "$file" "$line" "$from" "${rest#*include}"
        done < <(grep -nE '^[[:space:]]*#[[:space:]]*include' "$file" || true)
    done < <(find src -name '*.[ch]' | LC_ALL=C sort)
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
        [[ $file == src/README.md && $name == [a-z]*/* && -n ${may[${name%%/*}]:-} ]] || return 0
        name=src/$name
        ;;
    esac
    compgen -G "$name" >/dev/null || violation "$file" "$line" "$name: no such file"
}

check_readmes() {
    local file line name
    for file in README.md src/README.md; do
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
    check_includes
    check_readmes
    [ "$found" = 0 ] || exit 1
}

# ---- the check of the check ----

self=$(realpath "$0")
here=$(dirname "$(dirname "$self")")

clean_tree() { # directory: a small tree without fault
    mkdir -p "$1"/src/{core,config,db,watch,dump,store,restore,report} "$1"/tests
    local folder
    for folder in core config db watch dump store restore report; do
        printf '#include <stdio.h>\nint %s_one(int n);\n' "$folder" >"$1/src/$folder/one.h"
    done
    printf '#include "core/one.h"\n#include "db/client.h"\n' >"$1/src/db/one.c"
    printf '#include <mysql.h>\n' >"$1/src/db/client.h"
    printf '#include "dump/one.h"\n#include "store/one.h"\n' >"$1/src/restore/one.c"
    printf '#include "report/one.h"\n#include "world.h"\n' >"$1/src/world.c"
    printf '#include "watch/one.h"\n' >"$1/src/world.h"
    printf 'Read `src/core/one.h`, `src/db/*.c`, `core_one()`.\n```\n`src/no`\n```\n' >"$1/README.md"
    printf 'See `core/one.h`, `watch_one(n)`, `/etc/x`, `mysqldump`.\n' >"$1/src/README.md"
}

expect() { # what is expected ("clean", or the start of a line), file to append to, line to append
    local want=$1 tree got
    tree=$(mktemp -d)
    clean_tree "$tree"
    if [ "$want" != clean ]; then
        mkdir -p "$(dirname "$tree/$2")"
        printf '%s\n' "$3" >>"$tree/$2"
    fi
    got=$("$self" "$tree" 2>&1) && [ "$want" = clean ] && [ -z "$got" ] && ok=1 || ok=0
    [ "$want" != clean ] && [[ $got == "$want"* ]] && [[ $got != *$'\n'* ]] && ok=1
    rm -rf "$tree"
    [ "$ok" = 1 ] && return
    printf 'self-check: %s: %s gave: %s\n' "${2:-}" "${3:-clean tree}" "$got"
    found=$((found + 1))
}

self_check() {
    expect clean
    expect 'src/core/two.c:1: core includes config/one.h' src/core/two.c '#include "config/one.h"'
    expect 'src/config/one.h:3: config includes db/one.h' src/config/one.h '#include "db/one.h"'
    expect 'src/db/one.c:3: db includes config/one.h' src/db/one.c '  #  include "config/one.h"'
    expect 'src/watch/one.h:3: watch includes store/one.h' src/watch/one.h '#include "store/one.h"'
    expect 'src/dump/one.h:3: dump includes watch/one.h' src/dump/one.h '#include "watch/one.h"'
    expect 'src/store/one.h:3: store includes restore/one.h' src/store/one.h '#include "restore/one.h"'
    expect 'src/restore/one.c:3: restore includes report/one.h' src/restore/one.c '#include "report/one.h"'
    expect 'src/report/one.h:3: report includes watch/one.h' src/report/one.h '#include "watch/one.h"'
    expect 'src/report/one.h:3: report includes world.h' src/report/one.h '#include "world.h"'
    expect 'src/dump/two.c:1: mysql.h: only src/db' src/dump/two.c '#include <mysql.h>'
    expect 'src/world.c:3: mysql/mysql.h: only src/db' src/world.c '#include <mysql/mysql.h>'
    expect 'src/core/two.c:1: errmsg.h: only src/db' src/core/two.c '#include <errmsg.h>'
    expect 'src/db/one.c:3: mysql.h: only src/db/client' src/db/one.c '#include <mysql.h>'
    expect 'src/db/client.h:2: mysql.h: a system header' src/db/client.h '#include "mysql.h"'
    expect 'src/watch/two.c:1: core/one.h: a header of ours' src/watch/two.c '#include <core/one.h>'
    expect 'src/watch/two.c:1: ../core/one.h: named by a way up' src/watch/two.c '#include "../core/one.h"'
    expect 'src/watch/two.c:1: one.h: no such file' src/watch/two.c '#include "one.h"'
    expect 'src/restore/two.c:1: restore/one.c: a source file' src/restore/two.c '#include "restore/one.c"'
    expect 'src/watch/two.c:1: an include that cannot be read' src/watch/two.c '#include HEADER'
    expect 'src/shop/one.c:1: src/shop has no arrows' src/shop/one.c 'int a;'
    expect 'src/two.c:1: top includes db/one.h' src/two.c '#include "db/one.h"'
    expect 'src/two.c:1: top includes world.h' src/two.c '#include "world.h"'
    expect 'src/core/sub/one.c:1: a folder in a folder' src/core/sub/one.c 'int a;'
    expect 'README.md:5: src/core/gone.c: no such file' README.md 'then `src/core/gone.c`'
    expect 'README.md:5: src/core/one.h:2: no such file' README.md 'never a line: `src/core/one.h:2`'
    expect 'README.md:5: scripts/gone.sh: no such file' README.md 'run `scripts/gone.sh --all`'
    expect 'README.md:5: core_two(): no such function' README.md 'and `core_two()`, `core_one()`'
    expect 'src/README.md:2: src/db/gone.h: no such file' src/README.md '`core/one.h` `db/gone.h`'
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
