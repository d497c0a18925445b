# bash completion for worldkeeper: options as --help lists them, names of worlds, files.
_worldkeeper()
{
    local cur prev
    cur=${COMP_WORDS[COMP_CWORD]}
    prev=${COMP_WORDS[COMP_CWORD - 1]}
    case $prev in
    --world)
        local ini names=()
        for ini in /etc/worldkeeper/*.ini; do
            [ -e "$ini" ] && ini=${ini##*/} && names+=("${ini%.ini}")
        done
        mapfile -t COMPREPLY < <(compgen -W "${names[*]}" -- "$cur")
        ;;
    --config)
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -f -X '!*.ini' -- "$cur"; compgen -d -- "$cur")
        ;;
    *)
        [[ $cur != -* ]] ||
            mapfile -t COMPREPLY < <(compgen -W "$(worldkeeper --help 2>/dev/null | grep -oE -- '--[a-z][a-z-]+')" -- "$cur")
        ;;
    esac
}
complete -F _worldkeeper worldkeeper
