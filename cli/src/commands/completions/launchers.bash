# The words from the last `stasis` on, as in `mpirun -n 2 stasis launch`, are completed as a line of their own.
_stasis_behind_launcher() {
    local first last=-1
    for ((first = 0; first < COMP_CWORD; first++)); do
        [[ ${COMP_WORDS[first]##*/} == stasis ]] && last=$first
    done
    if ((last >= 0)); then
        COMP_WORDS=("${COMP_WORDS[@]:last}")
        COMP_CWORD=$((COMP_CWORD - last))
        _clap_complete_stasis stasis "$2" "$3"
    elif [[ -n ${_stasis_before[$1]-} ]]; then
        "${_stasis_before[$1]}" "$@"
    fi
}

# What completed these launchers before goes on doing so where there is no `stasis` in the line.
_stasis_register() {
    local launcher before
    declare -gA _stasis_before
    for launcher in stasis LAUNCHERS; do
        before=$(complete -p "$launcher" 2>/dev/null || true)
        if [[ $launcher != stasis && $before =~ -F\ ([^ ]+) && ${BASH_REMATCH[1]} != _stasis_behind_launcher ]]; then
            _stasis_before[$launcher]=${BASH_REMATCH[1]}
        fi
        complete -o nosort -o bashdefault -o default -F _stasis_behind_launcher "$launcher"
    done
}
_stasis_register
unset -f _stasis_register
