#!/usr/bin/env bash
# All of 200 ranks join a job, although their handshakes end at the same moment.
BUILD=$1; . "$(dirname "$0")/../multiproc/lib.sh"
HERE=$(dirname "$0")
export PYTHONDONTWRITEBYTECODE=1 BPS_TIMEOUT=10
python3 -c "import sys; sys.path.insert(0, '$HERE'); import sodium" || skip "no python3 with libsodium"
port=$(free_port)
BPS_RANK=0 BPS_NRANKS=200 BPS_ROOT=127.0.0.1:$port BPS_HOSTID=first "$BIN/bps-perf" -b 8 -e 8 > "$WORK/rank0.out" 2> "$WORK/rank0.err" &
rank0=$!; PIDS+=($rank0)
listens() { (exec 9<> "/dev/tcp/127.0.0.1/$port") 2> /dev/null; }
wait_for 10 listens || fail "rank 0 does not listen: $(cat "$WORK/rank0.err")"
python3 "$HERE/join_burst.py" 200 "127.0.0.1:$port" "$BPS_KEY_FILE" $rank0 || fail "$(tail -n 3 "$WORK/rank0.err")"
