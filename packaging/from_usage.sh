#!/bin/bash
# Writes a program's manual page, or its completion for bash or zsh, from its usage text.
# Usage: from_usage.sh man|bash|zsh PROGRAM [VERSION DATE]
set -uo pipefail
name=$(basename "$2")
usage=$("$2" --help) && [ -n "$usage" ] || { echo "from_usage.sh: $2 --help failed" >&2; exit 1; }

case $1 in
  man)
    printf '.TH %s 1 "%s" "bps %s" "User Commands"\n.SH NAME\n%s \\- program of bps (all-reduce with summation servers)\n' \
      "${name^^}" "${4:-}" "${3:-}" "${name//-/\\-}"
    printf '.SH USAGE\n.nf\n'
    # A backslash begins an escape, and a line must not begin with a control character.
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/" <<<"$usage"
    printf '.fi\n'
    ;;
  bash)
    words=$(grep -oE '(^|[ ,])--?[a-zA-Z][a-zA-Z0-9_-]*' <<<"$usage" | tr -d ' ,' | sort -u | tr '\n' ' ')
    printf 'complete -o default -W "%s" %s\n' "${words% }" "$name"
    ;;
  zsh)
    # An option's text is on its line or on the next. In a specification, ":" ends the option and "'" the string.
    printf '#compdef %s\nlocal -a options\noptions=(\n' "$name"
    awk '
      function flush(  i) {
        gsub(/:/, "\\:", text); gsub(/\047/, "\047\\\047\047", text)
        for (i = 1; i <= n; i++) printf "  \047%s:%s\047\n", option[i], text
        n = 0; text = ""
      }
      /^ +--?[a-zA-Z]/ {
        flush()
        line = $0; sub(/^ +/, "", line)
        if (match(line, /  +/)) { text = substr(line, RSTART + RLENGTH); line = substr(line, 1, RSTART - 1) }
        while (match(line, /^--?[a-zA-Z][a-zA-Z0-9_-]*/)) {
          option[++n] = substr(line, 1, RLENGTH); line = substr(line, RLENGTH + 1); sub(/^, */, "", line)
        }
        next
      }
      n && text == "" && /^        +[^ ]/ { text = $0; sub(/^ +/, "", text); next }
      { flush() }
      END { flush() }' <<<"$usage" | sort -u -t: -k1,1
    printf ')\nif [[ $words[CURRENT] == -* ]]; then _describe -o option options; else _default; fi\n'
    ;;
  *) echo "from_usage.sh: $1: none of man, bash and zsh" >&2; exit 2 ;;
esac
