#!/bin/bash
# Writes the manual pages of section 3 from the comments of a public header: a page for every function and every
# commented type, and one page of the header's own name with its first comment and a list of its functions. A comment
# belongs to all functions that follow it without an empty line. Such functions share a page, under each of their names.
# Usage: from_header.sh HEADER FOLDER VERSION DATE, or from_header.sh --list HEADER... for the names of the pages
set -euo pipefail
if [ "${1:-}" = --list ]; then
  shift
  work=$(mktemp -d)
  trap 'rm -rf "$work"' EXIT
  for header; do "$0" "$header" "$work" 0 1970-01-01; done
  (cd "$work" && printf '%s\n' *.3 | sed 's/\.3$//')
  exit
fi
header=$1 folder=$2 version=$3 date=$4
mkdir -p "$folder"
[ -r "$header" ] || { echo "from_header.sh: cannot read $header" >&2; exit 1; }

awk -v folder="$folder" -v version="$version" -v date="$date" -v header="$(basename "$header")" '
  function escaped(text) {
    gsub(/\\/, "\\e", text); gsub(/-/, "\\-", text)
    return text
  }
  # References to functions are bold, and words in backquotes are italic.
  function prose(text,  out, word) {
    text = escaped(text); out = ""
    while (match(text, /`[^`]*`|bps[A-Z][A-Za-z]*/)) {
      word = substr(text, RSTART, RLENGTH)
      out = out substr(text, 1, RSTART - 1)
      if (word ~ /^`/) out = out "\\fI" substr(word, 2, length(word) - 2) "\\fP"
      else if (word in isFunction) out = out "\\fB" word "\\fP" (word in inGroup || substr(text, RSTART + RLENGTH, 1) == "(" ? "" : "(3)")
      else out = out word
      text = substr(text, RSTART + RLENGTH)
    }
    return out text
  }
  function put(line) {
    if (line ~ /^[.\047]/) line = "\\&" line
    print line > page
  }
  function closeCode() { if (code) { print ".fi\n.RE" > page; code = 0 } }

  # The lines of a comment: paragraphs, lists ("- "), and indented lines, which keep their layout.
  function body(lines, count,  i, line, failures, gap) {
    code = 0; list = 0; failures = 0; gap = 0
    for (i = 1; i <= count; i++) {
      line = lines[i]
      if (line == "") {
        gap = 1
      } else if (line ~ /^ *- /) {
        closeCode()
        print ".IP \\(bu 2" > page; sub(/^ *- /, "", line); put(prose(line)); list = 1; gap = 0
      } else if (line ~ /^  +/ && !(list && !gap)) {
        if (gap) { print (code ? "" : ".PP") > page; gap = 0 }
        if (!code) { print ".RS 4\n.nf" > page; code = 1 }
        sub(/^  /, "", line); put(escaped(line)); list = 0
      } else {
        if (code || (list && line !~ /^ /)) gap = 1
        closeCode()
        # A paragraph that begins with the errors begins the section about them.
        if (gap && !failures && line ~ /^Fails with /) { print ".SH ERRORS" > page; failures = 1 }
        else if (gap) print ".PP" > page
        if (gap) list = 0
        gap = 0
        sub(/^ +/, "", line); put(prose(line))
      }
    }
    closeCode()
  }
  function firstSentence(lines, count,  i, text) {
    text = ""
    for (i = 1; i <= count && lines[i] != "" && lines[i] !~ /^  /; i++) text = text (i > 1 ? " " : "") lines[i]
    sub(/^bps[A-Za-z]*: /, "", text) # the name of the header
    if (match(text, /[.:]( |$)/)) text = substr(text, 1, RSTART - 1)
    if (text !~ /^(bps|CUDA|[A-Z][A-Z])/) text = tolower(substr(text, 1, 1)) substr(text, 2)
    gsub(/`/, "", text)
    return escaped(text)
  }
  function begin(name, names, summary) {
    page = folder "/" name ".3"
    printf ".TH %s 3 %s \"bps %s\" \"Library Functions Manual\"\n.nh\n.SH NAME\n%s \\- %s\n", name, date, version, names, summary > page
  }
  function synopsis(declaration,  out, word) {
    declaration = escaped(declaration); out = "\\fB"
    # The name of a parameter stands in front of "," or ")".
    while (match(declaration, /[A-Za-z_]+[,)]/)) {
      word = substr(declaration, RSTART, RLENGTH - 1)
      out = out substr(declaration, 1, RSTART - 1) (word == "void" ? word : "\\fI" word "\\fB") \
        substr(declaration, RSTART + RLENGTH - 1, 1)
      declaration = substr(declaration, RSTART + RLENGTH)
    }
    put(out declaration "\\fP")
  }
  function include() { printf ".SH SYNOPSIS\n.nf\n\\fB#include <bps/%s>\\fP\n", header > page }
  function end(others) {
    printf ".SH SEE ALSO\n%s\n", others > page
    close(page)
  }
  function base(  name) {
    name = substr(header, 1, length(header) - 2)
    return name ~ /^bps/ ? name : "bps_" name
  }

  function writeFunctions(  i, names, line, others) {
    if (!commentLines) { printf "from_header.sh: %s: no comment before %s\n", header, group[1] > "/dev/stderr"; exit bad = 1 }
    names = group[1]
    split("", inGroup)
    for (i = 1; i <= groupSize; i++) {
      if (i > 1) names = names ", " group[i]
      inGroup[group[i]] = 1
      summary[group[i]] = firstSentence(comment, commentLines)
    }
    begin(group[1], names, summary[group[1]])
    include()
    print ".PP" > page
    for (i = 1; i <= declarations; i++) synopsis(declaration[i])
    print ".fi\n.PP\nLink with \\fI\\-lbps\\fP.\n.SH DESCRIPTION" > page
    body(comment, commentLines)
    end("\\fB" base() "\\fP(3)")
    for (i = 2; i <= groupSize; i++) {
      page = folder "/" group[i] ".3"
      printf ".so man3/%s.3\n", group[1] > page
      close(page)
    }
  }
  function writeType(name,  i) {
    split("", inGroup)
    begin(name, name, firstSentence(comment, commentLines))
    include()
    print ".PP" > page
    for (i = 1; i <= typeLines; i++) put(escaped(type[i]))
    print ".fi\n.SH DESCRIPTION" > page
    body(comment, commentLines)
    end("\\fB" base() "\\fP(3)")
  }
  function flush() {
    if (groupSize) writeFunctions()
    groupSize = 0; declarations = 0
  }

  # First pass: the names of all functions.
  NR == FNR { if (match($0, /^BPS_API .*bps[A-Za-z]+\(/)) { name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name); isFunction[name] = 1 }; next }

  /^\/\*/ { flush(); inComment = 1; commentLines = 0 }
  inComment {
    line = $0
    last = (line ~ /\*\/[ ]*$/)
    sub(/ *\*\/ *$/, "", line)
    # The text of a comment begins behind "/* ", " * " or " *".
    if (line ~ /^\/\*/) sub(/^\/\* ?/, "", line); else sub(/^ \* ?/, "", line)
    if (line != "" || commentLines) comment[++commentLines] = line
    if (last) {
      inComment = 0
      while (commentLines && comment[commentLines] == "") commentLines--
      # A line that divides the header, and the comment about the header itself.
      if (comment[1] ~ /^----/) commentLines = 0
      if (!headLines && FNR < 60) { headLines = commentLines; for (i = 1; i <= headLines; i++) head[i] = comment[i] }
    }
    next
  }
  /^BPS_API / {
    name = $0; sub(/\(.*/, "", name); sub(/.*[ *]/, "", name)
    group[++groupSize] = name
    order[++functions] = name
    declaration[++declarations] = substr($0, 9)
    inDeclaration = !/;$/
    next
  }
  inDeclaration { sub(/^        /, ""); declaration[++declarations] = $0; inDeclaration = !/;$/; next }
  /^typedef / { flush(); inType = 1; typeLines = 0 }
  inType {
    type[++typeLines] = $0
    if ((typeLines == 1 && /;$/) || /^}/) {
      inType = 0
      name = $0; sub(/;$/, "", name); sub(/.* /, "", name)
      if (commentLines && name ~ /^bps/) writeType(name)
      commentLines = 0
    }
    next
  }
  /^$/ { flush(); commentLines = 0 }
  END {
    if (bad) exit 1
    flush()
    if (!functions) { printf "from_header.sh: %s has no function\n", header > "/dev/stderr"; exit 1 }
    split("", inGroup)
    begin(base(), base(), firstSentence(head, headLines))
    include()
    print ".fi\n.PP\nLink with \\fI\\-lbps\\fP.\n.SH DESCRIPTION" > page
    body(head, headLines)
    print ".SH FUNCTIONS" > page
    for (i = 1; i <= functions; i++) printf ".TP\n\\fB%s\\fP(3)\n%s\n", order[i], summary[order[i]] > page
    end("\\fBbps\\-run\\fP(1), \\fBbps\\-server\\fP(1)")
  }' "$header" "$header"
