#!/bin/bash
# Everything that `make test` runs once release is built: checks, test programs, multi-process tests, clang's view of
# the code, fuzzing, and the sanitizer builds. Usage: run_all.sh [BUILD]. BPS_TEST_LONG=1: longer fuzzing and stress.
# The last line: N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
long=${BPS_TEST_LONG:-0}
jobs=$(nproc)
logs=$build/logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0
# Neither the caller's settings nor a jobserver of a make above us belong into the tests.
unset MAKEFLAGS MFLAGS MAKELEVEL
for name in $(compgen -e | grep -E '^(BPS|NCCL)_' | grep -v '^BPS_TEST_'); do unset "$name"; done

say() { printf '%-5s %s\n' "$1" "$2"; }
pass() { passed=$((passed + ${2:-1})); say ok "$1"; }
fail() { failed=$((failed + ${3:-1})); say FAIL "$1"; [ -z "${2:-}" ] || tail -n 40 "$2" | sed 's/^/      /'; }
skip() { skipped=$((skipped + 1)); say skip "$1"; }
seconds() { printf '%d s' $((SECONDS - $1)); }

run_checks() {
  local line name
  while read -r line; do
    name=$(sed -E 's/^(ok|FAIL|skip) +//' <<<"$line")
    case $line in
      ok*check*) pass "$name" ;;
      FAIL*check*) fail "$name" ;;
      skip*check*) skip "$name" ;;
      *" passed, "*) ;;
      *) echo "      $line" ;;
    esac
  done < <(tests/check/all.sh "$build")
}

# gtest BUILD SUITE LIMIT_SECONDS: counts the tests inside; a crash or a time-out is one failure more.
gtest() {
  local program=$1/tests/$2 log=$logs/${1//\//_}_$2.log start=$SECONDS status good bad left
  [ -x "$program" ] || { fail "$program was not built"; return; }
  timeout -k 5 "$3" "$program" --gtest_brief=0 >"$log" 2>&1
  status=$?
  count() { sed -nE "s/^\[  $1 +\] ([0-9]+) tests?.*/\1/p" "$log" | tail -n1; }
  good=$(count PASSED) bad=$(count FAILED) left=$(count SKIPPED)
  skipped=$((skipped + ${left:-0}))
  if [ $status = 0 ]; then
    pass "$program: ${good:-0} tests (${left:-0} skipped), $(seconds $start)" "${good:-0}"
    return
  fi
  passed=$((passed + ${good:-0}))
  if [ "${bad:-0}" -gt 0 ]; then
    fail "$program: ${bad} of the tests, $(seconds $start)" "" "$bad"
    grep -E '^\[  FAILED  \] [A-Za-z]|: Failure$|^  |ERROR:|WARNING: ThreadSanitizer' "$log" | head -n 60 | sed 's/^/      /'
  else
    fail "$program: status $status (124: time-out) in $(grep '^\[ RUN' "$log" | tail -n1), $(seconds $start)" "$log"
  fi
}

run_script() {
  local name log=$logs/$(basename "$1").log start=$SECONDS status
  name="$1"
  timeout -k 5 "$2" "$1" "$build" >"$log" 2>&1 </dev/null
  status=$?
  case $status in
    0) pass "$name, $(seconds $start)" ;;
    77) skip "$name: $(tail -n1 "$log")" ;;
    *) fail "$name: status $status, $(seconds $start)" "$log" ;;
  esac
}

# flavour NAME TARGET...: builds it.
flavour() {
  local log=$logs/build_$1.log start=$SECONDS
  if make --no-print-directory -j"$jobs" "FLAVOUR=$1" "${@:2}" >"$log" 2>&1; then
    say "" "built flavour $1, $(seconds $start)"
  else
    fail "build of flavour $1"
    grep -E ' error: |undefined reference|multiple definition|\*\*\* ' "$log" | head -n 30 | cut -c1-300 | sed 's/^/      /'
    return 1
  fi
}

# sanitizer NAME SUITE...: builds and runs them; zero suppressions.
sanitizer() {
  local name=$1 suite
  shift
  flavour "$name" "${@/#/build/$name/tests/}" libraries || return
  for suite in "$@"; do gtest "build/$name" "$suite" 400; done
}

fuzz() {
  local name=$1 log=$logs/$1.log corpus=() run=3 dir
  [ "$long" = 1 ] && run=30
  for dir in "tests/fuzz/corpus/$name" "tests/fuzz/corpus/${name#fuzz_}"; do [ -d "$dir" ] && corpus+=("$dir"); done
  mkdir -p "build/asan/found/$name"
  # What is found is kept outside the checked-in corpus.
  if timeout -k 5 $((run + 60)) "build/asan/fuzz/$name" -max_total_time=$run -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="build/asan/found/$name/" "build/asan/found/$name" "${corpus[@]}" >"$log" 2>&1; then
    pass "$name: $(grep -oE 'Done [0-9]+ runs' "$log"), ${run} s"
  else
    fail "$name (input in build/asan/found/$name)" "$log"
  fi
}

run_fuzzers() {
  local source
  if [ "$(make -s --no-print-directory FLAVOUR=asan compiler | grep -c clang)" = 0 ]; then
    skip "fuzzing, thread-safety analysis: no clang++ with its sanitizers"
    return
  fi
  # Everything else has been compiled by clang, with the analysis, for the sanitized test programs.
  flavour tsa compiled-rest && pass "clang compiles everything; thread-safety analysis"
  flavour asan fuzzers || return
  for source in tests/fuzz/*.cc; do fuzz "$(basename "$source" .cc)"; done
}

main() {
  run_checks
  gtest "$build" unit 300
  gtest "$build" inproc 400
  [ -x "$build/tests/multiproc" ] && gtest "$build" multiproc 400
  for script in tests/multiproc/*.sh; do
    case $script in */lib.sh) ;; *) run_script "$script" $((long == 1 ? 900 : 180)) ;; esac
  done
  sanitizer asan unit inproc
  sanitizer tsan $([ "$long" = 1 ] && echo unit) inproc
  run_fuzzers
  echo "$passed passed, $failed failed, $skipped skipped"
  [ $failed = 0 ]
}

main; exit # read whole before it runs, so that an edit meanwhile does no harm
