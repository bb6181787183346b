# Prints "MEMBERS FILE:CLASS" for every class or struct that has data members with a trailing underscore. The file is
# formatted by clang-format, so a class begins in a line of its own and its closing brace has the same indentation. Its
# members begin at two more columns.
FNR == 1 { depth = 0 }
/^ *(template <.*> *)?(class|struct) / && !/;$/ && !/enum class/ {
  name = $0
  sub(/^ *(template <.*> *)?(class|struct) /, "", name)
  gsub(/BPS_ANNOTATE\([^ ]*\) |alignas\([^ ]*\) |\[\[[^]]*\]\] /, "", name)
  sub(/[^A-Za-z0-9_:].*/, "", name)
  if (/\{$/) { ++depth; names[depth] = name; match($0, /^ */); indents[depth] = RLENGTH; members[depth] = 0 }
  next
}
depth > 0 {
  match($0, /^ */)
  if (RLENGTH == indents[depth] && /^ *\}/) {
    if (members[depth] > 0) print members[depth], FILENAME ":" names[depth]
    --depth
  } else if (RLENGTH == indents[depth] + 2 && /;/ && !/^ *(friend|using|return|static|explicit) /) {
    line = $0
    sub(/\/\/.*/, "", line)
    gsub(/BPS_[A-Z_]+\([^)]*\)/, "", line)
    while (gsub(/<[^<>]*>|\{[^{}]*\}/, "", line)) {}
    gsub(/ = [^,;]*/, "", line)
    if (line !~ /\(/) members[depth] += gsub(/[a-z]_(\[[^]]*\])* *[,;]/, "", line)
  }
}
