#compdef tapyr
# zsh completion for tapyr; load it, after compinit, with:
# source <(tapyr completion zsh)

_tapyr() {
    local line files=0
    local -a candidates
    while IFS= read -r line; do
        if [[ $line == ":files" ]]; then
            files=1
        else
            # _describe separates a word from its meaning with ":".
            candidates+=("${${line%%$'\t'*}//:/\\:}:${line#*$'\t'}")
        fi
    done < <("${words[1]}" __complete "${(@)words[2,CURRENT]}" 2>/dev/null)
    (( ${#candidates} )) && _describe -t words 'tapyr' candidates
    if (( files )); then
        # The file stands behind "=" in --config=PATH.
        [[ ${words[CURRENT]} == -*=* ]] && compset -P 1 '*='
        _files
    fi
}

if [[ ${funcstack[1]} == "_tapyr" ]]; then
    _tapyr "$@"
else
    compdef _tapyr tapyr
fi
