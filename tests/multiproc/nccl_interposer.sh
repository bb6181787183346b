#!/usr/bin/env bash
# Every rule of the NCCL interposer, with a fake NCCL and processes that act as machines. Programs without NCCL do not
# change their behaviour.
BUILD=$1; . "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.." || exit 1
preload=$(realpath "$BUILD/lib/libbps-nccl.so")
export FAKE_NCCL_DIR=$WORK BPS_NCCL_MIN_BYTES=4K FAKE_CUDA_FREE_WAITS=1  # as strict as a driver may be

# Runs every scenario on host memory and on the fake CUDA driver, each in two halves side by side, because they mostly
# wait.
declare -A ranks
start() { # BUFFERS HALF DIRECTORIES
  start_server "server_$1$2"
  local where=BPS_DEVICE=cuda
  [ "$1" = cuda ] || where=CUDA_VISIBLE_DEVICES= # host memory: without the fake driver and with real devices hidden
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

# Programs that do not use NCCL keep their output, errors and exit code.
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

# Without NCCL a call reports that. The stand-in finds the real library by its path, in the linker's directories, and
# among the loaded libraries, but never itself.
command -v python3 > "$WORK/null" || exit 0
calls() { # LIBRARY: calls its ncclGetVersion, like a program that opens NCCL itself
  python3 -c 'import ctypes, sys
version = ctypes.c_int(0)
print(ctypes.CDLL(sys.argv[1]).ncclGetVersion(ctypes.byref(version)), version.value)' "$1" 2>> "$WORK/calls.err"
}
expect() { [ "$1" = "$2" ] || fail "$3: \"$1\", not \"$2\": $(cat "$WORK/calls.err")"; }
stand_in=$(realpath "$BUILD/lib/nccl/libnccl.so.2") fake=$(realpath "$BUILD/tests/nccl/libnccl.so.2")
expect "$(BPS_NCCL_LIB_PATH=$fake calls "$stand_in")" "0 22809" "BPS_NCCL_LIB_PATH"
expect "$(BPS_TIMEOUT=soon BPS_NCCL_LIB_PATH=$fake calls "$stand_in")" "0 22809" "BPS_NCCL_LIB_PATH, another variable refused"
expect "$(LD_LIBRARY_PATH=$(dirname "$fake") calls "$stand_in")" "0 22809" "LD_LIBRARY_PATH"
expect "$(LD_LIBRARY_PATH=$(dirname "$stand_in"):$(dirname "$fake") calls libnccl.so.2)" "0 22809" "the stand-in first"
expect "$(BPS_NCCL_LIB_PATH=$stand_in calls "$stand_in")" "2 0" "itself"
grep -q "BPS_NCCL_LIB_PATH=$stand_in cannot be opened or has no pncclAllReduce" "$WORK/calls.err" || fail "the tried library is not named"
# A program that closes the library may still be called by it and by its threads, so the library stays loaded.
closed=$(BPS_NCCL_LIB_PATH=$fake python3 -c 'import _ctypes, ctypes, sys
library, version = ctypes.CDLL(sys.argv[1]), ctypes.c_int(0)
ask = library.ncclGetVersion
ask(ctypes.byref(version)), _ctypes.dlclose(library._handle)
print(ask(ctypes.byref(version)), version.value)' "$stand_in" 2>> "$WORK/calls.err")
expect "$closed" "0 22809" "a stand-in that was closed"
# Python opens extension modules, and with them NCCL, so that dlsym(RTLD_NEXT) does not find it.
hidden=$(LD_PRELOAD=$preload python3 -c 'import ctypes, sys
ctypes.CDLL(sys.argv[1], ctypes.RTLD_LOCAL)
print(ctypes.CDLL(None).ncclGroupStart(), ctypes.CDLL(None).ncclGroupEnd())' "$fake" 2>> "$WORK/calls.err")
expect "$hidden" "0 0" "NCCL opened with RTLD_LOCAL"
# A library that needs libnccl.so.2, as PyTorch's libtorch_cuda.so does, is bound to bps, even if Python opens it.
command -v g++ > "$WORK/null" || exit 0
cat > "$WORK/user.cc" <<'SOURCE'
#include <dlfcn.h>
extern "C" int ncclAllReduce(const void*, void*, unsigned long, int, int, void*, void*);
extern "C" const char* bound() {
  Dl_info info{};
  return dladdr(reinterpret_cast<const void*>(&ncclAllReduce), &info) != 0 ? info.dli_fname : "nothing";
}
SOURCE
g++ -shared -fPIC -Wl,-z,now -o "$WORK/libuser.so" "$WORK/user.cc" "$fake" || fail "the library that needs NCCL"
bound_to() { # PRELOAD: prints the library that has the ncclAllReduce of libuser.so
  LD_PRELOAD=$1 LD_LIBRARY_PATH=$(dirname "$fake") python3 -c 'import ctypes, sys
bound = ctypes.CDLL(sys.argv[1], ctypes.RTLD_LOCAL).bound
bound.restype = ctypes.c_char_p
print(bound().decode())' "$WORK/libuser.so" 2>> "$WORK/calls.err"
}
expect "$(bound_to "$preload")" "$preload" "a library that needs NCCL, with the preload"
expect "$(realpath "$(bound_to "")")" "$fake" "a library that needs NCCL, without the preload"
