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

Reads the old scripts in DIRECTORY, with the arguments that the crontab gives them,
and writes a config and a password file for worldkeeper; where cron starts them with
several sets of arguments, for each. Says for each thing where it was found and whether
it was carried over. The newest old dump is copied to where a restore can read it.
Never overwrites a file, never prints a password, changes nothing of the old.

  --to DIR        where NAME.ini and NAME.password go (default: /etc/worldkeeper)
  --name NAME     name of the world (default: made from the schema's)
  --dumps DIR     where worldkeeper's dumps will be
                  (default: /var/lib/worldkeeper/NAME)
  --owner USER    user that worldkeeper runs as, who gets what root writes
                  (default: worldkeeper)
  --schema, --user, --host, --socket, --flag, --interval VALUE
                  what the scripts do not say, or not so that it is understood
  --old-dumps DIR where the scripts put their dumps
  --my-cnf FILE   the client's option file that the scripts rely on
                  (default: .my.cnf of the scripts' owner)
  --crontab FILE  where to look for cron lines, may be repeated
                  (default: the system's and the users' crontabs)
  --root DIR      a directory before the default ones of --to and --dumps
  --for-setup     say no next steps: worldkeeper-setup --from-cron takes them
  --cron-lines    only print the lines of cron that start these scripts, each as FILE:NUMBER
  --dry-run       say everything, write nothing
  --help          this text
END
}

die() {
    printf 'migrate: %s\n' "$*" >&2
    exit 1
}

to='' root='' cron_lines=no for_setup=no name='' dumps_to='' my_cnf='' dry_run=no dir='' old_given='' service=worldkeeper
crontabs=()
declare -A given=() # by config key: what an option says
while [ $# -gt 0 ]; do
    case $1 in
    --to | --name | --dumps | --my-cnf | --crontab | --schema | --user | --host | --socket | --flag | \
        --interval | --old-dumps | --owner | --root)
        [ $# -ge 2 ] || die "$1 wants a value"
        case $1 in
        --schema | --user | --host | --socket | --flag | --interval) given[${1#--}]=$2 ;;
        --old-dumps) old_given=$2 ;;
        --to) to=$2 ;;
        --root) root=${2%/} ;;
        --name) name=$2 ;;
        --dumps) dumps_to=${2%/} ;;
        --owner) service=$2 ;;
        --my-cnf) my_cnf=$2 ;;
        --crontab) crontabs+=("$2") ;;
        esac
        shift
        ;;
    --dry-run) dry_run=yes ;;
    --cron-lines) cron_lines=yes ;;
    --for-setup) for_setup=yes ;;
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
to=${to:-$root/etc/worldkeeper}

# ---------------------------------------------------------------------------------------------------
# Files of other users
# ---------------------------------------------------------------------------------------------------

# as_user UID COMMAND...: root reads and makes another user's files with that user's privileges, so that a link leads no
# further than its owner could go. Without root's terminal (setsid): another process of that user could type into it.
as_user() {
    local uid=$1 entry=''
    shift
    if [ "$EUID" != 0 ] || [ "$uid" = 0 ]; then
        "$@"
    elif entry=$(getent passwd "$uid"); then
        setsid setpriv --reuid="$uid" --regid="$(cut -d : -f 4 <<<"$entry")" --init-groups -- "$@"
    else
        setsid setpriv --reuid="$uid" --regid=65534 --clear-groups -- "$@"
    fi
}

name_of() { getent passwd "$1" | cut -d : -f 1 | grep . || printf 'user %s' "$1"; }

# The scripts, and what they name, are read as whoever owns them.
reader=$(stat -c %u "$dir")
owner_home=$(getent passwd "$reader" | cut -d : -f 6) || owner_home=''
readable() { as_user "$reader" test -r "$1"; }
contents() { as_user "$reader" cat -- "$1"; }
cannot_read() {
    REPLY="$1: cannot be read"
    if [ "$EUID" = 0 ] && [ "$reader" != 0 ]; then REPLY+=" by $(name_of "$reader"), who owns the scripts"; fi
}

