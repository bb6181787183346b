#!/bin/bash
# Runs all of `make test` once the release build exists: checks, test programs, multi-process tests, clang's analysis of
# the code, fuzzers, and the sanitizer builds. Usage: run_all.sh [BUILD]. BPS_TEST_LONG=1: longer fuzzing and stress.
# TESTS_UNTIL=SECONDS_SINCE_1970: sanitizers and fuzzers that are not built by then are skipped.
# The last line: N passed, N failed, N skipped.
set -uo pipefail
cd "$(dirname "$0")/.." || exit 1
build=${1:-build}
long=${BPS_TEST_LONG:-0}
jobs=$(nproc)
logs=$build/logs
mkdir -p "$logs"
passed=0 failed=0 skipped=0
# The tests must see neither the caller's settings nor the jobserver of a calling make.
unset MAKEFLAGS MFLAGS MAKELEVEL
for name in $(compgen -e | grep -E '^(BPS|NCCL)_' | grep -v '^BPS_TEST_'); do unset "$name"; done
# The tests must be the same everywhere, so they do not use the machine's own RDMA devices.
export NCCL_IB_DISABLE=1

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

# gtest BUILD SUITE LIMIT_SECONDS: runs the tests in `shards` parts, three at a time, because many tests wait more than
# they compute. Counts each test; a crash or a time-out counts as one more failure.
shards=9
gtest() {
  local program=$1/tests/$2 log=$logs/${1//\//_}_$2.log start=$SECONDS shard status good=0 bad=0 left=0 wrong=""
  local succeeded=() unsuccessful=()
  [ -x "$program" ] || { fail "$program was not built"; return; }
  seq 0 $((shards - 1)) | xargs -P 3 -I{} bash -c 'run_shard "$@"' run_shard "$program" {} "$3" "$log" "$shards"
  count() { sed -nE "s/^\[  $1 +\] ([0-9]+) tests?.*/\1/p" "$log.$shard" | tail -n1; }
  for ((shard = 0; shard < shards; shard++)); do
    read -r status <"$log.$shard.status" || status=1
    grep "^run once more" "$log.$shard" | sed 's/^/      /'
    if [ "$status" = 0 ]; then succeeded+=("$log.$shard"); else
      wrong="$wrong status $status (124: time-out) in or after $(grep '^\[ RUN' "$log.$shard" | tail -n1);"
      unsuccessful+=("$log.$shard")
    fi
    good=$((good + $(count PASSED || :) + 0)) bad=$((bad + $(count FAILED || :) + 0)) left=$((left + $(count SKIPPED || :) + 0))
  done
  cat "${succeeded[@]}" "${unsuccessful[@]}" >"$log" # failures come last
  rm -f "$log".[0-9] "$log".[0-9].status
  skipped=$((skipped + left))
  if [ -z "$wrong" ]; then
    pass "$program: $good tests ($left skipped), $(seconds $start)" "$good"
    return
  fi
  passed=$((passed + good))
  if [ "$bad" -gt 0 ]; then
    fail "$program: $bad of the tests, $(seconds $start);$wrong" "" "$bad"
    # of each failed expectation, the lines up to the next one, among them the text that the test adds
    awk '/: Failure$/ { left = 8 } left-- > 0 || /^\[  FAILED  \] [A-Za-z]|ERROR:|WARNING: ThreadSanitizer|runtime error:/' "$log" |
      cut -c1-400 | head -n 80 | sed 's/^/      /'
  else
    report "$log" >"$log.end"
    [ -s "$log.end" ] || cp "$log" "$log.end"
    fail "$program:$wrong $(seconds $start)" "$log.end"
  fi
}

# run_shard PROGRAM SHARD LIMIT_SECONDS LOG SHARDS: writes LOG.SHARD and its status. If all tests pass but the leak
# checker itself fails ("fatal error"), the shard runs once more to check for leaks again. A second failure counts.
run_shard() {
  local attempt status log=$4.$2
  for attempt in 1 2; do
    LSAN_OPTIONS=${LSAN_OPTIONS:+$LSAN_OPTIONS:}verbosity=1:log_threads=1 GTEST_TOTAL_SHARDS=$5 GTEST_SHARD_INDEX=$2 \
      timeout -k 5 "$3" "$1" --gtest_brief=0 >"$log.new" 2>&1
    status=$?
    [ $attempt = 2 ] && sed -i "1i run once more: the leak checker itself failed in shard $2 of $1" "$log.new"
    mv "$log.new" "$log"
    [ $attempt = 1 ] && [ $status = 1 ] && grep -q 'LeakSanitizer has encountered a fatal error' "$log" &&
      grep -q '^\[  PASSED  \]' "$log" && ! grep -q '^\[  FAILED\|ERROR: \|runtime error:' "$log" || break
  done
  echo $status >"$log.status"
}
export -f run_shard

# report LOG: prints the beginning of a sanitizer's report, which is the most informative part.
report() {
  sed -n '/ERROR: \|WARNING: Thread\|runtime error:\|Tracer caught\|==Could not\|==Failed\|==Can.t\|==Waiting\|LeakSanitizer has/,$p' "$1" |
    head -n 40
}

# run_scripts LIMIT_SECONDS SCRIPT...: runs two at a time, because they wait more than they compute; reports in order.
run_scripts() {
  local limit=$1 script name log status took
  shift
  printf '%s\n' "$@" | build=$build logs=$logs limit=$limit xargs -P 2 -I{} bash -c '
    log=$logs/$(basename {}).log start=$SECONDS
    timeout -k 5 "$limit" {} "$build" >"$log" 2>&1 </dev/null
    echo "$? $((SECONDS - start))" >"$log.status"'
  for script in "$@"; do
    name=$script log=$logs/$(basename "$script").log status=1 took=0
    read -r status took <"$log.status"
    case $status in
      0) pass "$name, $took s" ;;
      77) skip "$name: $(tail -n1 "$log")" ;;
      *) fail "$name: status $status, $took s" "$log" ;;
    esac
  done
}

