#!/bin/bash
# Every #include points along an edge of layers.txt, and third-party headers stay confined. Neither the modules nor the
# files include each other in a circle, so the modules form floors: each floor includes only floors below it.
. "$(dirname "$0")/common.sh"
mapfile -t files < <(everything)
edges=$(mktemp -d)
trap 'rm -rf "$edges"' EXIT
awk -v edges="$edges" '
  function module_of(path,   name) {
    name = path
    while (!(name in may) && sub("/[^/]*$", "", name)) {}
    return name in may ? name : ""
  }
  function allowed(from, target,   n, i, edges) {
    n = split(may[from], edges, " ")
    for (i = 1; i <= n; i++)
      if (edges[i] == "*" || target == edges[i] || index(target, edges[i] "/") == 1) return 1
    return 0
  }
  function complain(what) { printf "%s:%d: %s\n", FILENAME, FNR, what; bad = 1 }

  FILENAME ~ /layers\.txt$/ {
    if ($0 ~ /^#/ || NF == 0) next
    split($0, sides, ":")
    key = sides[1]; gsub(" ", "", key)
    if (key ~ /^</) third[substr(key, 2)] = sides[2]; else may[key] = sides[2]
    next
  }
  FNR == 1 { from = module_of(FILENAME); if (from == "") complain("is in no directory of layers.txt") }
  /^[ \t]*#[ \t]*include[ \t]*"/ {
    split($0, parts, "\"")
    target = parts[2]
    if (target ~ /^bps\//) target = "include/" target
    note(target)
    for (name in third)
      if (index(target, name) == 1) {
        if (!allowed_third(name)) complain(from " may not include \"" target "\"")
        next
      }
    if (module_of(target) == from || allowed(from, target)) next
    if (target !~ /\// || module_of(target) == "") complain("\"" target "\" is not rooted at the repository")
    else complain(from " may not include " target)
  }
  /^[ \t]*#[ \t]*include[ \t]*</ {
    split($0, parts, /[<>]/)
    for (name in third)
      if (index(parts[2], name) == 1 && !allowed_third(name)) complain(from " may not include <" parts[2] ">")
    if (parts[2] ~ /^bps\//) note("include/" parts[2])
    if (parts[2] ~ /^bps\// && from != "include" && !allowed(from, "include")) complain(from " may not include <" parts[2] ">")
  }
  # Writes the include as an edge between files and as an edge between modules.
  function note(target) {
    if (module_of(target) == "") return
    print FILENAME, target >(edges "/files")
    print from, module_of(target) >(edges "/modules")
  }
  function allowed_third(name,   n, i, edges) {
    n = split(third[name], edges, " ")
    for (i = 1; i <= n; i++) if (index(FILENAME, edges[i]) == 1) return 1
    return 0
  }
  END { exit bad }
' tests/check/layers.txt "${files[@]}"
bad=$?
for kind in modules files; do
  circle=$(tsort "$edges/$kind" 2>&1 >/dev/null | sed 's/^tsort: //; /input contains a loop/d')
  [ -z "$circle" ] || { echo "$kind that include each other in a circle:" $circle; bad=1; }
done
exit $bad
