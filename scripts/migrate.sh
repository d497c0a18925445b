#!/usr/bin/env bash
# From the three cron scripts (check, dump, restore) to a worldkeeper config.
#
# The scripts are read, never run: a small reader of shell text follows assignments, quotes, sourced
# files and command substitutions far enough to find the command lines of mysqldump, mysql and mail,
# the flag file and the dumps' directory. What it does not understand it says.
#
# shellcheck disable=SC2016,SC2088,SC1010 # shell text is matched here, not run
set -euo pipefail

usage() {
    cat <<'END'
Usage: migrate.sh [OPTIONS] DIRECTORY

Reads the old scripts in DIRECTORY and writes a config and a password file for
worldkeeper. Says for each thing where it was found and whether it was carried over.
Never overwrites a file, never prints a password, changes nothing of the old.

  --to DIR        where NAME.ini and NAME.password go (default: /etc/worldkeeper)
  --name NAME     name of the world (default: made from the schema's)
  --dumps DIR     where worldkeeper's dumps will be
                  (default: /var/lib/worldkeeper/NAME)
  --my-cnf FILE   the client's option file that the scripts rely on
                  (default: .my.cnf of the scripts' owner)
  --crontab FILE  where to look for cron lines, may be repeated
                  (default: the system's and the users' crontabs)
  --dry-run       say everything, write nothing
  --help          this text
END
}

die() {
    printf 'migrate: %s\n' "$*" >&2
    exit 1
}

to=/etc/worldkeeper name='' dumps_to='' my_cnf='' dry_run=no dir=''
crontabs=()
while [ $# -gt 0 ]; do
    case $1 in
    --to | --name | --dumps | --my-cnf | --crontab)
        [ $# -ge 2 ] || die "$1 wants a value"
        case $1 in
        --to) to=$2 ;;
        --name) name=$2 ;;
        --dumps) dumps_to=$2 ;;
        --my-cnf) my_cnf=$2 ;;
        --crontab) crontabs+=("$2") ;;
        esac
        shift
        ;;
    --dry-run) dry_run=yes ;;
    --help)
        usage
        exit 0
        ;;
    -*)
        usage >&2
        exit 2
        ;;
    *)
        [ -z "$dir" ] || die "one directory at a time"
        dir=$1
        ;;
    esac
    shift
done
[ -n "$dir" ] || {
    usage >&2
    exit 2
}
[ -d "$dir" ] || die "$dir is no directory"
dir=$(cd "$dir" && pwd)
owner_home=$(getent passwd "$(stat -c %u "$dir")" | cut -d : -f 6)

# What is found, by config key, and the lines of the report. Nothing is printed before all secrets
# are known, so that none of them is.
declare -A found=() where=() var=()
report=()
secrets=()

note() { report+=("$1"$'\t'"$2"$'\t'"$3"); } # carried|left out|by hand, place, text

# keep KEY VALUE PLACE TEXT: the first one found counts; another value later is told.
keep() {
    local key=$1 value=$2 place=$3 text=$4
    [ -n "$value" ] || return 0
    case $value in
    *$unknown*)
        note 'left out' "$place" "$text: its value is made when the script runs"
        return 0
        ;;
    esac
    if [ -z "${found[$key]:-}" ]; then
        found[$key]=$value where[$key]=$place
        note carried "$place" "$text"
    elif [ "${found[$key]}" != "$value" ]; then
        note 'left out' "$place" "$text: differs from ${where[$key]}, which was taken"
    fi
}

# ---------------------------------------------------------------------------------------------------
# Reading shell text
# ---------------------------------------------------------------------------------------------------

unknown=$'\x01' # stands for what is known only when the script runs
sep=$'\x1f'     # between the words of a command

# first_line FILE
first_line() {
    local line=''
    [ ! -r "$1" ] || IFS= read -r line <"$1" || true
    printf '%s' "$line"
}

