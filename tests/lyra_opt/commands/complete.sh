# Prints what bash proposes for the last word of its arguments.
eval "$(lyra-opt completion bash)"
COMP_LINE="$*" COMP_POINT=${#COMP_LINE} COMP_TYPE=9 COMP_WORDS=("$@") COMP_CWORD=$(( $# - 1 ))
COMP_POINT=${#COMP_LINE}
function=$(complete -p lyra-opt | sed 's/.*-F \([^ ]*\).*/\1/')
$function lyra-opt
printf '%s\n' "${COMPREPLY[@]}"