# build_ahead: builds the sanitized programs one after the other in the background, on the CPU time that the tests
# leave. built() waits for one of them.
build_ahead() {
  rm -f "$logs"/*.ahead
  set -m # a separate process group, which the exit trap ends
  (
    stage asan asan "${suites[@]/#/build/asan/tests/}" libraries
    stage tsan tsan "${suites[@]/#/build/tsan/tests/}" libraries
    has_clang && stage fuzzers asan fuzzers
  ) &
  ahead=$!
  set +m
  trap 'kill -- -"$ahead" 2>/dev/null' EXIT
}

# stage NAME FLAVOUR TARGET...: builds the targets and records the status.
stage() {
  nice -n 19 make --no-print-directory -j"$jobs" "FLAVOUR=$2" "${@:3}" >"$logs/build_$1.log" 2>&1
  echo $? >"$logs/$1.ahead.new"
  mv "$logs/$1.ahead.new" "$logs/$1.ahead"
}

# built NAME: waits for the stage; returns 1 if it failed or if no time is left.
built() {
  local log=$logs/build_$1.log start=$SECONDS
  until [ -e "$logs/$1.ahead" ] || ! kill -0 "$ahead" 2>/dev/null || late; do sleep 0.5; done
  if late; then
    skip "$1: no time is left (TESTS_UNTIL); $(grep -c -- ' -c ' "$log" 2>/dev/null || :) files are compiled"
    return 1
  elif [ "$(cat "$logs/$1.ahead" 2>/dev/null)" = 0 ]; then
    say "" "built $1, waited $(seconds $start)"
  else
    fail "build of $1"
    grep -E ' error: |undefined reference|multiple definition|\*\*\* ' "$log" | head -n 30 | cut -c1-300 | sed 's/^/      /'
    return 1
  fi
}

late() { [ -n "${TESTS_UNTIL:-}" ] && [ "$(date +%s)" -ge "$TESTS_UNTIL" ]; }

has_clang() { make -s --no-print-directory FLAVOUR=asan compiler | grep -q clang; }

# sanitizers: runs the suites with run-time checkers and no suppressions. The unit tests run in the long version only.
suites=(inproc)
[ "$long" = 1 ] && suites+=(unit)
sanitizers() {
  local flavour suite
  for flavour in asan tsan; do
    built "$flavour" || continue
    for suite in "${suites[@]}"; do gtest "build/$flavour" "$suite" 400; done
  done
}

# fuzz NAME: runs one fuzzer, for run_fuzzers. Status 0 is success.
fuzz() {
  local name=$1 log=$logs/$1.log corpus=() run=2 dir
  [ "$long" = 1 ] && run=30
  for dir in "tests/fuzz/corpus/$name" "tests/fuzz/corpus/${name#fuzz_}"; do [ -d "$dir" ] && corpus+=("$dir"); done
  mkdir -p "build/asan/found/$name"
  # New inputs stay outside the checked-in corpus.
  timeout -k 5 $((run + 60)) "build/asan/fuzz/$name" -max_total_time=$run -timeout=10 -rss_limit_mb=2048 \
    -artifact_prefix="build/asan/found/$name/" "build/asan/found/$name" "${corpus[@]}" >"$log" 2>&1
  echo $? >"$log.status"
}

run_fuzzers() {
  local source
  if ! has_clang; then
    skip "fuzzing: no clang++ with its sanitizers"
    return
  fi
  # Check lint has compiled the product by clang with its lock analysis. This compiles the tests too, each source
  # without precompiled headers.
  if [ "$long" = 1 ]; then
    stage tsa tsa compiled
    built tsa && pass "clang compiles everything; thread-safety analysis"
  fi
  built fuzzers || return
  local names=() name
  for source in tests/fuzz/*.cc tests/fuzz/files/*.cc tests/fuzz/states/*.cc; do names+=("$(basename "$source" .cc)"); done
  export -f fuzz
  printf '%s\n' "${names[@]}" | logs=$logs long=$long xargs -P 2 -I{} bash -c 'fuzz {}'
  for name in "${names[@]}"; do
    if [ "$(cat "$logs/$name.log.status")" = 0 ]; then pass "$name: $(grep -oE 'Done [0-9]+ runs' "$logs/$name.log")"
    else fail "$name (input in build/asan/found/$name)" "$logs/$name.log"; fi
  done
}

main() {
  run_checks
  build_ahead
  gtest "$build" unit 300
  gtest "$build" inproc 400
  local scripts=()
  for script in tests/multiproc/*.sh tests/hostile/*.sh tests/unit/cpu_reduce/aarch64.sh; do
    case $script in */lib.sh) ;; *) scripts+=("$script") ;; esac
  done
  [ "$long" = 1 ] && scripts+=(tests/model/check.sh)
  run_scripts $((long == 1 ? 900 : 240)) "${scripts[@]}"
  sanitizers
  run_fuzzers
  echo "$passed passed, $failed failed, $skipped skipped"
  [ $failed = 0 ]
}

main; exit # bash reads the whole script before it runs, so an edit meanwhile does no harm
