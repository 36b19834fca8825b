
# The words from the last `stasis` on, as in `mpirun -n 2 stasis launch`, are completed as a line of their own.
# Bash breaks words at `=`: those of `--flag=value` are put together, and it is given what stands behind the `=`.
_stasis_behind_launcher() {
    local at first=-1 current='' flag='' word words=()
    for ((at = 0; at < COMP_CWORD; at++)); do
        [[ ${COMP_WORDS[at]##*/} == stasis ]] && first=$at
    done
    if ((first >= 0)); then
        for ((at = first; at <= COMP_CWORD; at++)); do
            word=${COMP_WORDS[at]}
            ((at == COMP_CWORD)) && [[ $word != '=' ]] && word=$2
            if ((at > first)) && [[ ${words[-1]} == --* && ($word == '=' || ${words[-1]} == *=) ]]; then
                words[-1]+=$word
            else
                words+=("$word")
            fi
        done
        current=${words[-1]}
        [[ $current == --*=* ]] && flag=${current%%=*}=
        COMP_WORDS=("${words[@]}" "${COMP_WORDS[@]:COMP_CWORD + 1}")
        COMP_CWORD=$((${#words[@]} - 1))
        _clap_complete_stasis stasis "$current" "$3"
        COMPREPLY=("${COMPREPLY[@]#"$flag"}")
    elif [[ -n ${_stasis_before[$1]-} ]]; then
        "${_stasis_before[$1]}" "$@"
    fi
}

# What completed these launchers before goes on doing so where there is no `stasis` in the line. That of Slurm is loaded
# for it: once another one is there, nothing loads it.
_stasis_register() {
    local launcher before
    declare -gA _stasis_before
    if ! complete -p srun &>/dev/null; then
        { _comp_load -- srun || _completion_loader srun; } &>/dev/null
    fi
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
