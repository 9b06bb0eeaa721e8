# bash completion for tapyr; load it with: source <(tapyr completion bash)

_tapyr() {
    local words=() n=0 i word line prefix=
    # bash splits "--format=json" at "="; tapyr wants the word as it was typed.
    for ((i = 1; i <= COMP_CWORD; i++)); do
        word=${COMP_WORDS[i]}
        if ((n > 0)) && [[ $word == "=" || ${words[n - 1]} == -*= ]]; then
            words[n - 1]+=$word
        else
            words[n]=$word
            n=$((n + 1))
        fi
    done
    # What stands before "=" is a word of its own to bash, so it is cut off.
    if ((n > 0)) && [[ ${words[n - 1]} == -*=* ]]; then
        prefix=${words[n - 1]%%=*}=
    fi
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == ":files" ]]; then
            compopt -o default 2>/dev/null
        else
            line=${line%%$'\t'*}
            COMPREPLY+=("${line#"$prefix"}")
        fi
    done < <("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null)
}

complete -F _tapyr tapyr
