#!/usr/bin/env bash
# bps-topo on the machines of tests/data/topo: every plan equals the expected file beside the topology (--fix as second
# argument writes it), overrides apply, and errors are named. show, the drawing and the probe run on this machine.
BUILD=$1; . "$(dirname "$0")/lib.sh"
unset BPS_TOPO_FILE BPS_TOPO_DUMP_FILE BPS_STRATEGY NCCL_TOPO_FILE NCCL_TOPO_DUMP_FILE
topo=$BIN/bps-topo
data=tests/data/topo

for file in "$data"/*.xml; do
  expected=${file%.xml}.plan
  "$topo" plan --topo "$file" > "$WORK/plan" 2>&1 || fail "$file: $(cat "$WORK/plan")"
  [ "${2:-}" = --fix ] && cp "$WORK/plan" "$expected"
  diff -u "$expected" "$WORK/plan" > "$WORK/diff" || fail "unexpected plan: $(cat "$WORK/diff")"
done

json() { python3 -c "import json, sys; plan = json.load(open('$WORK/json')); assert $1, plan" || fail "assertion fails: $1"; }
"$topo" plan --json --topo "$data/pcie_only.xml" --bytes 64M > "$WORK/json" || fail "plan --json"
json 'plan["strategy"] == "cpu_assisted" and plan["s_n"] == 0 and plan["s_g"] == 2 and plan["roots"] == []'
json '[c["strategy"] for c in plan["candidates"]] == ["cpu_assisted", "scatter", "rooted", "flat_ring"]'
json 'sum(l["up"]["staging"] for l in plan["traffic"] if l["link"] == "switch P1 - CPU 1") == 64 << 20'
"$topo" plan --json --topo "$data/nvlink.xml" --roots 2 --workers 4 --servers 2 > "$WORK/json" || fail "plan --json --workers"
json 'plan["strategy"] == "rooted" and plan["roots"] == [2, 3] and len(plan["shares"]["servers"]) == 2'
BPS_TOPO_FILE=$data/nvlink.xml BPS_STRATEGY=flat_ring BPS_TOPO_DUMP_FILE=$WORK/dump.xml "$topo" plan --json > "$WORK/json" ||
  fail "with variables"
json 'plan["strategy"] == "flat_ring"'
"$topo" plan --topo "$WORK/dump.xml" | tail -n +2 | diff - <(tail -n +2 "$data/nvlink.plan") > "$WORK/diff" ||
  fail "the dump describes a different machine: $(cat "$WORK/diff")"
"$topo" plan --fabric bcube:3,2 --link-gbps 10 --bytes 64M | diff -u "$data/bcube_3_2.fabric_plan" - > "$WORK/diff" ||
  fail "unexpected plan of a fabric: $(cat "$WORK/diff")"
"$topo" plan --json --fabric hypercube:3 --link-gbps 8 --bytes 1G > "$WORK/json" || fail "plan --json --fabric"
json 'plan["machines"] == 8 and len(plan["steps"]) == 6 and abs(plan["seconds"] - 7 / 12 * 1.073741824) < 1e-9'
json 'abs(plan["seconds_parameter_server"] / plan["seconds"] - 12 / 7) < 1e-9'
json 'plan["bcube"] == {"switches": 12, "ports": 24, "nics": 24} and plan["fat_tree"]["ports"] == 40'
json '[row["machines"] for row in plan["comparison"]] == [8, 27, 64, 512, 4096]'
"$topo" plan --fabric bcube:5,2 --svg "$WORK/times.svg" > /dev/null || fail "plan --fabric --svg"
python3 -c "import xml.dom.minidom; xml.dom.minidom.parse('$WORK/times.svg')" || fail "the picture of a fabric is no XML"
grep -q 'BCube(5,2)' "$WORK/times.svg" || fail "the picture does not have the shape"
"$topo" plan --workers 4 --servers 2 | grep -q '^speed-up over no server: 1.25 ' || fail "plan --workers"

# Invalid variables are marked, and the exit status is 1.
BPS_TIMEOUT=soon BPS_SERVER=a:1 NCCL_IB_TC=900 "$topo" --env > "$WORK/env" && fail "--env: exit 0"
for line in '^BPS_TIMEOUT +soon +environment +WRONG: BPS_TIMEOUT=soon: not a number' \
  '^NCCL_IB_TC +900 +environment +WRONG' '^BPS_SERVER +UNKNOWN: .*did you mean BPS_SERVERS'; do
  grep -qE "$line" "$WORK/env" || fail "--env has no line \"$line\": $(cat "$WORK/env")"
done
BPS_TIMEOUT=7 "$topo" --env > "$WORK/env" || fail "--env: exit $?: $(grep -E 'WRONG|UNKNOWN' "$WORK/env")"

"$topo" show --svg "$WORK/drawing.svg" "$data/eight_nics.xml" > "$WORK/show" || fail "show: $(cat "$WORK/show")"
grep -q 'NIC mlx5_7 .*driven by rank 7' "$WORK/show" || fail "show does not name the rank that drives a NIC: $(cat "$WORK/show")"
python3 -c "import xml.dom.minidom; xml.dom.minidom.parse('$WORK/drawing.svg')" || fail "the drawing is no XML"
"$topo" show 'cpu[gpu*2 nic]' --json > "$WORK/json" || fail "show --json"
json 'len(plan["nodes"]) == 4'

# bps-topo detects this machine only if libhwloc15 is installed.
if "$topo" show > "$WORK/show" 2>&1; then
  "$topo" probe --out "$WORK/probed.xml" > "$WORK/probe" || fail "probe: $(cat "$WORK/probe")"
  grep -qE '^memory of CPU 0 +[0-9.]+ GB/s' "$WORK/probe" || fail "no rate of memory: $(cat "$WORK/probe")"
  grep -qE '^host to device +skip' "$WORK/probe" || fail "no line about devices: $(cat "$WORK/probe")"
  BPS_TOPO_FILE=$WORK/probed.xml "$topo" show | grep -qE 'memory [0-9.]+ GB/s' || fail "the probed file is not used"
else
  grep -q 'install libhwloc15' "$WORK/show" || fail "show: $(cat "$WORK/show")"
fi

# If there are devices, the probe measures their copies, and the planner uses the file.
double=$(realpath "$BUILD")/tests/fake_cuda
gpu_at() { echo "<cpu numaid=\"$1\" affinity=\"1\"><pci busid=\"0000:0$2:00.0\" class=\"0x030200\"><gpu dev=\"$1\" sm=\"80\"/></pci></cpu>"; }
echo "<system version=\"1\">$(gpu_at 0 1)$(gpu_at 1 2)</system>" > "$WORK/gpus.xml"
env LD_LIBRARY_PATH="$double" FAKE_CUDA_DEVICES=2 "$topo" probe --topo "$WORK/gpus.xml" --out "$WORK/probed.xml" \
  > "$WORK/probe" 2>&1 || fail "probe with devices: $(cat "$WORK/probe")"
for line in 'host to device 0' 'device 1 to host' 'device 1 to device 0'; do
  grep -qE "^$line +[0-9.]+ GB/s" "$WORK/probe" || fail "$line is not measured: $(cat "$WORK/probe")"
done
BPS_TOPO_FILE=$WORK/probed.xml "$topo" plan > "$WORK/plan" || fail "plan of the probed file: $(cat "$WORK/plan")"
grep -qE '^GPU 1 - CPU 1 +[0-9.]+ ' "$WORK/plan" && ! grep -qE '^GPU 1 - CPU 1 +13.1 ' "$WORK/plan" ||
  fail "the plan does not use the probed device rates: $(cat "$WORK/plan")"
grep -q 'bps_peer_bw=' "$WORK/probed.xml" || fail "no rate between CPUs: $(cat "$WORK/probed.xml")"

# The probe measures a NIC with a second probe, here over loopback, and writes the rate as its speed.
"$topo" probe --listen 0 > "$WORK/listener" 2>&1 &
PIDS+=($!)
wait_for 10 grep -q '^listening on 127.0.0.1:' "$WORK/listener" || fail "the probe does not listen: $(cat "$WORK/listener")"
printf '<system version="1"><cpu numaid="0"><pci busid="0000:05:00.0" class="0x020000"><nic><net name="lo" speed="7"/></nic></pci></cpu></system>' \
  > "$WORK/lo.xml"
"$topo" probe --topo "$WORK/lo.xml" --peer "$(sed -n 's/^listening on //p' "$WORK/listener")" --out "$WORK/probed.xml" \
  > "$WORK/probe" 2>&1 || fail "probe over loopback: $(cat "$WORK/probe" "$WORK/listener")"
grep -qE '^NIC lo out +[0-9.]+ GB/s' "$WORK/probe" && grep -qE '^NIC lo in +[0-9.]+ GB/s' "$WORK/probe" ||
  fail "no rates of the NIC: $(cat "$WORK/probe")"
grep -qE 'name="lo" dev="0" speed="[0-9]{3,}"' "$WORK/probed.xml" || fail "no rate is written: $(cat "$WORK/probed.xml")"
grep -qE '^127.0.0.1:[0-9]+: .* in over lo$' "$WORK/listener" || fail "the other end prints nothing: $(cat "$WORK/listener")"

refuses() {
  local pattern=$1; shift
  timeout 10 "$@" > "$WORK/out" 2>&1 && fail "exit 0: $*"
  grep -qE -- "$pattern" "$WORK/out" || fail "no line matches \"$pattern\": $* printed: $(cat "$WORK/out")"
}
printf '<system version="1">\n<cpu numaid="0">\n<pci busid="a" class="gpu"/>\n</cpu></system>' > "$WORK/bad.xml"
refuses "bad.xml: line 3: <pci>: class=\"gpu\" is not a hexadecimal number" "$topo" show "$WORK/bad.xml"
refuses "topology /nonexistent: cannot be read" "$topo" plan --topo /nonexistent
refuses 'at "disk\]": expected' "$topo" plan --topo 'cpu[disk]'
refuses 'BPS_STRATEGY=best: .*auto, cpu_assisted, rooted, scatter or flat_ring' env BPS_STRATEGY=best "$topo" plan
refuses 'local rank 0: GPU 3 does not exist' "$topo" plan --topo 'cpu[gpu]' --gpus 3
refuses '2 roots for 1 ranks' "$topo" plan --topo 'cpu[gpu]' --roots 2
refuses '/nonexistent/x.svg cannot be written' "$topo" show --topo 'cpu[gpu]' --svg /nonexistent/x.svg
refuses 'banana' "$topo" plan --bytes banana
# Options without effect are errors.
refuses 'bps-topo: cpu\[gpu\]: expected one of these commands first: show, plan, probe' "$topo" 'cpu[gpu]' show
refuses '--servers needs --workers' "$topo" plan --servers 4
refuses '--worker-gbps needs --workers' "$topo" plan --worker-gbps 100
refuses '--server-gbps needs --servers' "$topo" plan --workers 4 --server-gbps 100
for option in '--topo cpu[gpu]' '--gpus 0' '--roots 1'; do
  # shellcheck disable=SC2086
  refuses "${option%% *} has no effect on the text of --workers" "$topo" plan --workers 4 $option
done
refuses '--topo and a topology argument were given' "$topo" show --topo 'cpu[gpu]' 'cpu[gpu]'
for option in '--peer a:1' '--out x' '--topo cpu[gpu]' --json; do
  # shellcheck disable=SC2086
  refuses "${option%% *} has no effect with --listen" "$topo" probe --listen 0 $option
done
refuses '--fabric ring:3: no kind of fabric; use bcube:N,K or hypercube:K' "$topo" plan --fabric ring:3
refuses '--fabric bcube:3: not the numbers of a shape' "$topo" plan --fabric bcube:3
refuses '--fabric bcube:1,2: n=1: a switch joins at least 2 machines' "$topo" plan --fabric bcube:1,2
refuses '--fabric bcube:65,2: n=65, k=2: more than 4096 machines' "$topo" plan --fabric bcube:65,2
refuses '--link-gbps 0: must be more than 0' "$topo" plan --fabric bcube:3,2 --link-gbps 0
refuses '--link-gbps inf: must be more than 0, and finite' "$topo" plan --fabric bcube:3,2 --link-gbps inf
refuses '--link-gbps needs --fabric' "$topo" plan --link-gbps 10
refuses '--workers and --fabric exclude each other' "$topo" plan --fabric bcube:3,2 --workers 9
refuses '/nonexistent/x.svg cannot be written' "$topo" plan --fabric bcube:3,2 --svg /nonexistent/x.svg
refuses 'action' "$topo" fabric
refuses 'measure' "$topo" fabric measure
refuses 'no BCube: .*only lo \(127' "$topo" fabric detect
refuses '"nic9" is no interface that is up' "$topo" fabric detect --interfaces lo,nic9
"$topo" plan --json --workers 8 --servers 4 > "$WORK/json" || fail "plan --json of a split"
json 'plan["workers"] == 8 and plan["servers"] == 4 and len(plan["shares"]["servers"]) == 4 and plan["seconds"] > 0'
json 'plan["strategy"]'
"$topo" show 'cpu[gpu*2 nic]' > /dev/full 2> "$WORK/out" && fail "exit 0 though nothing could be written"
[ "$(wc -l < "$WORK/out")" = 1 ] || fail "standard output that is full: $(cat "$WORK/out")"
start_server other
refuses 'the connection is for "probe", this address serves "server"' "$topo" probe --topo "$WORK/lo.xml" --peer "$SERVER_ADDRESS"
exit 0