# substitute TEXT: the value of $(TEXT), in REPLY; the commands in it are looked at too.
substitute() {
    local text=$1
    case $text in
    *dirname*'$0'* | *dirname*BASH_SOURCE* | *dirname*'${0'*) REPLY=$script_dir ;;
    'cat '* | '<'*)
        text=${text#cat}
        text=${text#<}
        scan_words "$text"
        REPLY=$unknown
        if [ ${#scanned[@]} = 1 ] && [ -r "${scanned[0]}" ]; then REPLY=$(first_line "${scanned[0]}"); fi
        ;;
    *)
        local here=$place
        scan "$text"
        place=$here
        REPLY=$unknown
        ;;
    esac
}

# expand TEXT: TEXT begins with a dollar sign. REPLY: the value; used: how many characters it took.
expand() {
    local text=$1 depth i c inner
    case $text in
    '$(('*)
        inner=${text%%'))'*}
        used=$((${#inner} + 2))
        REPLY=$unknown
        ;;
    '$('*)
        depth=0
        for ((i = 1; i < ${#text}; i++)); do
            c=${text:i:1}
            if [ "$c" = '(' ]; then depth=$((depth + 1)); fi
            if [ "$c" = ')' ]; then
                depth=$((depth - 1))
                [ "$depth" != 0 ] || break
            fi
        done
        substitute "${text:2:i-2}"
        used=$((i + 1))
        ;;
    '${'*)
        inner=${text%%\}*}
        used=$((${#inner} + 1))
        inner=${inner:2}
        if [[ $inner =~ ^[A-Za-z_][A-Za-z0-9_]*$ ]]; then
            lookup "$inner"
        elif [[ $inner =~ ^([A-Za-z_][A-Za-z0-9_]*):?-(.*)$ ]]; then
            local default=${BASH_REMATCH[2]}
            lookup "${BASH_REMATCH[1]}"
            if [ "$REPLY" = "$unknown" ]; then
                default=${default#[\"\']}
                REPLY=${default%[\"\']}
            fi
        else
            REPLY=$unknown
        fi
        ;;
    '$0'*) REPLY=$script used=2 ;;
    *)
        if [[ $text =~ ^\$([A-Za-z_][A-Za-z0-9_]*) ]]; then
            used=${#BASH_REMATCH[0]}
            lookup "${BASH_REMATCH[1]}"
        elif [[ $text =~ ^\$[0-9?#@*\$!-] ]]; then
            used=2 REPLY=$unknown
        else
            used=1 REPLY=\$
        fi
        ;;
    esac
}
lookup() {
    if [ "$1" = HOME ] && [ -z "${var[HOME]+set}" ]; then
        REPLY=$owner_home
    else
        REPLY=${var[$1]-$unknown}
    fi
}

# scan TEXT: splits a line into pipelines of simple commands and hands each to `pipeline`.
# Returns 1 when a quote is not closed: the line goes on.
scan() {
    local text=$1 i=0 n=${#1} c word='' in_word=no quote='' target='' want=''
    local -a words=() commands=()
    local redirect='' here='' quoted='' rest REPLY used
    end_word() {
        [ "$in_word" = yes ] || return 0
        case $want in
        out) redirect=$word ;;
        here) here+=" $word" ;;
        skip) ;;
        *) words+=("$word") ;;
        esac
        want='' word='' in_word=no
    }
    end_command() {
        end_word
        local IFS=$sep
        if [ ${#words[@]} -gt 0 ]; then commands+=("${words[*]}"); fi
        words=()
    }
    end_pipeline() {
        end_command
        if [ ${#commands[@]} -gt 0 ]; then pipeline "$redirect" "$here" "${commands[@]}"; fi
        commands=() redirect='' here=''
    }
    while [ "$i" -lt "$n" ]; do
        c=${text:i:1}
        rest=${text:i}
        if [ "$quote" = "'" ]; then
            if [ "$c" = "'" ]; then quote=''; else word+=$c; fi
            i=$((i + 1))
            continue
        fi
        case $c in
        \\)
            if [ "$quote" = '"' ] && [[ ${text:i+1:1} != [\"\\\$\`] ]]; then word+=\\; fi
            word+=${text:i+1:1}
            in_word=yes i=$((i + 2))
            continue
            ;;
        \$)
            expand "$rest"
            word+=$REPLY
            in_word=yes i=$((i + used))
            continue
            ;;
        \`)
            quoted=${rest:1}
            case $quoted in *\`*) ;; *) return 1 ;; esac
            quoted=${quoted%%\`*}
            substitute "$quoted"
            word+=$REPLY
            in_word=yes i=$((i + ${#quoted} + 2))
            continue
            ;;
        \")
            if [ "$quote" = '"' ]; then quote=''; else quote='"'; fi
            in_word=yes i=$((i + 1))
            continue
            ;;
        esac
        if [ "$quote" = '"' ]; then
            word+=$c
            i=$((i + 1))
            continue
        fi
        case $rest in
        \'*) quote="'" in_word=yes ;;
        [[:space:]]*) end_word ;;
        '#'*)
            if [ "$in_word" = no ]; then break; fi
            word+=$c
            ;;
        '||'* | '&&'* | ';;'*)
            end_pipeline
            i=$((i + 1))
            ;;
        '|'*) end_command ;;
        '>&'* | '<&'*)
            in_word=no word='' want=skip
            i=$((i + 1))
            ;;
        '&>'*)
            end_word
            want=skip i=$((i + 1))
            ;;
        '>'*)
            # A number right before it is a file descriptor.
            target=out
            case $word in
            1) in_word=no word='' ;;
            [0-9]) in_word=no word='' target=skip ;;
            esac
            end_word
            case $rest in '>>'* | '>|'*) i=$((i + 1)) ;; esac
            want=$target
            ;;
        '<<<'*)
            end_word
            want=here i=$((i + 2))
            ;;
        '<<'*)
            end_word
            want=skip i=$((i + 1))
            ;;
        '<'*)
            end_word
            want=skip
            ;;
        ';'* | '&'* | '('* | ')'* | $'\n'*) end_pipeline ;;
        '~/'*)
            if [ "$in_word" = no ]; then word=$owner_home; else word+=$c; fi
            in_word=yes
            ;;
        *)
            word+=$c
            in_word=yes
            ;;
        esac
        i=$((i + 1))
    done
    [ -z "$quote" ] || return 1
    end_pipeline
}

# scan_words TEXT: the words of one command in `scanned`, looked at by nobody.
scan_words() {
    local saved=$place_quiet
    place_quiet=yes scanned=()
    scan "$1" || true
    place_quiet=$saved
}
place_quiet=no scanned=()

# ---------------------------------------------------------------------------------------------------
# Understanding commands
# ---------------------------------------------------------------------------------------------------

# pipeline REDIRECT HERE COMMAND...: COMMAND is words with $sep between.
pipeline() {
    local redirect=$1 here=$2 command
    shift 2
    if [ "$place_quiet" = yes ]; then
        IFS=$sep read -ra scanned <<<"$1"
        return 0
    fi
    # A flag word or a query may come in through the pipe.
    local all="$* $here"
    for command in "$@"; do
        case ${command##*"$sep"tee"$sep"} in
        "$command") ;;
        *) redirect=${command##*"$sep"} ;;
        esac
        case $command in "tee$sep"*) redirect=${command##*"$sep"} ;; esac
    done
    for command in "$@"; do
        local -a w=()
        IFS=$sep read -rd '' -a w < <(printf '%s%s\0' "$command" "$sep") || true
        simple_command "${w[@]}"
    done
}

simple_command() {
    # Words before the command itself.
    while [ $# -gt 0 ]; do
        if [[ $1 =~ ^([A-Za-z_][A-Za-z0-9_]*)=(.*)$ ]]; then
            assign "${BASH_REMATCH[1]}" "${1#*=}"
            shift
            continue
        fi
        case ${1##*/} in
        if | then | else | elif | do | while | until | '!' | '{' | '}' | time | exec | nohup | env | \
            command | export | readonly | local | declare | typeset) shift ;;
        nice | ionice | sudo | timeout)
            shift
            while [ $# -gt 0 ]; do
                case $1 in
                -u | -n | -c) shift $(($# > 1 ? 2 : 1)) ;;
                -* | [0-9]*) shift ;;
                *) break ;;
                esac
            done
            ;;
        *) break ;;
        esac
    done
    [ $# -gt 0 ] || return 0
    local command=${1##*/} path=$1
    shift
    case $command in
    mysqldump | mariadb-dump) dump_command "$@" ;;
    mysql | mariadb) client_command "$command" "$@" ;;
    mail | mailx | bsd-mailx | s-nail | mutt | sendmail) mail_command "$command" "$@" ;;
    echo | printf) flag_command "$@" ;;
    gzip | pigz) gzip_command "$@" ;;
    find) find_command "$@" ;;
    . | source) if [ $# -gt 0 ]; then read_script "$1"; fi ;;
    curl | wget)
        note 'left out' "$place" \
            "$command: for a chat there is [alert.webhook] url_file, for a watchdog elsewhere [heartbeat] url_file"
        ;;
    rsync | scp | sftp | ssh | rclone | s3cmd | aws | systemctl | service | kill | killall | \
        pkill | mysqladmin | mariadb-admin | mysqlcheck | mysqld_safe | bzip2 | xz | zstd | logger | \
        gpg | openssl)
        note 'left out' "$place" "$command: worldkeeper does nothing in its place"
        ;;
    '' | '[' | '[[' | test | case | esac | in | fi | done | for | cat | cd | date | basename | dirname | \
        exit | return | break | continue | true | false | : | sleep | wait | touch | rm | mv | cp | ln | \
        ls | head | tail | sort | wc | grep | sed | awk | cut | tr | tee | zcat | gunzip | set | trap | \
        shift | unset | umask | read | mkdir | chmod | chown | pgrep | stat | expr | let | flock | hostname | \
        bash | sh | function | *"$unknown"* | *'()' | *')' | '*') ;;
    *)
        case $path in
        "$dir"/*) ;; # one of the scripts itself
        *)
            if [ ! -e "$dir/$command" ] && [[ $command =~ ^[A-Za-z_./][A-Za-z0-9_./+-]*$ ]] &&
                [ -z "${functions[$command]:-}" ]; then
                note 'left out' "$place" "$command: not known, nothing is carried over"
            fi
            ;;
        esac
        ;;
    esac
}
declare -A functions=()

assign() {
    var[$1]=$2
    case $1 in
    MYSQL_PWD) password "$2" ;;
    MYSQL_HOST) keep host "$2" "$place" "server host $2" ;;
    esac
    # A guess for later, when no command line tells it.
    case ${1^^} in
    *PASS* | *PWD*)
        case $2 in '' | *"$unknown"* | */*) ;; *) secrets+=("$2") ;; esac
        ;;
    *FLAG*)
        case $2 in /*) maybe_flag=${maybe_flag:-$2} ;; esac
        ;;
    esac
}
maybe_flag=''

password() {
    case $1 in '' | *"$unknown"*) ;; *) secrets+=("$1") ;; esac
    keep password "$1" "$place" 'password, into a file of its own'
}

# connection COMMAND WORD...: takes the options of a client of the server, leaves the other words in
# `plain`, the query of -e in `query` and other options in `others`.
connection() {
    local tool=$1 option value letters letter
    plain=() others=() query=''
    shift
    while [ $# -gt 0 ]; do
        option=$1
        shift
        case $option in
        --*=*)
            value=${option#*=} option=${option%%=*}
            connection_option "$option" "$value"
            ;;
        --user | --host | --port | --socket | --execute | --database | --defaults-file | --defaults-extra-file)
            connection_option "$option" "${1:-}"
            if [ $# -gt 0 ]; then shift; fi
            ;;
        --*) others+=("$option") ;;
        -?*)
            letters=${option#-}
            while [ -n "$letters" ]; do
                letter=${letters:0:1} letters=${letters:1}
                case $letter in
                u | h | P | S | e | D)
                    value=$letters letters=''
                    if [ -z "$value" ] && [ $# -gt 0 ]; then
                        value=$1
                        shift
                    fi
                    connection_option "-$letter" "$value"
                    ;;
                p)
                    password "$letters"
                    letters=''
                    ;;
                B) if [ "$tool" = mysqldump ]; then others+=(--databases); fi ;;
                A) if [ "$tool" = mysqldump ]; then others+=(--all-databases); fi ;;
                esac
            done
            ;;
        *) plain+=("$option") ;;
        esac
    done
}
connection_option() {
    case $1 in
    -u | --user) keep user "$2" "$place" "account $2" ;;
    --password) password "$2" ;;
    -h | --host)
        case $2 in
        localhost) ;; # the socket
        *) keep host "$2" "$place" "server host $2" ;;
        esac
        ;;
    -P | --port) keep port "$2" "$place" "server port $2" ;;
    -S | --socket) keep socket "$2" "$place" "server socket $2" ;;
    -e | --execute) query=$2 ;;
    -D | --database) plain=("$2" "${plain[@]}") ;;
    --defaults-file | --defaults-extra-file) read_cnf "$2" ;;
    *) others+=("$1=$2") ;;
    esac
}

dump_command() {
    local plain others query option
    connection mysqldump "$@"
    uses_client=yes
    if [ ${#plain[@]} -gt 0 ]; then
        keep schema "${plain[0]}" "$place" "schema ${plain[0]}"
        if [ ${#plain[@]} -gt 1 ]; then
            note 'left out' "$place" "tables ${plain[*]:1}: all MEMORY tables of the schema are dumped"
        fi
    fi
    for option in "${others[@]}"; do
        case $option in
        --net_buffer_length* | --net-buffer-length* | --quick | --opt | --skip-comments | --compact | \
            --extended-insert* | --default-character-set* | --max_allowed_packet* | --add-drop-table | \
            --lock-tables | --single-transaction | --hex-blob | --databases)
            note 'left out' "$place" "${option%%=*}: not needed"
            ;;
        --routines | --triggers | --events | --skip-triggers)
            note 'left out' "$place" "$option: what the account may see is in each dump (worldkeeper --check tells)"
            ;;
        --) ;;
        --ignore-table*)
            note 'left out' "$place" "$option: all MEMORY tables of the schema are dumped"
            ;;
        *) note 'left out' "$place" "mysqldump ${option%%=*}: there is no such setting" ;;
        esac
    done
    if [ -n "$redirect" ] && [ "$redirect" != /dev/null ]; then
        local old=${redirect%/*}
        case $old in
        /*"$unknown"* | [!/]*) note 'left out' "$place" "directory of the dumps: not understood" ;;
        *)
            if [ -z "${old_dumps:-}" ]; then
                old_dumps=$old
                note 'left out' "$place" "old dumps in $old: they stay, worldkeeper --restore=PATH reads them"
            fi
            ;;
        esac
    fi
}

client_command() {
    local plain others query
    connection "$@"
    uses_client=yes
    if [ ${#plain[@]} -gt 0 ]; then keep schema "${plain[0]}" "$place" "schema ${plain[0]}"; fi
    local text="${query:-$all}"
    if [[ ${text^^} == *SELECT* && ${text,,} =~ [[:space:]]from[[:space:]]+([\`]?)([a-z0-9_\$.]+) ]]; then
        local offset=${BASH_REMATCH[0]} at table
        at=${text,,}
        at=${at%%"$offset"*}
        table=${text:${#at}+${#offset}-${#BASH_REMATCH[2]}:${#BASH_REMATCH[2]}}
        table=${table##*.}
        if [ -z "${old_sentinel:-}" ]; then
            old_sentinel=$table
            note 'left out' "$place" "sentinel $table: worldkeeper has its own; this one stays a table of the game"
        fi
    fi
}

mail_command() {
    local command=$1 word people=()
    shift
    while [ $# -gt 0 ]; do
        word=$1
        shift
        case $word in
        -r | -f)
            keep from "${1:-}" "$place" "sender ${1:-}"
            if [ $# -gt 0 ]; then shift; fi
            ;;
        -s | -a | -c | -b | -S | -e | -F) if [ $# -gt 0 ]; then shift; fi ;;
        --)
            people+=("$@")
            break
            ;;
        -*) ;;
        *@*) people+=("${word%,}") ;;
        *)
            case $word in
            *"$unknown"*) note 'left out' "$place" "$command: a recipient that is made when the script runs" ;;
            *)
                note 'left out' "$place" "$command to $word: an address with a host is needed in its place"
                ;;
            esac
            ;;
        esac
    done
    local IFS=,
    if [ ${#people[@]} -gt 0 ]; then keep to "${people[*]}" "$place" "mail to ${people[*]}"; fi
}

# A flag word that is written into a file tells the flag file.
flag_command() {
    local word
    for word in "$@"; do
        case $word in
        UP | UP'\n' | WAITING | WAITING'\n' | RESTORING*)
            case $redirect in
            /dev/* | '') ;;
            /*) keep flag "$redirect" "$place" "flag file $redirect" ;;
            *) note 'left out' "$place" "flag file $redirect: not an absolute path" ;;
            esac
            return 0
            ;;
        esac
    done
}

gzip_command() {
    local word
    case $redirect in '') return 0 ;; esac
    for word in "$@"; do
        case $word in
        --fast | -1) keep level 1 "$place" 'compression 1' ;;
        --best | -9) keep level 9 "$place" 'compression 9' ;;
        -[2-8]) keep level "${word#-}" "$place" "compression ${word#-}" ;;
        esac
    done
}

find_command() {
    local word days='' deletes=no
    while [ $# -gt 0 ]; do
        word=$1
        shift
        case $word in
        -mtime | -ctime)
            days=${1:-}
            days=${days#+}
            ;;
        -delete | -exec) deletes=yes ;;
        esac
    done
    if [ "$deletes" = yes ] && [[ $days =~ ^[0-9]+$ ]]; then
        keep keep_daily "$days" "$place" "dumps kept for $days days: one of each day, and all of the last 24 hours"
    fi
}

# ---------------------------------------------------------------------------------------------------
# Files
# ---------------------------------------------------------------------------------------------------

declare -A seen_file=()
uses_client=no old_dumps='' old_sentinel=''

# read_script PATH: line by line, with sourced files read where they are sourced.
read_script() {
    local path=$1 line text number=0 started here_end
    case $path in
    *"$unknown"*)
        note 'left out' "$place" 'a sourced file whose name is made when the script runs'
        return 0
        ;;
    /*) ;;
    *) path=$script_dir/$path ;;
    esac
    [ -r "$path" ] || {
        note 'left out' "${place:-$path}" "$path: cannot be read"
        return 0
    }
    seen_file[$path]=yes
    local outer_place=$place outer_script=$script outer_dir=$script_dir
    script=$path script_dir=${path%/*}
    exec {fd}<"$path"
    local mine=$fd
    text='' here_end='' started=0
    while IFS= read -r line <&"$mine" || [ -n "$line" ]; do
        number=$((number + 1))
        if [ -n "$here_end" ]; then
            if [ "${line##*$'\t'}" = "$here_end" ]; then here_end=''; fi
            continue
        fi
        if [ -z "$text" ]; then started=$number; fi
        if [[ $line =~ \\$ && ! $line =~ ^[[:space:]]*# ]]; then
            text+=${line%\\}
            continue
        fi
        # A pipeline goes on behind its bar.
        if [[ $line =~ \|[[:space:]]*$ && ! $line =~ ^[[:space:]]*# ]]; then
            text+="$line "
            continue
        fi
        text+=$line
        place=${path##*/}:$started
        raw_line "$text"
        if scan "$text"; then
            text=''
        elif [ $((number - started)) -gt 50 ]; then
            note 'left out' "$place" 'a quote that is never closed'
            text=''
        else
            text+=$'\n'
        fi
        if [[ -z $text && $line =~ \<\<-?[[:space:]]*[\'\"]?([A-Za-z_]+)[\'\"]? && $line != *'<<<'* ]]; then
            here_end=${BASH_REMATCH[1]}
        fi
    done
    exec {mine}<&-
    place=$outer_place script=$outer_script script_dir=$outer_dir
}

# What is easier to see in the line as it stands.
raw_line() {
    local line=$1
    case $line in '#'*) return 0 ;; esac
    if [[ $line =~ %[[:space:]]*([0-9]+) ]]; then
        local every=${BASH_REMATCH[1]}
        case ${line,,} in
        *min* | *date*%m* | *'10#'*)
            if [ "$every" -ge 1 ] && [ "$every" -le 60 ] && [[ $line != *mail* ]]; then
                if [ -z "${found[interval]:-}" ]; then
                    keep interval "${every}m" "$place" "a dump each $every minutes"
                fi
            fi
            ;;
        esac
    fi
    if [[ $line =~ ^[[:space:]]*(function[[:space:]]+)?([A-Za-z_][A-Za-z0-9_]*)[[:space:]]*\(\) ]]; then
        functions[${BASH_REMATCH[2]}]=yes
    fi
}

# cnf_line LINE: without a comment behind the value, as the client reads it, in REPLY.
cnf_line() {
    local line=$1 i c quote='' escaped=no
    for ((i = 0; i < ${#line}; i++)); do
        c=${line:i:1}
        if [ "$c" = '#' ] && [ -z "$quote" ]; then
            line=${line:0:i}
            break
        fi
        case $c in
        \' | \")
            if [ "$escaped" = no ]; then
                if [ -z "$quote" ]; then quote=$c; elif [ "$quote" = "$c" ]; then quote=''; fi
            fi
            ;;
        esac
        if [ "$c" = \\ ] && [ -n "$quote" ] && [ "$escaped" = no ]; then escaped=yes; else escaped=no; fi
    done
    REPLY=${line%"${line##*[![:space:]]}"}
}

# cnf_value TEXT: without its quotes and escapes, in REPLY.
cnf_value() {
    local text=$1 i c
    case $text in
    \"*\" | \'*\') if [ ${#text} -gt 1 ]; then text=${text:1:-1}; fi ;;
    esac
    REPLY=''
    for ((i = 0; i < ${#text}; i++)); do
        c=${text:i:1}
        if [ "$c" = \\ ] && [ $((i + 1)) -lt ${#text} ]; then
            i=$((i + 1))
            c=${text:i:1}
            case $c in
            n) c=$'\n' ;;
            t) c=$'\t' ;;
            r) c=$'\r' ;;
            b) c=$'\b' ;;
            s) c=' ' ;;
            \" | \' | \\) ;;
            *) c=\\$c ;;
            esac
        fi
        REPLY+=$c
    done
}

# read_cnf FILE: [client] and what belongs to the dump and the client, of an option file.
read_cnf() {
    local file=$1 line section='' key value number=0 here=$place REPLY
    case $file in
    *"$unknown"*)
        note 'left out' "$place" 'an option file whose name is made when the script runs'
        return 0
        ;;
    esac
    if [ -n "${seen_file[$file]:-}" ]; then return 0; fi
    seen_file[$file]=yes
    [ -r "$file" ] || {
        note 'left out' "$place" "option file $file: cannot be read"
        return 0
    }
    while IFS= read -r line || [ -n "$line" ]; do
        number=$((number + 1))
        place=${file##*/}:$number
        line=${line#"${line%%[![:space:]]*}"}
        case $line in
        '' | '#'* | ';'*) continue ;;
        '['*)
            section=${line#[}
            section=${section%%]*}
            continue
            ;;
        '!'*)
            note 'left out' "$place" "${line%% *}: files that it names are not followed"
            continue
            ;;
        esac
        cnf_line "$line"
        line=$REPLY
        case $section in client | mysqldump | mysql | client-mariadb | mariadb-dump) ;; *) continue ;; esac
        key=${line%%=*}
        key=${key%"${key##*[![:space:]]}"}
        value=${line#*=}
        [ "$value" != "$line" ] || value=''
        value=${value#"${value%%[![:space:]]*}"}
        cnf_value "$value"
        value=$REPLY
        case ${key//_/-} in
        user | host | port | socket) connection_option "--$key" "$value" ;;
        password) password "$value" ;;
        database) keep schema "$value" "$place" "schema $value" ;;
        ssl-ca) keep tls_ca "$value" "$place" "TLS authorities $value" ;;
        *) note 'left out' "$place" "${key%%=*}: not needed, or there is no such setting" ;;
        esac
    done <"$file"
    place=$here
}

# find_cron: the lines that start these scripts, for a person to remove.
find_cron() {
    local file line number started any=no
    if [ ${#crontabs[@]} = 0 ]; then
        crontabs=(/etc/crontab /etc/cron.d/* /var/spool/cron/crontabs/*)
    fi
    for file in "${crontabs[@]}"; do
        if [ ! -f "$file" ] || [ ! -r "$file" ]; then continue; fi
        number=0
        while IFS= read -r line || [ -n "$line" ]; do
            number=$((number + 1))
            case $line in
            '#'*) ;;
            *"$dir"/*)
                any=yes
                # The line itself is not shown: a password may stand in it that is nowhere else.
                started=${line#*"$dir"/}
                started=${started%%[!A-Za-z0-9._/-]*}
                note 'by hand' "$file:$number" "remove this line, which starts $started"
                if [[ $line =~ ^[[:space:]]*\*/([0-9]+)[[:space:]] && $started == *dump* ]]; then
                    keep interval "${BASH_REMATCH[1]}m" "$file:$number" \
                        "a dump each ${BASH_REMATCH[1]} minutes"
                fi
                ;;
            esac
        done <"$file"
    done
    if [ "$any" = no ]; then
        note 'by hand' cron "no line that starts these scripts was found: look for it, and remove it"
    fi
}

place='' script='' script_dir=$dir
for file in "$dir"/*; do
    if [ ! -f "$file" ] || [ ! -r "$file" ]; then continue; fi
    case $file in
    *.sh | *.bash) ;;
    *) case $(head -c 64 "$file" | tr -d '\0' | head -n 1) in '#!'*sh*) ;; *) continue ;; esac ;;
    esac
    [ -z "${seen_file[$file]:-}" ] || continue
    var=()
    read_script "$file"
done
[ ${#seen_file[@]} -gt 0 ] || die "no shell scripts in $dir"
[ "$uses_client" = yes ] || die "no mysqldump and no mysql is called in $dir: are these the scripts?"
if [ -n "$my_cnf" ]; then
    [ -r "$my_cnf" ] || die "$my_cnf cannot be read"
    read_cnf "$my_cnf"
elif [ -z "${found[password]:-}" ] && [ -r "$owner_home/.my.cnf" ]; then
    read_cnf "$owner_home/.my.cnf"
fi
if [ -z "${found[flag]:-}" ] && [ -n "$maybe_flag" ]; then
    keep flag "$maybe_flag" 'a variable' "flag file $maybe_flag, from the name of a variable: is it the one?"
fi
find_cron

# ---------------------------------------------------------------------------------------------------
# The config
# ---------------------------------------------------------------------------------------------------

missing=''
[ -n "${found[schema]:-}" ] || missing+=' the schema'
[ -n "${found[user]:-}" ] || missing+=' the account'
if [ -z "$name" ]; then
    name=${found[schema]:-world}
    name=${name,,}
    name=${name//[^a-z0-9_-]/-}
    name=${name#[-_]}
    name=${name:0:32}
fi
[[ $name =~ ^[a-z0-9][a-z0-9_-]{0,31}$ ]] || die "name '$name': lower-case letters, digits, _ and -, at most 32"
config=$to/$name.ini
secret=$to/$name.password
[ -n "$dumps_to" ] || dumps_to=/var/lib/worldkeeper/$name

if [ -z "${found[host]:-}" ] && [ -z "${found[socket]:-}" ]; then
    found[socket]=/run/mysqld/mysqld.sock
    note 'by hand' "$config" "no host and no socket found: /run/mysqld/mysqld.sock is taken, Debian's"
fi
if [ -z "${found[password]:-}" ]; then
    note 'by hand' "$config" 'no password found: put it into a file (chmod 0600) and name it as password_file'
fi
if [ -n "${found[to]:-}" ]; then
    [ -n "${found[from]:-}" ] || found[from]=worldkeeper@$(hostname -f 2>/dev/null || hostname)
    note 'by hand' "$config" "mail goes to port 25 of this host, from ${found[from]}: check [alert.smtp]"
else
    note 'by hand' "$config" 'no mail address found: fill in [alert.smtp] or [alert.webhook], else nobody is told'
fi
if [ -n "${found[flag]:-}" ]; then
    note 'by hand' "${found[flag]%/*}" \
        'user worldkeeper must be able to write here, and the service must be allowed to (ReadWritePaths)'
else
    note 'by hand' "$config" 'no flag file found: name its directory in [status] if a homepage polls it'
fi
note 'left out' restore 'a limit of its time, where there was one: worldkeeper ends one that makes no progress'

config_text() {
    cat <<END
# Written from the scripts in $dir
# man worldkeeper tells all keys. What is not here is as it is by default.

[world]
name = $name
schema = ${found[schema]}

[mysql]
END
    if [ -n "${found[host]:-}" ]; then
        printf 'host = %s\n' "${found[host]}"
        if [ -n "${found[port]:-}" ]; then printf 'port = %s\n' "${found[port]}"; fi
        if [ -n "${found[tls_ca]:-}" ]; then printf 'tls_ca = %s\n' "${found[tls_ca]}"; fi
        if [ -n "${found[tls_ca]:-}" ]; then printf 'tls = verify\n'; fi
    else
        printf 'socket = %s\n' "${found[socket]}"
    fi
    printf 'user = %s\n' "${found[user]}"
    if [ -n "${found[password]:-}" ]; then printf 'password_file = %s\n' "$secret"; fi
    printf '\n[dump]\ndir = %s\ninterval = %s\n' "$dumps_to" "${found[interval]:-15m}"
    if [ -n "${found[level]:-}" ]; then printf 'level = %s\n' "${found[level]}"; fi
    if [ -n "${found[keep_daily]:-}" ]; then
        printf '\n[retention]\nkeep_daily = %s\n' "${found[keep_daily]}"
    fi
    if [ -n "${found[flag]:-}" ]; then
        printf '\n[status]\ndir = %s\nflag = %s\n' "${found[flag]%/*}" "${found[flag]##*/}"
    fi
    if [ -n "${found[to]:-}" ]; then
        printf '\n[alert.smtp]\nurl = smtp://localhost:25\nfrom = %s\nto = %s\nstarttls = off\n' \
            "${found[from]}" "${found[to]}"
    fi
}

# Prints the report, every secret in it masked.
print_report() {
    local kind line what at text one
    for kind in carried 'left out' 'by hand'; do
        case $kind in
        carried) echo 'Carried over:' ;;
        'left out') echo 'Not carried over:' ;;
        'by hand') echo 'To do by hand:' ;;
        esac
        for line in "${report[@]}"; do
            IFS=$'\t' read -r what at text <<<"${line//$'\n'/ }"
            [ "$what" = "$kind" ] || continue
            for one in "${secrets[@]}"; do
                if [ -n "$one" ]; then text=${text//"$one"/****}; fi
            done
            printf '  %-22s %s\n' "$at" "${text//$unknown/...}"
        done
    done
}

print_report
echo
[ -z "$missing" ] || die "not found in the scripts:$missing; no config written"
for key in "${!found[@]}"; do
    case ${found[$key]} in
    *$'\n'* | *$'\r'*) die "the value of $key holds a line break; no config written" ;;
    esac
    [ "$key" != password ] || continue
    case ${found[$key]} in
    *' ;'* | *' #'* | ' '* | *' ') die "the value of $key cannot be written in a config; no config written" ;;
    esac
done
if config_text | LC_ALL=C grep -E '^.{200}' >/dev/null; then
    die "a value is longer than a line of the config may be (199 bytes); no config written"
fi
for file in "$config" "$secret"; do
    if [ -e "$file" ] || [ -L "$file" ]; then die "$file is there already; nothing written"; fi
done
if [ "$dry_run" = yes ]; then
    echo "Would write $config:"
    config_text | sed 's/^./  &/'
    exit 0
fi

mkdir -p "$to"
umask 077
set -o noclobber
files=("$config")
if [ -n "${found[password]:-}" ]; then
    printf '%s\n' "${found[password]}" >"$secret"
    files+=("$secret")
fi
config_text >"$config"
owner=''
if [ "$(id -u)" = 0 ] && id -u worldkeeper >/dev/null 2>&1; then
    chown worldkeeper: "${files[@]}"
    owner=', owned by user worldkeeper'
fi
echo "Written, mode 0600$owner: ${files[*]}"
if [ -z "$owner" ]; then echo "Give them to the user that worldkeeper runs as: chown worldkeeper: ${files[*]}"; fi
cat <<END
Next:
  install -d -m 0700 -o worldkeeper -g worldkeeper $dumps_to
  runuser -u worldkeeper -- worldkeeper --config $config --check
  runuser -u worldkeeper -- worldkeeper --config $config --init
  remove the cron lines named above, then: systemctl enable --now worldkeeper@$name
END
