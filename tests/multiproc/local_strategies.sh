#!/usr/bin/env bash
# Local ranks, as processes, stand for the GPUs of a recorded machine. The counted link bytes equal the published table,
# errors are named, and if a local rank is killed, the others name it.
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_TOPO_FILE BPS_TOPO_DUMP_FILE BPS_TOPO_COUNTERS BPS_STRATEGY NCCL_TOPO_FILE NCCL_TOPO_DUMP_FILE
data=tests/data/topo

# counted MACHINES RANKS SIZE: runs a job; the bytes that each machine moved are in $WORK/0.json and so on.
counted() {
  BPS_TOPO_COUNTERS=$WORK/%m.json timeout 100 "$BIN/bps-run" -n "$1" -m "$2" -s 1 -- \
    "$BIN/bps-perf" -b "$3" -e "$3" -n 1 -w 0 > "$WORK/out" 2>&1 || fail "bps-perf: $(tail -n 5 "$WORK/out")"
  grep -q '^# Out of bounds values : 0 OK' "$WORK/out" || fail "wrong results: $(cat "$WORK/out")"
}

# holds FILE EXPRESSION: M is the total of all-reduced bytes; up and down give the bytes of a link by name and kind.
holds() {
  python3 - "$1" "$2" << 'PYTHON' || fail "assertion fails in $1: $2"
import json, sys
machine = json.load(open(sys.argv[1]))
M, strategy = machine["bytes"], machine["strategy"]
links = {link["link"]: link for link in machine["links"]}
def of(way):
    return lambda link, *kinds: sum(v for k, v in links[link][way].items() if not kinds or k in kinds)
up, down = of("up"), of("down")
gpus = [f"GPU {i} - switch P{i // 4}" for i in range(8)]
nics = [link for link in links if link.startswith("NIC ")]
sys.exit(not eval(sys.argv[2]))
PYTHON
}

export BPS_TOPO_FILE=$data/pcie_only.xml
counted 2 8 8M
grep -qE '^# switch P0 - CPU 0 +0\.[0-9]+ ' "$WORK/out" || fail "bps-perf does not report the bytes of the links: $(cat "$WORK/out")"
for m in 0 1; do
  holds "$WORK/$m.json" 'strategy == "cpu_assisted" and M >= 3 * (8 << 20)'
  holds "$WORK/$m.json" 'all(w(f"switch P{i} - CPU {i}") == M for w in (up, down) for i in (0, 1))'
  holds "$WORK/$m.json" 'all(4 * w(gpu) == 7 * M for w in (up, down) for gpu in gpus)'
done
BPS_STRATEGY=flat_ring counted 2 8 4M
for m in 0 1; do
  holds "$WORK/$m.json" 'strategy == "flat_ring" and all(4 * w(gpu, "peer") == 7 * M for w in (up, down) for gpu in gpus)'
  holds "$WORK/$m.json" 'all(4 * w(f"switch P{i} - CPU {i}", "peer") == 7 * M for w in (up, down) for i in (0, 1))'
  # The ring's sums also go to the network and back: one eighth for each GPU.
  holds "$WORK/$m.json" 'all(8 * w(gpu, "staging") == M for w in (up, down) for gpu in gpus)'
  holds "$WORK/$m.json" 'all(2 * w(f"switch P{i} - CPU {i}", "staging") == M for w in (up, down) for i in (0, 1))'
done
BPS_TOPO_FILE=$data/nvlink.xml counted 2 8 4M
holds "$WORK/0.json" 'strategy == "rooted" and machine["roots"] == ["GPU 2"]'
holds "$WORK/0.json" 'all(w("switch P0 - CPU 0", "peer", "staging") == 0 for w in (up, down))'
holds "$WORK/0.json" 'all(w("switch P1 - CPU 0") == M and w("GPU 2 - switch P1") == M for w in (up, down))'

# Every rank drives the NIC beside its GPU. Each NIC carries its part of the machine's traffic, which is at most 2M. The
# traffic between the ranks does not change.
BPS_TOPO_FILE=$data/eight_nics.xml counted 2 8 8M
for m in 0 1; do
  holds "$WORK/$m.json" 'machine["rails"] == list(range(8))'
  holds "$WORK/$m.json" 'len(nics) == 8 and all(M / 8 <= sum(w(nic, "nic") for w in (up, down)) <= 2 * M / 7 for nic in nics)'
done
NCCL_TOPO_FILE=$BPS_TOPO_FILE BPS_TOPO_FILE= counted 1 2 8M
holds "$WORK/0.json" 'machine["ranks"] == ["CPU 0", "CPU 1"]'  # a topology for NCCL gives ranks without GPU no GPU
BPS_RAILS=8 counted 2 8 8M
holds "$WORK/0.json" 'machine["rails"] == list(range(8)) and all(w(f"switch P{i} - CPU {i}") == M for w in (up, down) for i in (0, 1))'

