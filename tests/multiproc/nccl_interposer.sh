#!/usr/bin/env bash
# What stands between a program and NCCL: every rule of it, with a double of NCCL and processes that pass for machines;
# and that programs without NCCL do not notice it.
BUILD=$1; . "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.." || exit 1
preload=$(realpath "$BUILD/lib/libbps-nccl.so")
export FAKE_NCCL_DIR=$WORK BPS_NCCL_MIN_BYTES=4K FAKE_CUDA_FREE_WAITS=1  # as strict as a driver may be

# Every rule on host memory, and on the double of CUDA's streams and devices: each in two halves, side by side, since
# they wait most of the time.
declare -A ranks
start() { # BUFFERS HALF DIRECTORIES
  start_server "server_$1$2"
  local where=BPS_DEVICE=cuda
  [ "$1" = cuda ] || where=CUDA_VISIBLE_DEVICES= # without the double and with CUDA's own devices hidden: host memory
  env "$where" LD_LIBRARY_PATH="$3" BPS_SERVERS="$SERVER_ADDRESS" FAKE_NCCL_STOP_PID="$SERVER_PID" LD_PRELOAD="$preload" \
    timeout -k 5 100 "$BUILD/tests/nccl/ranks" --part "$2" 2 > "$WORK/$1$2.out" 2> "$WORK/$1$2.err" &
  ranks[$1$2]=$!
}
for half in 0 1; do
  start host $half "$BUILD/tests/nccl"
  start cuda $half "$BUILD/tests/nccl:$BUILD/tests/fake_cuda"
done
for run in host0 host1 cuda0 cuda1; do
  wait "${ranks[$run]}" || fail "${run%?} buffers: $(grep -v ^ok "$WORK/$run.out"; tail -n 20 "$WORK/$run.err")"
  echo "  ${run%?} buffers: $(tail -n 1 "$WORK/$run.out")"
done

# Nothing changes for who does not use NCCL: output, errors, exit code.
cat > "$WORK/forks.sh" <<'SCRIPT'
for i in 1 2 3; do (exit "$i"); echo "child $i: $?"; done
ls /nonexistent; exit 7
SCRIPT
same() {
  "$@" > "$WORK/plain.out" 2> "$WORK/plain.err"; local plain=$?
  LD_PRELOAD=$preload "$@" > "$WORK/with.out" 2> "$WORK/with.err"; local with=$?
  [ $plain = $with ] || fail "$*: exit code $with, not $plain"
  cmp "$WORK/plain.out" "$WORK/with.out" && cmp "$WORK/plain.err" "$WORK/with.err" || fail "$*: output differs"
}
same ls -l src
same bash "$WORK/forks.sh"
! command -v python3 > "$WORK/null" || same python3 -c 'print(1)'

# Where there is no NCCL a call says so; the stand-in finds the real one by its path, in the linker's directories, and
# among what is loaded already, but never itself.
command -v python3 > "$WORK/null" || exit 0
calls() { # LIBRARY: ncclGetVersion of it, by somebody who opens NCCL himself
  python3 -c 'import ctypes, sys
version = ctypes.c_int(0)
print(ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(version)), version.value)' "$1" 2>> "$WORK/calls.err"
}
expect() { [ "$1" = "$2" ] || fail "$3: \"$1\", not \"$2\": $(cat "$WORK/calls.err")"; }
standin=$(realpath "$BUILD/lib/nccl/libnccl.so.2") double=$(realpath "$BUILD/tests/nccl/libnccl.so.2")
expect "$(BPS_NCCL_LIB_PATH=$double calls "$standin")" "0 22809" "BPS_NCCL_LIB_PATH"
expect "$(BPS_TIMEOUT=soon BPS_NCCL_LIB_PATH=$double calls "$standin")" "0 22809" "BPS_NCCL_LIB_PATH, another variable refused"
expect "$(LD_LIBRARY_PATH=$(dirname "$double") calls "$standin")" "0 22809" "LD_LIBRARY_PATH"
expect "$(LD_LIBRARY_PATH=$(dirname "$standin"):$(dirname "$double") calls libnccl.so.2)" "0 22809" "the stand-in first"
expect "$(BPS_NCCL_LIB_PATH=$standin calls "$standin")" "2 0" "itself"
grep -q "BPS_NCCL_LIB_PATH=$standin cannot be opened or has no pncclAllReduce" "$WORK/calls.err" || fail "no word of what was looked for"
# Who closes the library may still be called back by it, and by its threads: it stays where it is.
closed=$(BPS_NCCL_LIB_PATH=$double python3 -c 'import _ctypes, ctypes, sys
library, version = ctypes.CDLL(sys.argv[1]), ctypes.c_int(0)
ask = library.ncclGetVersion
ask(ctypes.byref(version)), _ctypes.dlclose(library._handle)
print(ask(ctypes.byref(version)), version.value)' "$standin" 2>> "$WORK/calls.err")
expect "$closed" "0 22809" "a stand-in that was closed"
# Python opens extension modules, and with them NCCL, so that dlsym(RTLD_NEXT) does not see it.
hidden=$(LD_PRELOAD=$preload python3 -c 'import ctypes, sys
ctypes.CDLL(sys.argv[1], ctypes.RTLD_LOCAL)
print(ctypes.CDLL(None).ncclGroupStart(), ctypes.CDLL(None).ncclGroupEnd())' "$double" 2>> "$WORK/calls.err")
expect "$hidden" "0 0" "NCCL opened with RTLD_LOCAL"