# not_only_root: prints who makes files in the current directory if that is not root; returns 1 if it is.
not_only_root() {
    local uid mode
    read -r uid mode < <(stat -c '%u %a' .)
    if [ "$uid" = 0 ]; then
        # In a sticky directory nobody replaces what root has made.
        if [ $((8#$mode & 8#022)) = 0 ] || [ $((8#$mode & 8#1000)) != 0 ]; then return 1; fi
        die "cannot write in $PWD: others than root can write there; chmod go-w $(printf %q "$PWD"), or another directory"
    fi
    [ "$uid" = "$service_uid" ] ||
        die "cannot write in $PWD: $(name_of "$uid") owns it and can replace what is made there; another directory, or --owner"
    printf '%s\n' "$uid"
}

# make_directory DIR: makes it and prints whose privileges are to make files in it: root's (0) if only root can put names
# there and on the way there, else those of the service's user. Root goes down one directory at a time, so that a link
# that it follows is one of its own.
make_directory() (
    if [ "$EUID" != 0 ]; then
        mkdir -p -- "$1" && printf '%s\n' "$EUID"
        exit
    fi
    rest=$1 links=0
    case $rest in /*) ;; *) rest=$PWD/$rest ;; esac
    cd -P /
    while ! not_only_root; do
        rest=${rest#"${rest%%[!/]*}"}
        if [ -z "$rest" ]; then
            printf '0\n'
            exit
        fi
        part=${rest%%/*} rest=${rest#"${rest%%/*}"} here=${PWD%/}
        case $part in
        .) continue ;;
        ..)
            cd -P ..
            continue
            ;;
        esac
        if [ -L "./$part" ]; then
            links=$((links + 1))
            if [ "$(stat -c %u "./$part")" != 0 ] || [ "$links" -gt 40 ]; then
                die "cannot write in $1: $here/$part is a link"
            fi
            target=$(readlink "./$part")
            case $target in /*) cd -P / ;; esac
            rest=$target$rest
            continue
        fi
        [ -e "./$part" ] || mkdir -m 0755 -- "./$part"
        if ! cd -P "./$part" || [ "$PWD" != "$here/$part" ]; then
            die "cannot write in $1: $here/$part is not a directory"
        fi
    done
    as_user "$service_uid" mkdir -p -- "$1"
)

# make_file UID PATH: from standard input, for its owner only, and only where nothing is.
make_file() {
    as_user "$1" sh -c 'umask 077 && set -C && exec cat >"$1"' sh "$2" || die "cannot write $2"
}

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

args=() # of the script that is read
unknown=$'\x01' # stands for what is known only when the script runs
sep=$'\x1f'     # between the words of a command

# first_line FILE
first_line() {
    local line=''
    IFS= read -r line < <(contents "$1" 2>/dev/null | tr -d '\0') || true
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
        if [ ${#scanned[@]} = 1 ] && readable "${scanned[0]}"; then REPLY=$(first_line "${scanned[0]}"); fi
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
        elif [[ $inner =~ ^[1-9]$ ]]; then
            REPLY=${args[inner-1]-$unknown}
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
        elif [[ $text =~ ^\$[1-9] ]]; then
            used=2 REPLY=${args[${text:1:1}-1]-$unknown}
        elif [[ $text =~ ^\$[@*] ]] && [ ${#args[@]} -gt 0 ]; then
            used=2 REPLY=${args[*]}
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
    local redirect='' appended=no here='' quoted='' rest REPLY used
    end_word() {
        [ "$in_word" = yes ] || return 0
        case $want in
        out) redirect=$word appended=no ;;
        append) redirect=$word appended=yes ;;
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
        commands=() redirect='' appended=no here=''
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
            case $target$rest in 'out>>'*) target=append ;; esac
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
            REPLY=$c
            if [ "$in_word" = no ]; then lookup HOME; fi
            word+=$REPLY in_word=yes
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
    if [ "$place_quiet" = cron ]; then
        cron_pipeline "$@"
        return 0
    fi
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
        case $sep$command$sep in *"${sep}tee$sep"*) appended=no ;; esac
        case $sep$command in *"${sep}tee$sep-a$sep"* | *"${sep}tee$sep--append$sep"*) appended=yes ;; esac
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
    mv) mv_command "$@" ;;
    . | source) if [ $# -gt 0 ]; then read_script "$1"; fi ;;
    php | php[0-9]* | php-cgi | php-cli) php_command "$@" ;;
    curl | wget)
        note 'left out' "$place" \
            "$command: for a chat there is [alert.webhook] url_file, for a watchdog elsewhere [heartbeat] url_file"
        ;;
    rsync | scp | sftp | ssh | rclone | s3cmd | aws | systemctl | service | kill | killall | \
        pkill | mysqladmin | mariadb-admin | mysqlcheck | mysqld_safe | bzip2 | xz | zstd | logger | \
        gpg | openssl)
        note 'left out' "$place" "$command: worldkeeper does nothing in its place"
        ;;
    '' | '[' | '[[' | test | case | esac | in | fi | done | for | cat | cd | mktemp | date | basename | dirname | \
        exit | return | break | continue | true | false | : | sleep | wait | touch | rm | cp | ln | \
        ls | head | tail | sort | wc | grep | sed | awk | cut | tr | tee | zcat | gunzip | set | trap | \
        shift | unset | umask | read | mkdir | chmod | chown | pgrep | stat | expr | let | flock | hostname | \
        bash | sh | function | *"$unknown"* | *'()' | *')' | '*') ;;
    *)
        case $path in
        "$dir"/*) # one of the scripts itself
            if [ -z "${seen_file[$path]:-}" ] && is_script "$path"; then
                local -a args=("$@")
                read_script "$path"
            fi
            ;;
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

# ---- a probe in PHP: its connection and its query, read like the shell's, one line at a time ----

# php_value TEXT: of 'text', "text with $name and {$name}", $name, $argv[1], NAME, joined by dots, in REPLY.
php_value() {
    local text=$1 out='' piece
    while [ -n "$text" ]; do
        text=${text#"${text%%[![:space:].]*}"}
        if [[ $text =~ ^\'([^\']*)\' ]]; then
            out+=${BASH_REMATCH[1]}
        elif [[ $text =~ ^\"([^\"]*)\" ]]; then
            local whole=${BASH_REMATCH[0]} inner=${BASH_REMATCH[1]}
            while [[ $inner =~ ^([^\$\{]*)(\{?)\$([A-Za-z_][A-Za-z0-9_]*)(\[([0-9])\])?\}?(.*)$ ]]; do
                out+=${BASH_REMATCH[1]}
                inner=${BASH_REMATCH[6]}
                php_variable "${BASH_REMATCH[3]}" "${BASH_REMATCH[5]}"
                out+=$REPLY
            done
            out+=$inner
            text=${text#"$whole"}
            continue
        elif [[ $text =~ ^\$([A-Za-z_][A-Za-z0-9_]*)(\[([0-9])\])? ]]; then
            piece=${BASH_REMATCH[0]}
            php_variable "${BASH_REMATCH[1]}" "${BASH_REMATCH[3]}"
            out+=$REPLY
            text=${text#"$piece"}
            continue
        elif [[ $text =~ ^[A-Za-z_][A-Za-z0-9_]* ]] && [ -n "${php_var[:${BASH_REMATCH[0]}]+set}" ]; then
            out+=${php_var[:${BASH_REMATCH[0]}]}
        elif [ -n "$text" ]; then
            out+=$unknown
            break
        fi
        text=${text#"${BASH_REMATCH[0]}"}
    done
    REPLY=$out
}
php_variable() {
    if [ "$1" = argv ] && [ -n "$2" ] && [ "$2" -gt 0 ]; then
        REPLY=${args[$2-1]-$unknown}
    else
        REPLY=${php_var[$1]-$unknown}
    fi
}

# php_arguments TEXT: "(a, b)" and what follows, its parts in `parts`. Returns 1 where the text ends first.
php_arguments() {
    local text=${1#*\(} i c quote='' part='' depth=0 closed=1
    parts=()
    for ((i = 0; i < ${#text}; i++)); do
        c=${text:i:1}
        if [ -n "$quote" ]; then
            if [ "$c" = "$quote" ]; then quote=''; fi
        else
            case $depth$c in
            *\' | *\") quote=$c ;;
            0,)
                parts+=("$part")
                part=''
                continue
                ;;
            '0)')
                closed=0
                break
                ;;
            *[\(\[]) depth=$((depth + 1)) ;;
            *[\)\]]) depth=$((depth - 1)) ;;
            esac
        fi
        part+=$c
    done
    parts+=("$part")
    return $closed
}

# php_connect TEXT KEY...: the arguments of a connection, and what each of them is.
php_connect() {
    local i parts
    php_arguments "$1" || true
    shift
    uses_client=yes
    for ((i = 0; i < ${#parts[@]} && i < $#; i++)); do
        php_value "${parts[i]}"
        php_option "${@:i+1:1}" "$REPLY"
    done
}
php_option() {
    case $1:$2 in
    host:localhost | *:) ;;
    host:* | user:* | port:*) connection_option "--$1" "$2" ;;
    unix_socket:*) connection_option --socket "$2" ;;
    password:*) password "$2" ;;
    schema:* | dbname:*) keep schema "$2" "$place" "schema $2" ;;
    dsn:mysql:*)
        local IFS=';' one
        for one in ${2#mysql:}; do
            one=${one#"${one%%[![:space:]]*}"}
            php_option "${one%%=*}" "${one#*=}"
        done
        ;;
    dsn:*) note 'left out' "$place" 'PDO: its DSN is not understood; --schema, --host and --socket name what it says' ;;
    esac
}

# php_known TEXT: what a line makes known to those after it: variables, constants, other files.
php_known() {
    local name='[A-Za-z_][A-Za-z0-9_]*' parts
    local assigned="^\\\$($name)[[:space:]]*=[[:space:]]*([^=].*);[[:space:]]*\$"
    local constant="^const[[:space:]]+($name)[[:space:]]*=[[:space:]]*(.*);[[:space:]]*\$"
    local included='^(require|include)(_once)?[[:space:]]*\(?[[:space:]]*([^)]*)\)?[[:space:]]*;'
    if [[ $1 =~ $assigned ]]; then
        name=${BASH_REMATCH[1]}
    elif [[ $1 =~ $constant ]]; then
        name=:${BASH_REMATCH[1]}
    elif [[ $1 =~ ^define[[:space:]]*\( ]] && php_arguments "$1" && [ ${#parts[@]} = 2 ]; then
        php_value "${parts[0]}"
        name=:$REPLY
        php_value "${parts[1]}"
        php_var[$name]=$REPLY
        return 0
    elif [[ $1 =~ $included ]]; then
        php_value "${BASH_REMATCH[3]}"
        case $REPLY in /*) ;; *) REPLY=${path%/*}/$REPLY ;; esac
        if [ -z "${seen_file[$REPLY]:-}" ] && readable "$REPLY"; then php_lines "$REPLY"; fi
        return 0
    else
        return 0
    fi
    php_value "${BASH_REMATCH[2]}"
    php_var[$name]=$REPLY
}

php_from='[Ff][Rr][Oo][Mm][[:space:]]+`?([]A-Za-z0-9_.{}$[]+)'
read_php() {
    local -A php_var=()
    php_lines "$1"
}
php_lines() {
    local path=$1 line more text number=0 here=$place table parts
    php_var[:__DIR__]=${path%/*}
    seen_file[$path]=yes
    while IFS= read -r line || [ -n "$line" ]; do
        number=$((number + 1))
        place=${path##*/}:$number
        line=${line#"${line%%[![:space:]]*}"}
        case $line in '//'* | '#'* | '*'* | '/*'*) continue ;; esac
        php_known "$line"
        if [[ $line =~ (mysqli?_p?connect|new[[:space:]]+mysqli|new[[:space:]]+\\?PDO)[[:space:]]*(\(.*)$ ]]; then
            table=${BASH_REMATCH[1]} text=${BASH_REMATCH[2]}
            until php_arguments "$text" || ! IFS= read -r more; do # its arguments are on several lines
                number=$((number + 1))
                text+=" $more"
            done
            case $table in
            *PDO) php_connect "$text" dsn user password ;;
            *) php_connect "$text" host user password schema ;;
            esac
        fi
        case $line in
        *mysql_select_db*\(* | *select_db*\(*)
            php_arguments "${line#*select_db}"
            for table in "${parts[@]}"; do
                php_value "$table"
                case $REPLY in '' | *"$unknown"*) ;; *) keep schema "$REPLY" "$place" "schema $REPLY" ;; esac
            done
            ;;
        esac
        if [[ ${line^^} == *SELECT* && $line =~ $php_from ]]; then
            php_value "\"${BASH_REMATCH[1]}\""
            sentinel_found "$REPLY"
        fi
    done < <(contents "$path")
    place=$here
}

