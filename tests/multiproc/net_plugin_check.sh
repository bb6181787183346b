#!/usr/bin/env bash
# net-plugin-check passes on bps's plugin, in processes and in threads, with the oldest and the newest interface. Every
# rule can fail: each rule finds by name a defect built into a plugin for it.
BUILD=$1; . "$(dirname "$0")/lib.sh"
ours=$PWD/$BUILD/lib/libnccl-net-bps.so
[ "${BUILD#/}" = "$BUILD" ] || ours=$BUILD/lib/libnccl-net-bps.so
broken=$BUILD/tests/libnccl-net-broken.so
check=$BIN/net-plugin-check
[ -x "$check" ] && [ -f "$broken" ] || fail "net-plugin-check or $broken is not built"
case $broken in /*) ;; *) broken=./$broken ;; esac

passes() {
  timeout 60 "$check" "$ours" --cycles 30 --max-bytes 16M "$@" > "$WORK/out" 2>&1 ||
    fail "our plugin with $*: $(grep -vE '^(PASS|skip)' "$WORK/out" | tail -n 10)"
  grep -qE '^[0-9]+ passed, 0 failed, [0-9]+ skipped$' "$WORK/out" || fail "no last line: $(tail -n 3 "$WORK/out")"
}
passes --json "$WORK/json"
python3 - "$WORK/json" <<'P' || fail "the JSON: $(head -c 500 "$WORK/json")"
import json, sys
all = json.load(open(sys.argv[1]))
measures = {k: v for entry in all["performance"] for k, v in entry["measures"].items()}
assert all["failed"] == 0 and all["passed"] + all["skipped"] == len(all["rules"]) > 30, all
assert set(measures) == {"latency_us_median", "latency_us_p99"} | {"bandwidth_gbps_" + s for s in ("64K", "1M", "4M")}
assert min(measures.values()) > 0, measures
P
rules=$("$check" --list | awk '{print $1}' | grep -vE '^(latency|bandwidth)$')
selection=$(grep -vE '^(receiver-killed|sender-killed|large|posting-never-waits)$' <<<"$rules" | paste -sd,)
passes --threads --only "$selection"
passes --abi 8 --only init,properties,contexts,connect-polled,in-flight,order,oversize,optional-completion

# Shared-memory connections do not use /dev/shm, which is small in containers.
small_shm() { unshare -m sh -c 'mount -t tmpfs -o size=64k none /dev/shm && exec "$@"' sh "$@"; }
if small_shm true 2> "$WORK/out"; then
  small_shm timeout 60 "$check" "$ours" -v --only order,many-connections,large --max-bytes 16M > "$WORK/out" 2>&1 ||
    fail "/dev/shm of 64 KiB: $(grep -vE '^(PASS|skip)' "$WORK/out" | tail -n 10)"
  grep -q 'shared memory with process' "$WORK/out" || fail "/dev/shm of 64 KiB: not shared memory: $(tail -n 5 "$WORK/out")"
else
  echo "no mount namespaces: a small /dev/shm is not tested: $(cat "$WORK/out")"
fi

# finds DEFECT RULE PATTERN [TIMEOUT]: the rule fails with a matching text and status 1. Mostly waits, so four at a
# time.
found=""
finds() {
  found+=" $2"
  while [ "$(jobs -rp | wc -l)" -ge 4 ]; do wait -n; done
  find_one "$@" > "$WORK/$1.$2" 2>&1 &
}
find_one() {
  local defect=$1 rule=$2 pattern=$3 out status
  out=$(BROKEN_PLUGIN_OF=$ours BROKEN_DEFECT=$defect timeout 30 "$check" "$broken" --only "$rule" --cycles 20 \
    --notice .2 --timeout "${4:-.5}" 2>&1)
  status=$?
  if [ $status != 1 ]; then
    echo "defect $defect: status $status: $out"
  elif ! grep -qE "^FAIL  $rule +.*($pattern)" <<< "$out"; then
    echo "defect $defect: $rule does not print \"$pattern\": $out"
  fi
}
BROKEN_PLUGIN_OF=$ours BROKEN_DEFECT=none timeout 30 "$check" "$broken" --only init,handle-moved,in-flight,order,zero-bytes,oversize,close-in-flight,sender-killed > "$WORK/out" 2>&1 ||
  fail "the plugin has a defect without a request for one: $(grep FAIL "$WORK/out")"
# Sometimes the plugin accepts no post and leaves null in *request: not a defect.
BROKEN_PLUGIN_OF=$ours BROKEN_DEFECT=stale_request timeout 30 "$check" "$broken" --only order,in-flight > "$WORK/out" 2>&1 ||
  fail "posts that are not accepted at once: $(cat "$WORK/out")"
# A table that is complete only after init is no defect, here and under the loader; a member that stays null is named.
BROKEN_PLUGIN_OF=$ours BROKEN_DEFECT=late_table timeout 30 "$check" "$broken" --only init,finalize,order > "$WORK/out" 2>&1 ||
  fail "a table that init fills: $(cat "$WORK/out")"
carries() {
  BROKEN_PLUGIN_OF=$ours BROKEN_DEFECT=$1 BPS_NET_PLUGIN=$broken timeout 30 "$BIN/bps-run" -n 2 -- \
    "$BIN/bps-perf" -b 64K -e 64K -n 1 -w 0 > "$WORK/out" 2>&1
}
carries late_table && grep -q '^# Out of bounds values : 0 OK' "$WORK/out" ||
  fail "all-reduce over a table that init fills: $(tail -n 5 "$WORK/out")"
carries no_accept && fail "a plugin without accept was accepted"
grep -q 'accept is null in its table of version 12' "$WORK/out" || fail "no accept: $(tail -n 5 "$WORK/out")"
BROKEN_PLUGIN_OF=$ours BROKEN_DEFECT=grouping timeout 30 "$check" "$broken" --only grouped-receives > "$WORK/out" 2>&1 &&
  grep -q '^PASS  grouped-receives *4 receives per group' "$WORK/out" || fail "grouped receives: $(cat "$WORK/out")"
finds no_device init 'found 0 devices'
finds no_accept init 'accept is null'
finds unwritten_speed properties 'speed is not written'
finds no_receives properties 'maxRecvs is 0'
finds one_context contexts 'after the finalize of another context: listen returned 3'
finds init_once finalize 'after finalize: init returned 3'
finds finalize_twice finalize-twice 'SIGABRT.* in finalize'
finds finalize_null finalize-null 'SIGABRT.* in finalize'
finds long_handle listen 'byte 128 of the handle was written'
finds blocking_accept accept-polled 'accept (took|has not returned)'
finds blocking_connect connect-polled 'connect took [0-9]{3}' 2
finds hanging_connect connect-polled 'sender: connect has not returned for 0.5 s'
finds handle_address handle-moved 'sender: connect returned 3'
finds mixed_listeners several-listeners 'wrong data|test reported'
finds few_connections many-connections 'connect returned 3'
finds one_way crossing-connects 'connect and accept are not done'
finds leak cycles 'after 20 cycles: [0-9]+ descriptors open before, [0-9]+ after'
finds leak_heap cycles '[0-9]+ bytes of heap before, [0-9]+ after'
finds leak_mapping cycles '[0-9]+ mappings before, [0-9]+ after'
finds registers_once registration 'regMr returned 3'
finds one_registrar concurrent-registration 'regMr returned 3'
finds stale_request stale-request 'isend did not write \*request'
finds no_mark optional-completion 'irecv returned 4'
finds hanging_test sender-first 'test has not returned for 0.5 s'
finds lazy_send receiver-first 'receiver: (message [0-9] was not received|test returned 6)'
finds slow_send posting-never-waits 'isend took [0-9]{3}' 3
finds few_receives in-flight '16 receives in flight, expected 32'
finds other_bytes order 'arrived with wrong data'
finds grouping_without_tags grouped-receives 'test reported 400 bytes for tag 0 of group 0, expected 100'
finds loses_empty zero-bytes 'test reported 5 bytes for message 0, expected 0'
finds wrong_size short-message 'test reported 64 bytes for message 0, expected 1'
finds overrun short-message 'after the receive buffer'
finds needs_alignment misaligned 'isend returned 4'
finds no_large large 'isend returned 4' 3
finds truncates oversize 'no error'
finds crash_on_error oversize 'receiver: crashed with signal 11 \(SIGSEGV\) in test'
finds bad_flush flush 'test returned 4'
LD_LIBRARY_PATH=$(realpath "$BUILD")/tests/fake_cuda finds claims_gpu gpu-memory 'supports host memory only'
finds lazy_send close-when-sent 'message|closed'
finds close_crash close-in-flight 'SIGABRT.* in closeSend'
finds silent sender-closes 'receiver: test has reported no error'
finds silent receiver-closes 'sender: test has reported no error'
finds silent sender-killed 'receiver: test has reported no error'
finds silent receiver-killed 'sender: test has reported no error'
finds exit_crash exit-while-connected 'SIGABRT'
wait
for defect in "$WORK"/*.*; do
  [ ! -s "$defect" ] || fail "$(cat "$defect")"
done
for rule in $rules; do
  [[ " $found " == *" $rule "* ]] || fail "no defect shows that $rule can fail"
done

refuses() {
  local pattern=$1; shift
  timeout 10 "$check" "$@" > "$WORK/out" 2>&1 && fail "exit 0: $*"
  grep -qE -- "$pattern" "$WORK/out" || fail "no line matches \"$pattern\": $* printed: $(cat "$WORK/out")"
}
refuses 'no PLUGIN'
refuses '/nonexistent/x.so' /nonexistent/x.so
refuses 'exports no ncclNetPlugin' "$BUILD/lib/libbps.so"
refuses '--only nosuch: unknown rule' "$ours" --only nosuch
refuses '--device 7: the plugin has 1' "$ours" --device 7
refuses '--max-bytes 3' "$ours" --max-bytes 3
refuses '--json /nonexistent/x' "$ours" --only init --json /nonexistent/x
