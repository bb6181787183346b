#!/usr/bin/env bash
# examples/slurm with stand-ins for srun, scontrol and sinfo, which start the processes on this machine: BPS_SERVERS and
# BPS_ROOT follow from the lists of nodes, the job has its servers, and nothing is left after it.
BUILD=$1; . "$(dirname "$0")/lib.sh"
BUILD=$(realpath "$BUILD") BIN=$BUILD/bin
cd "$(dirname "$0")/../.." || exit 1
command -v python3 > /dev/null || skip "no python3"
mkdir "$WORK/bin" "$WORK/slurm" "$WORK/shared"
for name in srun scontrol sinfo; do ln -s "$PWD/tests/multiproc/slurm/srun" "$WORK/bin/$name"; done
unset BPS_KEY_FILE
export PATH=$WORK/bin:$BIN:$PATH SLURM_TEST=$WORK/slurm SLURM_JOB_ID=4711 SLURM_SUBMIT_DIR=$WORK/shared
nodes='127.0.0.[1-2,11-12]'
# Tasks that a failure leaves.
end_tasks() {
  local pid
  while read -r _ pid; do PIDS+=("$pid"); done < "$SLURM_TEST/pids"
  end
}
touch "$SLURM_TEST/pids"
trap end_tasks EXIT

# batch OPTIONS COMMAND...: writes a batch script that starts the servers with these options, then runs the commands.
batch() {
  local options=$1; shift
  printf '%s\n' '#!/bin/bash' '. examples/slurm/bps-servers.sh' "start_bps_servers $options || exit 1" "$@" > "$WORK/batch"
}
# run_batch NAME=VALUE...: runs the batch script with these variables; STATUS is its status.
run_batch() {
  : > "$SLURM_TEST/calls"; : > "$SLURM_TEST/pids"
  timeout 60 env "$@" bash "$WORK/batch" > "$WORK/out" 2>&1
  STATUS=$?
}
show() { cat "$WORK/out" "$SLURM_TEST/calls"; }
nothing_left() {
  local node pid
  while read -r node pid; do wait_for 5 gone "$pid" || fail "$1: the task $pid of node $node is left: $(show)"; done < "$SLURM_TEST/pids"
  [ -z "$(ls -A "$WORK/shared")" ] || fail "$1: files are left: $(ls -AR "$WORK/shared")"
}
started() { [ "$(grep -c '^127.0.0.1[12] ' "$SLURM_TEST/pids")" = "$1" ] || fail "not $1 server tasks: $(show)"; }
# ports: the options of a run.
ports() { port=$(free_port) root=$(free_port); options="--port $port --root-port $root --data-ports $((port < 60000 ? port + 1 : port - 99))-$((port < 60000 ? port + 99 : port - 1))"; }

het=(SLURM_JOB_NODELIST_HET_GROUP_0='127.0.0.[1-2]' SLURM_JOB_NODELIST_HET_GROUP_1='127.0.0.[11-12]' SLURM_JOB_NODELIST='127.0.0.[1-2]')
ports
batch "$options" 'echo "servers $BPS_SERVERS root $BPS_ROOT nodes $WORKER_NODES $SERVER_NODES key $(stat -c "%a %s" "$BPS_KEY_FILE")"' \
  'srun --het-group=0 bps-perf -b 64K -e 64K -n 3' 'stop_bps_servers; echo "servers ${BPS_SERVERS-none}"'
run_batch "${het[@]}"
[ $STATUS = 0 ] || fail "heterogeneous job: status $STATUS: $(show)"
grep -qx "servers 127.0.0.11:$port,127.0.0.12:$port root 127.0.0.1:$root nodes 127.0.0.1,127.0.0.2 127.0.0.11,127.0.0.12 key 600 [0-9]*" "$WORK/out" ||
  fail "heterogeneous job: $(show)"