php_command() {
    local file=''
    while [ $# -gt 0 ]; do
        case $1 in
        -d) shift ;;
        -*) ;;
        *)
            file=$1
            shift
            break
            ;;
        esac
        shift
    done
    case $file in /*) ;; *) file=$script_dir/$file ;; esac
    case $file in
    *"$unknown"*) note 'left out' "$place" 'php: which file it runs is known only when the script runs' ;;
    *)
        if ! readable "$file"; then
            cannot_read "$file"
            note 'left out' "$place" "$REPLY"
        elif [ -z "${seen_file[$file]:-}" ]; then
            local -a args=("$@")
            read_php "$file"
        fi
        ;;
    esac
}

sentinel_found() {
    local table=${1##*.}
    if [ -z "${old_sentinel:-}" ]; then
        old_sentinel=$table
        note 'left out' "$place" "sentinel $table: worldkeeper has its own; this one stays a table of the game"
    fi
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
    if [ -n "$redirect" ] && [ "$redirect" != /dev/null ]; then wrote dump "$redirect"; fi
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
        sentinel_found "$table"
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

# Files that the scripts write, in order: kind (flag or dump), place and name. A name may be that of a temporary file, which
# mv_command replaces; what it is in the end is looked at when all is read.
written_kind=() written_at=() written=()
declare -A written_last=() # by name: index
wrote() {
    written_kind+=("$1") written_at+=("$place") written+=("$2")
    written_last[x$2]=$((${#written[@]} - 1))
}
mv_command() {
    local word to index
    local -a names=()
    for word in "$@"; do
        case $word in -*) ;; *) names+=("$word") ;; esac
    done
    [ ${#names[@]} = 2 ] || return 0
    to=${names[1]}
    case $to in */) to+=${names[0]##*/} ;; *) if [ -d "$to" ]; then to+=/${names[0]##*/}; fi ;; esac
    index=${written_last[x${names[0]}]:-}
    [ -n "$index" ] || return 0
    # All that was written under that name up to here.
    for word in "${!written[@]}"; do
        if [ "${written[word]}" = "${names[0]}" ] && [ "${written_kind[word]}" = "${written_kind[index]}" ]; then written[word]=$to; fi
    done
    written_last[x$to]=$index
    unset "written_last[x${names[0]}]"
}
settle_written() {
    local i
    for i in "${!written[@]}"; do
        place=${written_at[i]}
        case ${written_kind[i]}:${written[i]} in
        flag:/*) keep flag "${written[i]}" "$place" "flag file ${written[i]}" ;;
        flag:*) note 'left out' "$place" "flag file ${written[i]}: not an absolute path" ;;
        *) dumps_are_in "${written[i]}" ;;
        esac
    done
    place=''
}
# dumps_are_in FILE: where the scripts put their dumps, by the name of one.
dumps_are_in() {
    local old=${1%/*}
    case $old in
    /*"$unknown"* | [!/]*) note 'left out' "$place" "directory of the dumps: not understood" ;;
    *)
        if [ -z "${old_dumps:-}" ]; then
            old_dumps=$old old_pattern=${1##*/}
            note 'left out' "$place" "old dumps in $old: they stay, worldkeeper --restore=PATH reads them"
        fi
        ;;
    esac
}

