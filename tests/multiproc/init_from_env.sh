#!/usr/bin/env bash
# bpsCommInitFromEnv: the examples find their rank in the variables of every launcher and name missing variables.
BUILD=$1; . "$(dirname "$0")/lib.sh"
cd "$(dirname "$0")/../.." || exit 1
for example in all_reduce all_reduce_nccl; do
  cc -Wall -Wextra -Werror -Iinclude "examples/$example.c" -o "$WORK/$example" -L"$BUILD/lib" -lbps \
    -Wl,-rpath,"$(realpath "$BUILD/lib")" || fail "$example does not compile"
done

# launched RANK_VARIABLE SIZE_VARIABLE ADDRESS...: starts three ranks as that launcher does.
launched() {
  local rank=$1 size=$2 pids=(); shift 2
  for r in 0 1 2; do
    env "$rank=$r" "$size=3" "$@" "$WORK/all_reduce" > "$WORK/rank$r.out" 2>&1 &
    pids+=($!) PIDS+=($!)
  done
  for r in 0 1 2; do
    wait "${pids[r]}" || fail "$rank: rank $r: $(tail -n 3 "$WORK/rank$r.out")"
    grep -q "^rank $r of 3: sum 6" "$WORK/rank$r.out" || fail "$rank: rank $r: $(cat "$WORK/rank$r.out")"
  done
}
launched BPS_RANK BPS_NRANKS BPS_ROOT=127.0.0.1:"$(free_port)"
launched OMPI_COMM_WORLD_RANK OMPI_COMM_WORLD_SIZE BPS_ROOT=127.0.0.1:"$(free_port)"
launched PMI_RANK PMI_SIZE BPS_ROOT=127.0.0.1:"$(free_port)"
launched SLURM_PROCID SLURM_NTASKS BPS_ROOT=127.0.0.1:"$(free_port)"
launched RANK WORLD_SIZE MASTER_ADDR=127.0.0.1 MASTER_PORT=$(($(free_port) - 1)) # torchrun
"$WORK/all_reduce" > "$WORK/out" 2>&1 || fail "a single process: $(cat "$WORK/out")"
grep -q '^rank 0 of 1: sum 1' "$WORK/out" || fail "a single process: $(cat "$WORK/out")"
if command -v mpirun > "$WORK/null" && mpirun --version 2>&1 | grep -q 'Open MPI'; then
  mpirun --allow-run-as-root --oversubscribe -x BPS_ROOT=127.0.0.1:"$(free_port)" -np 2 "$WORK/all_reduce_nccl" \
    > "$WORK/out" 2>&1 || fail "mpirun: $(tail -n 5 "$WORK/out")"
  [ "$(grep -c 'rank [01] of 2: sum 3' "$WORK/out")" = 2 ] || fail "mpirun: $(cat "$WORK/out")"
fi

# An error is one line that names the variable and a valid value.
refused() {
  local text=$1; shift
  env "$@" "$WORK/all_reduce" > "$WORK/out" 2>&1 && fail "exit 0 with $*"
  grep -qE -- "$text" "$WORK/out" || fail "$*: no \"$text\" in: $(cat "$WORK/out")"
}
refused 'OMPI_COMM_WORLD_RANK=0 .*: 4 processes need a rendezvous address: set BPS_ROOT=HOST:PORT' \
  OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4
refused 'WORLD_SIZE=many: not a whole number' RANK=0 WORLD_SIZE=many
refused 'BPS_RANK and BPS_NRANKS must both be set' BPS_RANK=1