# Every type and operation is right if machines have different numbers of ranks. A long run tests all machines and
# strategies, with sizes around those of one chunk and of several.
right() {
  local file=$1 ranks=$2; shift 2
  BPS_TOPO_FILE=$data/$file.xml BPS_PARTITION_BYTES=8K BPS_DIRECT_BYTES=64 BPS_EAGER_BYTES=1K timeout 200 \
    "$BIN/bps-run" -n "${ranks%x*}" -m "${ranks#*x}" -s 1 -- "$@" -d all -o all -c 1 -n 1 -w 0 > "$WORK/out" 2>&1 ||
    fail "$file $ranks $*: $(tail -n 5 "$WORK/out")"
  grep -q '^# Out of bounds values : 0 OK' "$WORK/out" || fail "wrong results: $file $ranks $*: $(cat "$WORK/out")"
}
printf '#!/bin/sh\n[ "$BPS_RANK" = 0 ] && BPS_HOSTID=one || BPS_HOSTID=three\nexport BPS_HOSTID\nexec "%s/bps-perf" "$@"\n' \
  "$(realpath "$BIN")" > "$WORK/one_and_three"
chmod +x "$WORK/one_and_three"
right nvlink 4x1 "$WORK/one_and_three" -b 12K -e 12K
if [ "${BPS_TEST_LONG:-0}" = 1 ]; then
  for way in pcie_only:cpu_assisted eight_nics:scatter nvlink:rooted pcie_only:flat_ring; do
    export BPS_STRATEGY=${way#*:}
    for sizes in "-b 4 -e 256K -f 16" "-b 8184 -e 8200 -i 8" "-b 32760 -e 32776 -i 8"; do
      for ranks in 1x8 2x8 3x4 4x1; do right "${way%:*}" $ranks "$BIN/bps-perf" $sizes; done
      right "${way%:*}" 4x1 "$WORK/one_and_three" $sizes
    done
    unset BPS_STRATEGY
  done
fi

printf '<system version="1">\n<cpu numaid="0">\n<pci busid="a" class="gpu"/>\n</cpu></system>' > "$WORK/bad.xml"
BPS_TOPO_FILE=$WORK/bad.xml timeout 30 "$BIN/bps-run" -n 1 -m 2 -- "$BIN/bps-perf" > "$WORK/out" 2>&1 &&
  fail "exit 0 with a bad file"
grep -q 'bad.xml: line 3: <pci>: class="gpu" is not a hexadecimal number' "$WORK/out" ||
  fail "the bad file is not named: $(cat "$WORK/out")"

# A rank's threads run on the CPUs near its GPU, unless the user has chosen the process's CPUs. To get two NUMA nodes
# here, each of the first two CPUs is one.
on_cpu() { grep -qsx "Cpus_allowed_list:[[:space:]]*$2" "/proc/${RANK_PIDS[$1]}"/task/*/status; }
two_ranks() {
  RANKS_PER_MACHINE=2 BPS_TOPO_FILE='cpu[gpu] cpu[gpu] cores=1' start_ranks 2 "$@" \
    "$BIN/bps-perf" -b 1M -e 1M -n 1 -w 0 -c 0 -N 0
  wait_for 20 in_loop 0 || fail "rank 0 does not start: $(tail -qn 3 "$WORK/rank0.out" "$WORK/rank0.err")"
}
end_ranks() { kill -KILL "${RANK_PIDS[@]}"; wait "${RANK_PIDS[@]}" 2>/dev/null; }
if taskset -c 0,1 true 2>/dev/null; then
  if [ "$(nproc)" = "$(getconf _NPROCESSORS_ONLN)" ]; then
    two_ranks
    on_cpu 0 0 && on_cpu 1 1 || fail "threads are not bound"
    end_ranks
  fi
  two_ranks taskset -c 0
  ! on_cpu 1 1 || fail "bound although the user chose the CPUs"
  end_ranks
  BPS_IGNORE_CPU_AFFINITY=1 two_ranks taskset -c 0
  on_cpu 1 1 || fail "not bound although BPS_IGNORE_CPU_AFFINITY=1"
  end_ranks
fi

shm_before=$(segments)
for victim in 0 3; do
  RANKS_PER_MACHINE=4 start_ranks 4 "$BIN/bps-perf" -b 64M -e 64M -n 1 -w 0 -c 0 -N 0
  wait_for 20 in_loop 0 || fail "rank 0 does not start: $(tail -qn 3 "$WORK/rank0.out" "$WORK/rank0.err")"
  kill -KILL "${RANK_PIDS[$victim]}"
  for r in 0 1 2 3; do
    [ "$r" = "$victim" ] || ends_with_error "$r" "rank $victim \\(" $((BPS_TIMEOUT + 1))
  done
done
# A second rank beside the leader drives the network, with another machine at the other end.
RANKS_PER_MACHINE=2 BPS_RAILS=2 start_ranks 4 "$BIN/bps-perf" -b 64M -e 64M -n 1 -w 0 -c 0 -N 0
wait_for 20 in_loop 0 || fail "rank 0 does not start: $(tail -qn 3 "$WORK/rank0.out" "$WORK/rank0.err")"
kill -KILL "${RANK_PIDS[3]}"
for r in 0 1 2; do ends_with_error "$r" "rank 3 \\(" $((BPS_TIMEOUT + 1)); done
[ "$(segments)" -le "$shm_before" ] || fail "segments remain in /dev/shm: $(ls /dev/shm)"
exit 0
