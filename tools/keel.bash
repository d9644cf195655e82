# SPDX-License-Identifier: Apache-2.0
# Completion of keel's command line for bash: options, databases (files and directories), commands, and the directory paths inside the database.
#
# The command itself knows what can follow: keel DB --complete LINE prints one word a line. It is asked only about a database that exists.

_keel() {
    local word=${COMP_WORDS[COMP_CWORD]} db="" command="" skip="" i
    COMPREPLY=()
    for ((i = 1; i < COMP_CWORD; i++)); do
        if [ -n "$skip" ]; then
            skip=""
            continue
        fi
        case ${COMP_WORDS[i]} in
            --timeout | --option) [ -z "$command" ] && skip=1 ;;
            -?*) ;;
            *)
                if [ -z "$db" ]; then
                    db=${COMP_WORDS[i]}
                elif [ -z "$command" ]; then
                    command=${COMP_WORDS[i]}
                fi
                ;;
        esac
    done
    [ -n "$skip" ] && return
    if [ -z "$command" ] && [[ $word == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "--json --yes --quiet --timeout --option --keep-going --help --version" -- "$word")
    elif [ -z "$db" ]; then
        compopt -o filenames
        mapfile -t COMPREPLY < <(compgen -W "help :memory:" -- "$word"; compgen -f -- "$word")
    elif [ "$db" = help ]; then
        mapfile -t COMPREPLY < <(keel :memory: --complete "$word" 2>/dev/null)
    elif [ -z "$command" ]; then
        mapfile -t COMPREPLY < <(keel :memory: --complete "$word" 2>/dev/null)
    elif [ "$word" = "" ] || [[ $word == /* ]]; then
        [ -e "$db" ] && mapfile -t COMPREPLY < <(keel "$db" --complete "$command $word" 2>/dev/null)
        [ ${#COMPREPLY[@]} -gt 0 ] && compopt -o nospace
    fi
    # What is no path of the database may be a file: import data.csv, set --file data.
    [ ${#COMPREPLY[@]} -eq 0 ] && compopt -o default
}

complete -F _keel keel