grep -q '^# machines (n) 2 servers (k) 2' "$WORK/out" || fail "the job runs without its servers: $(show)"
grep -q '# Out of bounds values : 0 OK' "$WORK/out" || fail "heterogeneous job: $(show)"
grep -qx 'servers none' "$WORK/out" || fail "after the end: $(show)"
grep -q -- '^--het-group=1 --nodes=2 --ntasks=2 ' "$SLURM_TEST/calls" || fail "the servers' step: $(show)"
started 2
nothing_left "heterogeneous job"

# Nodes with a feature.
ports
batch "--feature cpu $options" 'srun --nodelist="$WORKER_NODES" bps-perf -b 64K -e 64K -n 3'
run_batch SLURM_JOB_NODELIST="$nodes"
[ $STATUS = 0 ] && grep -q '^# machines (n) 2 servers (k) 2' "$WORK/out" || fail "with --feature: status $STATUS: $(show)"
grep -q -- '^--nodelist=127.0.0.11,127.0.0.12 --nodes=2 ' "$SLURM_TEST/calls" || fail "the servers' step: $(show)"
nothing_left "with --feature"

# train.sbatch, with its ports, in a network of its own.
if unshare --net true 2> /dev/null; then
  sed '1a ip link set lo up' examples/slurm/train.sbatch | sed 's/-e 64M/-e 1M/' > "$WORK/batch"
  : > "$SLURM_TEST/calls"; : > "$SLURM_TEST/pids"
  timeout 60 env "${het[@]}" unshare --net bash "$WORK/batch" > "$WORK/out" 2>&1 || fail "train.sbatch: $(show)"
  grep -q '^# machines (n) 2 servers (k) 2' "$WORK/out" || fail "train.sbatch: $(show)"
  nothing_left train.sbatch
else
  echo "skip: train.sbatch: no network namespace"
fi

# The status of the job is that of the batch script, also if one server has died.
ports
batch "$options" 'kill -KILL $(sed -n "s/^127.0.0.11 //p" "$SLURM_TEST/pids")' 'srun --het-group=0 bps-perf -b 64K -e 64K -n 3' 'exit 5'
run_batch "${het[@]}"
[ $STATUS = 5 ] && grep -q '# Out of bounds values : 0 OK' "$WORK/out" || fail "one server dies: status $STATUS: $(show)"
nothing_left "one server dies"

# scancel: the batch script gets SIGTERM.
ports
batch "$options" 'echo begun' 'srun --het-group=0 sleep 30'
: > "$SLURM_TEST/calls"; : > "$SLURM_TEST/pids"
env "${het[@]}" setsid bash "$WORK/batch" > "$WORK/out" 2>&1 & job=$!; PIDS+=("$job")
wait_for 20 grep -q begun "$WORK/out" || fail "the job does not begin: $(show)"
wait_for 5 grep -q '^127.0.0.2 ' "$SLURM_TEST/pids" || fail "no step: $(show)"
kill -TERM -- "-$job"
wait_for 20 gone "$job" || fail "the job goes on after SIGTERM: $(show)"
nothing_left "after SIGTERM"

# refused ERROR OPTIONS NAME=VALUE...
refused() {
  local error=$1; batch "$2" 'echo goes on'; shift 2
  run_batch "$@"
  [ $STATUS = 1 ] && ! grep -q 'goes on' "$WORK/out" || fail "status $STATUS without the error \"$error\": $(show)"
  grep -q -- "$error" "$WORK/out" || fail "no error \"$error\": $(show)"
  nothing_left "$error"
}
refused 'unknown option --ports' '--ports 1' "${het[@]}"
refused '--port needs a value' '--port' "${het[@]}"
refused 'not in a job of Slurm' '' SLURM_JOB_ID=
refused 'no folder that this user can write to' "--dir $WORK/none" "${het[@]}"
refused 'has the feature fpga' '--feature fpga' SLURM_JOB_NODELIST="$nodes"
refused 'no worker node is left' '--feature cpu' SLURM_JOB_NODELIST='127.0.0.[11-12]'
refused 'no second component; give --feature' '' SLURM_JOB_NODELIST="$nodes"
refused "the servers do not answer" '--port 7x --wait 20' "${het[@]}"
refused "7x" '--port 7x --wait 20' "${het[@]}"
exit 0