# A flag word that is written into a file tells the flag file. Where it is appended, the file is a log.
flag_command() {
    local word
    [ "$appended" = no ] || return 0
    for word in "$@"; do
        case $word in
        UP | UP'\n' | WAITING | WAITING'\n' | RESTORING*)
            case $redirect in
            /dev/* | '') ;;
            *) wrote flag "$redirect" ;;
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
uses_client=no old_dumps='' old_pattern='' old_sentinel=''

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
    readable "$path" || {
        cannot_read "$path"
        note 'left out' "${place:-$path}" "$REPLY"
        return 0
    }
    seen_file[$path]=yes
    local outer_place=$place outer_script=$script outer_dir=$script_dir
    script=$path script_dir=${path%/*}
    exec {fd}< <(contents "$path")
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

minutes='' # variables with the minute of the hour
# What is easier to see in the line as it stands.
raw_line() {
    local line=$1
    case $line in '#'*) return 0 ;; esac
    if [[ $line =~ ([A-Za-z_][A-Za-z0-9_]*)=.*date[^\|]*%M ]]; then minutes+=" ${BASH_REMATCH[1]} "; fi
    if [[ $line =~ (expr|let|\(\()[^%]*[^A-Za-z0-9_]([A-Za-z_][A-Za-z0-9_]*)[^%A-Za-z0-9_]*%[[:space:]]*([0-9]+) ]] &&
        [[ $minutes == *" ${BASH_REMATCH[2]} "* ]] && [[ $line != *mail* ]]; then
        keep interval "${BASH_REMATCH[3]}m" "$place" "a dump each ${BASH_REMATCH[3]} minutes"
    fi
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
    readable "$file" || {
        cannot_read "option file $file"
        note 'left out' "$place" "$REPLY"
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
    done < <(contents "$file")
    place=$here
}

# below PATH: what file of $dir PATH names, directly or by links, in REPLY; fails if it names none.
below() {
    local path=$1 head
    case $path in /*) ;; *) path=$cron_at/$path ;; esac
    [ -f "$path" ] || return 1
    for path in "$path" "$(readlink -f -- "$path")"; do
        head=${path%/*}
        while [ -n "$head" ]; do
            REPLY=${path#"$head"/}
            if [ "$head" -ef "$dir" ]; then return 0; fi
            head=${head%/*}
        done
    done
    return 1
}

# cron_pipeline COMMAND...: of a line of cron; adds what it starts of these scripts to `starts`, and follows cd.
cron_pipeline() {
    local command word i first REPLY
    local -a w
    for command in "$@"; do
        w=() first=''
        IFS=$sep read -rd '' -a w < <(printf '%s%s\0' "$command" "$sep") || true
        case $sep$command$sep in
        *"${sep}["*"]$sep" | "${sep}test$sep"* | "${sep}if${sep}test$sep"* | "${sep}!${sep}test$sep"*)
            continue # starts nothing
            ;;
        *"${sep}cd$sep")
            lookup HOME
            cron_at=$REPLY
            continue
            ;;
        *"${sep}cd$sep"*)
            case ${w[-1]} in /*) cron_at=${w[-1]} ;; *) cron_at+=/${w[-1]} ;; esac
            continue
            ;;
        esac
        for i in "${!w[@]}"; do
            word=${w[i]}
            case $word in *[[:space:]]*) scan "$word" || true ;; esac # a command, as of sh -c
            if ! below "$word" || { [ -n "$first" ] && ! is_script "$dir/$REPLY"; }; then continue; fi
            first=$i w[i]=$REPLY
            if is_script "$dir/$REPLY"; then break; fi
        done
        if [ -n "$first" ]; then starts+=("$(IFS=$sep && printf '%s' "${w[*]:first}")"); fi
    done
}

# cron_line FILE LINE: what LINE starts of these scripts, in `starts`, each with its arguments and $sep between. A variable
# of the crontab is put into `var`.
cron_line() {
    local line=${2#"${2%%[![:space:]]*}"} user=${1##*/} place='' script='' script_dir=$dir place_quiet=cron cron_at entry REPLY
    local setting='^"?([A-Za-z_][A-Za-z0-9_]*)"?[[:space:]]*=[[:space:]]*(.*[^[:space:]])?'
    local times='^(@[a-z]+|([^[:space:]]+[[:space:]]+){4}[^[:space:]]+)[[:space:]]+'
    local owner_home=$owner_home
    starts=()
    case $line in '#'*) return 0 ;; esac
    if [[ $line =~ $setting ]]; then
        entry=${BASH_REMATCH[2]#[\"\']}
        var[${BASH_REMATCH[1]}]=${entry%[\"\']}
        return 0
    fi
    if [[ $line =~ $times ]]; then
        line=${line#"${BASH_REMATCH[0]}"}
        case $1 in */spool/cron/*) ;; *) user=${line%%[[:space:]]*} ;; esac
        if entry=$(getent passwd "$user"); then
            owner_home=$(cut -d : -f 6 <<<"$entry")
            case $1 in */spool/cron/*) ;; *) line=${line#"$user"} ;; esac
        fi
        lookup HOME
        cron_at=$REPLY
        scan "$line" || true
    fi
    if [ ${#starts[@]} = 0 ] && [[ $line == *"$dir"/* ]]; then
        line=${line#*"$dir"/}
        starts=("${line%%[!A-Za-z0-9._/-]*}")
    fi
}

# find_cron: the lines that start these scripts, for a person to remove, and with which arguments.
cron_sets=()                  # different lists of arguments, with $sep between them
declare -A cron_scripts=()    # by list: the scripts that are started with it
cron_notes=()                 # of all sets
# shellcheck disable=SC2094 # cron_line only looks at the file's name
find_cron() {
    local file line number one started names list
    local -a starts
    if [ ${#crontabs[@]} = 0 ]; then
        crontabs=("$root"/etc/crontab "$root"/etc/cron.d/* "$root"/var/spool/cron/crontabs/*)
    fi
    for file in "${crontabs[@]}"; do
        if [ ! -f "$file" ] || [ ! -r "$file" ]; then continue; fi
        local -A var=()
        number=0
        while IFS= read -r line || [ -n "$line" ]; do
            number=$((number + 1)) names=''
            cron_line "$file" "$line"
            for one in "${starts[@]}"; do
                started=${one%%"$sep"*} list=''
                names+=${names:+, }$started
                if [[ $line =~ ^[[:space:]]*\*/([0-9]+)[[:space:]] && $started == *dump* ]]; then
                    cron_every=${BASH_REMATCH[1]} cron_interval=$file:$number
                fi
                case $one in *"$unknown"*) ;; *"$sep"*) list=${one#*"$sep"} ;; esac
                if [ -z "${cron_scripts[x$list]:-}" ] && [ -n "$list" ]; then cron_sets+=("$list"); fi
                cron_scripts[x$list]+="$started$sep"
            done
            # The line itself is not shown: a password may stand in it that is nowhere else.
            if [ ${#starts[@]} -gt 0 ]; then cron_notes+=("$file:$number"$'\t'"remove this line, which starts $names"); fi
        done <"$file"
    done
}
cron_every='' cron_interval=''

# is_script FILE
is_script() {
    [ -f "$1" ] && readable "$1" || return 1
    case $1 in *.sh | *.bash) return 0 ;; esac
    case $(as_user "$reader" head -c 64 -- "$1" | tr -d '\0' | head -n 1) in '#!'*sh*) return 0 ;; esac
    return 1
}

