#!/bin/bash
# Writes a program's manual page or its completion for bash, from its usage text.
# Usage: from_usage.sh man|bash PROGRAM [VERSION]
set -uo pipefail
name=$(basename "$2")
usage=$("$2" --help) && [ -n "$usage" ] || { echo "from_usage.sh: $2 --help failed" >&2; exit 1; }

case $1 in
  man)
    printf '.TH %s 1 "" "bps %s" "User Commands"\n.SH NAME\n%s \\- program of bps (all-reduce with summation servers)\n' \
      "${name^^}" "${3:-}" "${name//-/\\-}"
    printf '.SH USAGE\n.nf\n'
    # A backslash begins an escape, and a line must not begin with a control character.
    sed -e 's/\\/\\e/g' -e 's/-/\\-/g' -e "s/^[.']/\\\\\&&/" <<<"$usage"
    printf '.fi\n'
    ;;
  bash)
    words=$(grep -oE '(^|[ ,])--?[a-zA-Z][a-zA-Z0-9_-]*' <<<"$usage" | tr -d ' ,' | sort -u | tr '\n' ' ')
    printf 'complete -o default -W "%s" %s\n' "${words% }" "$name"
    ;;
  *) echo "from_usage.sh: $1: neither man nor bash" >&2; exit 2 ;;
esac
