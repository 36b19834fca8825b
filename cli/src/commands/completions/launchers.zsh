# The words from the last `stasis` on, as in `mpirun -n 2 stasis launch`, are completed as a line of their own.
function _stasis_behind_launcher() {
    local last=${words[(I)(*/|)stasis]}
    if (( last > 0 && last < CURRENT )); then
        words=("${(@)words[last,-1]}")
        (( CURRENT -= last - 1 ))
        _clap_dynamic_completer_stasis
    else
        _default
    fi
}
compdef _stasis_behind_launcher stasis LAUNCHERS

# compinit loads this file as the function _stasis at the first question.
[[ ${funcstack[1]} != _stasis ]] || _stasis_behind_launcher