# read_all SET: the scripts as they are started with these arguments; where there is but one such set,
# those that cron does not start as well.
read_all() {
    local file one
    local -a args=() first=()
    IFS=$sep read -ra args <<<"$1"
    IFS=$sep read -ra first <<<"${cron_scripts[x$1]:-}"
    for one in "${first[@]}"; do
        if is_script "$dir/$one" && [ -z "${seen_file[$dir/$one]:-}" ]; then
            var=()
            read_script "$dir/$one"
        fi
    done
    [ ${#cron_sets[@]} -lt 2 ] || return 0
    for file in "$dir"/*; do
        if ! is_script "$file" || [ -n "${seen_file[$file]:-}" ]; then continue; fi
        var=()
        read_script "$file"
    done
}

# unpacked FILE: the text of an old dump; fails where it cannot be read or unpacked whole.
unpacked() {
    case $1 in
    *.gz) contents "$1" | gzip -dc 2>/dev/null ;;
    *) contents "$1" ;;
    esac
}

# other_schema FILE: what it holds, as its first lines tell, in REPLY; empty: they do not, or it is ours.
other_schema() {
    local file=$1 line
    REPLY=''
    while IFS= read -r line; do
        if [[ $line =~ ^--\ Host:.*Database:\ *([^[:space:]]+) ]]; then REPLY=${BASH_REMATCH[1]}; fi
    done < <(unpacked "$file" | head -c 2000 | tr -d '\0')
    [ "$REPLY" != "${found[schema]:-}" ] || REPLY=''
}

# newest_whole_dump: of the old dumps, in old_dump; each newer one that is not whole, or another world's,
# is named.
old_dump='' old_reader=''
newest_whole_dump() {
    local place_of=${old_given:-$old_dumps} pattern=${old_pattern//"$unknown"/*} file last REPLY
    if [ -z "$place_of" ] || [ ! -d "$place_of" ]; then return 0; fi
    if [ -n "$old_given" ]; then
        pattern='*'
        local reader
        reader=$(stat -c %u -- "$old_given")
    fi
    old_reader=$reader
    while IFS= read -rd '' file; do
        file=${file#* }
        last=$(unpacked "$file" | tail -c 400 | tr -d '\0') || last=''
        other_schema "$file"
        if [ -n "$REPLY" ]; then
            note 'left out' "$file" "an old dump of $REPLY, which is another schema"
            continue
        fi
        case $last in
        *'-- Dump completed'*)
            old_dump=$file
            note carried "$file" 'the newest old dump that is whole: it is copied'
            return 0
            ;;
        *) note 'left out' "$file" 'an old dump that is not whole: it has no closing line, or gzip does not unpack it' ;;
        esac
    done < <(as_user "$reader" find "$place_of" -maxdepth 1 -type f -name "$pattern" \( -name '*.sql' -o -name '*.sql.gz' -o -name '*.gz' \) \
        -printf '%T@ %p\0' | sort -zrn | head -zn 20)
    note 'by hand' "$place_of" 'no whole old dump: nothing can be restored before the first own one'
}

# ---------------------------------------------------------------------------------------------------
# One world
# ---------------------------------------------------------------------------------------------------

# understand SET: what the scripts say, into `found`.
understand() {
    local key file one line
    for key in "${!given[@]}"; do keep "$key" "${given[$key]}" "--$key" "$key ${given[$key]}"; done
    if [ -n "$cron_every" ]; then keep interval "${cron_every}m" "$cron_interval" "a dump each $cron_every minutes"; fi
    place='' script='' script_dir=$dir
    read_all "$1"
    [ ${#seen_file[@]} -gt 0 ] || die "no shell scripts in $dir"
    [ "$uses_client" = yes ] || die "no mysqldump and no mysql is called in $dir: are these the scripts?"
    settle_written
    if [ -n "$my_cnf" ]; then
        [ -r "$my_cnf" ] || die "$my_cnf cannot be read"
        reader=$EUID read_cnf "$my_cnf" # whoever started this has named it
    elif [ -z "${found[password]:-}" ] && readable "$owner_home/.my.cnf"; then
        read_cnf "$owner_home/.my.cnf"
    fi
    if [ -z "${found[flag]:-}" ] && [ -n "$maybe_flag" ]; then
        keep flag "$maybe_flag" 'a variable' "flag file $maybe_flag, from the name of a variable: is it the one?"
    fi
    for one in "${cron_notes[@]}"; do note 'by hand' "${one%%$'\t'*}" "${one#*$'\t'}"; done
    if [ ${#cron_notes[@]} = 0 ]; then
        note 'by hand' cron "no line that starts these scripts was found: look for it, and remove it"
    fi
    newest_whole_dump
}

# ---------------------------------------------------------------------------------------------------
# The config
# ---------------------------------------------------------------------------------------------------

# settle: names and files of the world, and what is left to a person.
settle() {
    missing=''
    [ -n "${found[schema]:-}" ] || missing+=' the schema (--schema NAME)'
    [ -n "${found[user]:-}" ] || missing+=' the account (--user NAME)'
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
    if [ -z "$dumps_to" ]; then
        dumps_to=$root/var/lib/worldkeeper/$name
    elif [ ${#cron_sets[@]} -gt 1 ]; then
        dumps_to=$dumps_to/$name
    fi

    if [ -z "${found[host]:-}${found[socket]:-}" ] && [ "${found[port]:-3306}" != 3306 ]; then
        found[host]=127.0.0.1
        note 'by hand' "$config" "port ${found[port]} was found without a host: 127.0.0.1 is taken (--host, --socket)"
    elif [ -z "${found[host]:-}${found[socket]:-}" ]; then
        found[socket]=/run/mysqld/mysqld.sock
        note 'by hand' "$config" "no host and no socket found: /run/mysqld/mysqld.sock is taken, Debian's (--host, --socket)"
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
    if [ -n "${found[flag]:-}" ] && [ ${#cron_sets[@]} -gt 1 ]; then
        local at=${found[flag]%/*}
        if grep -qxF -- "$at" "$taken"; then
            found[flag]=$at/$name/${found[flag]##*/}
            note 'by hand' "$at" "another world's status is in it: this one's is in $at/$name; tell the homepage"
        fi
        printf '%s\n' "${found[flag]%/*}" >>"$taken"
    fi
    if [ -n "${found[flag]:-}" ]; then
        note 'by hand' "${found[flag]%/*}" \
            'user worldkeeper must be able to write here, and the service must be allowed to (ReadWritePaths)'
    else
        note 'by hand' "$config" 'no flag file found: --flag FILE, if a homepage polls it'
    fi
    if [ -z "${found[interval]:-}" ]; then
        note 'by hand' "$config" 'how often the scripts dump was not understood: 15m is taken (--interval)'
    fi
    note 'left out' restore 'a limit of its time, where there was one: worldkeeper ends one that makes no progress'
}

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

# say_which: whose report follows, which the masked ones of several worlds would not tell. A name with a secret in it is not
# said.
say_which() {
    local one
    for one in "${secrets[@]}"; do
        case $name$sep${found[schema]:-} in *"${one:-$sep$sep}"*) return 0 ;; esac
    done
    printf 'World %s, of schema %s:\n' "$name" "${found[schema]:-?}"
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
            text=${text//$unknown/...}
            printf '  %-22s %s\n' "${at//[[:cntrl:]]/?}" "${text//[[:cntrl:]]/?}"
        done
    done
}

# refuse_unwritable: a config that could not be written, or would not be read.
refuse_unwritable() {
    [ -z "$missing" ] || die "not found in the scripts:$missing; no config written"
    for key in "${!found[@]}"; do
        case ${found[$key]} in
        *$'\n'* | *$'\r'*) die "the value of $key holds a line break; no config written" ;;
        esac
        [ "$key" != password ] || continue
        case ${found[$key]} in
        *' ;'* | *' #'* | ' '* | *' ' | *[[:cntrl:]]*) die "the value of $key cannot be written in a config; no config written" ;;
        esac
    done
    if [ -d "$dumps_to" ] && [ "$dumps_to" -ef "${old_given:-${old_dumps:-/}}" ]; then
        die "$dumps_to is where the old dumps are; --dumps needs a directory of its own; no config written"
    fi
    if config_text | LC_ALL=C grep -E '^.{200}' >/dev/null; then
        die "a value is longer than a line of the config may be (199 bytes); no config written"
    fi
    for file in "$config" "$secret" ${old_dump:+"$dumps_to/imported/${old_dump##*/}"}; do
        if [ -e "$file" ] || [ -L "$file" ]; then die "$file is there already; nothing written"; fi
    done
}

# write_old_dump: its copy where a restore can read it. Of directories that are there already, the owner and the mode stay
# as they are.
write_old_dump() {
    local maker one
    maker=$(make_directory "${dumps_to%/*}")
    for one in "$dumps_to" "$dumps_to/imported"; do
        if [ -d "$one" ]; then
            maker=$(make_directory "$one")
        else
            as_user "$maker" mkdir -m 0700 -- "$one"
            if [ "$maker" = 0 ]; then given_away=("$one" "${given_away[@]}"); fi
            files+=("$one")
        fi
    done
    old_copy=$dumps_to/imported/${old_dump##*/}
    as_user "$old_reader" cat -- "$old_dump" | make_file "$maker" "$old_copy"
    if [ "$maker" = 0 ]; then given_away=("$old_copy" "${given_away[@]}"); fi
    files+=("$old_copy")
}

write_files() {
    local place_is=new maker given_away=() service_uid='' old_copy='' owner='' quoted
    if [ -e "$dumps_to" ]; then place_is=old; fi
    if [ "$EUID" = 0 ]; then service_uid=$(id -u -- "$service" 2>/dev/null) || service_uid=''; fi
    maker=$(make_directory "$to")
    files=("$config")
    if [ -n "${found[password]:-}" ]; then
        printf '%s\n' "${found[password]}" | make_file "$maker" "$secret"
        files+=("$secret")
    fi
    config_text | make_file "$maker" "$config"
    if [ "$maker" = 0 ]; then given_away=("${files[@]}"); fi
    if [ -n "$old_dump" ]; then write_old_dump; fi
    if [ -n "$service_uid" ]; then
        # From the inside out: up to here only root can put a name into the directory of each.
        if [ ${#given_away[@]} -gt 0 ]; then chown -h -- "$service:" "${given_away[@]}"; fi
        owner=", owned by user $service"
    fi
    echo "Written, mode 0600$owner: ${files[*]}"
    quoted=$(printf ' %q' "${files[@]}")
    if [ -z "$owner" ]; then echo "Give them to the user that worldkeeper runs as: chown -h $service:$quoted"; fi
    [ "$for_setup" = no ] || return 0
    local run
    run="runuser -u $service -- worldkeeper --config $(printf %q "$config")"
    echo Next:
    if [ "$place_is" = new ]; then
        echo "  install -d -m 0700 -o $service -g $(id -gn "$service" 2>/dev/null || echo "$service") $(printf %q "$dumps_to")"
    else
        echo "  $dumps_to is there already, and stays as it is: user $service must be able to write in it"
    fi
    cat <<END
  $run --check
  $run --init
  remove the cron lines named above, then: systemctl enable --now worldkeeper@$name
END
    if [ -n "$old_copy" ]; then
        cat <<END
A world that is lost before its first own dump comes back from the old one:
  $run --restore=$(printf '%q' "$old_copy")
END
    fi
}

migrate_world() {
    understand "$1"
    settle
    say_which
    print_report
    echo
    refuse_unwritable
    if [ "$dry_run" = yes ]; then
        echo "Would write $config:"
        config_text | sed 's/^./  &/'
        return 0
    fi
    write_files
}

find_cron
if [ "$cron_lines" = yes ]; then
    for one in "${cron_notes[@]}"; do printf '%s\n' "${one%%$'\t'*}"; done
    exit 0
fi
if [ ${#cron_sets[@]} -lt 2 ]; then
    migrate_world "${cron_sets[0]:-}"
    exit 0
fi
[ -z "$old_given" ] || die "--old-dumps is for one world, and cron starts the scripts for ${#cron_sets[@]}"
for option in schema user flag; do
    [ -z "${given[$option]:-}" ] || die "--$option is for one world, and cron starts the scripts for ${#cron_sets[@]}"
done
[ -z "$name" ] || die "--name is for one world, and cron starts the scripts for ${#cron_sets[@]}"
# Status directories of the worlds before, each of which is read in a process of its own.
taken=$(mktemp)
trap 'rm -f "$taken"' EXIT
status=0 count=0
for set in "${cron_sets[@]}"; do
    printf '== Arguments %s of %s, which cron gives to %s\n' "$((++count))" "${#cron_sets[@]}" \
        "$(tr "$sep" ' ' <<<"${cron_scripts[x$set]}")"
    set +e # what fails for one world does not end the others
    (
        set -e
        migrate_world "$set"
    )
    result=$?
    set -e
    [ "$result" = 0 ] || status=$result
    echo
done
exit "$status"
