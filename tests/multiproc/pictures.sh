#!/usr/bin/env bash
# The pictures of bps-topo, bps-perf and perf/emulated_cluster: no two texts overlap and none leaves the picture, and
# the picture of a plan has the bytes of every link.
BUILD=$1; . "$(dirname "$0")/lib.sh"
command -v python3 > /dev/null || skip "no python3"
here=$(realpath "$(dirname "$0")")
topo=$BIN/bps-topo
unset BPS_TOPO_FILE BPS_STRATEGY NCCL_TOPO_FILE BPS_TOPO_DUMP_FILE
check() { "$here/svg_texts.py" "$@" > "$WORK/texts" || fail "$(cat "$WORK/texts")"; }

# The check finds texts that overlap or leave the picture.
svg() { printf '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 300 60" font-size="12">%s</svg>' "$1" > "$WORK/bad.svg"; }
svg '<text x="10" y="20">first</text><text x="30" y="25">second</text>'
"$here/svg_texts.py" "$WORK/bad.svg" > "$WORK/texts" && fail "overlapping texts pass"
grep -q '"second" overlaps "first"' "$WORK/texts" || fail "overlapping texts are not named: $(cat "$WORK/texts")"
svg '<text x="290" y="20">outside</text>'
"$here/svg_texts.py" "$WORK/bad.svg" > "$WORK/texts" && fail "a text outside the picture passes"

machines=("$here"/../data/topo/*.xml 'cpu[sw[gpu*4] nic] cpu[sw[gpu*4]] pci=13.1 peer=10' 'cpu[nic:100]*2 memory=40'
  'cpu[sw[gpu*2 nic] sw[gpu*2]] cpu[sw[gpu*2]*2] nvlink=150' "cpu[gpu*16 nic*8]" 'cpu')
for ((i = 0; i < ${#machines[@]}; i++)); do
  "$topo" show --topo "${machines[i]}" --svg "$WORK/show$i.svg" > "$WORK/out" 2>&1 || fail "${machines[i]}: $(cat "$WORK/out")"
  "$topo" plan --topo "${machines[i]}" --svg "$WORK/plan$i.svg" > "$WORK/out" 2>&1 || fail "${machines[i]}: $(cat "$WORK/out")"
  "$topo" plan --topo "${machines[i]}" --json > "$WORK/plan.json" || fail "${machines[i]}: plan --json"
  python3 - "$WORK/plan.json" "$WORK/plan$i.svg" << 'PYTHON' || fail "the bytes in the picture of ${machines[i]}"
import json, sys
picture = open(sys.argv[2], encoding="utf-8").read()
for link in json.load(open(sys.argv[1]))["traffic"]:
    up, down = sum(link["up"].values()), sum(link["down"].values())
    assert up + down == 0 or f"{up / 1e9:.3g} / {down / 1e9:.3g} GB" in picture, link
PYTHON
done
check "$WORK"/show*.svg "$WORK"/plan*.svg
"$topo" show --topo "$here/../data/topo/nvlink.xml" --svg "$WORK/nvlink.svg" > "$WORK/out" || fail "show --svg"
for text in 0000:04:00.0 '13.1 GB/s' '50 GB/s' '100 Gbit/s' 'PCIe that a GPU and a NIC share'; do
  grep -q ">$text<" "$WORK/nvlink.svg" || fail "no \"$text\" in the picture of nvlink.xml"
done
"$topo" plan --workers 4 --servers 2 --topo 'cpu[sw[gpu*4] nic]' --svg "$WORK/split.svg" > "$WORK/out" || fail "plan --workers --svg"
grep -q '^speed-up over no server' "$WORK/out" || fail "plan --workers --svg prints no split"
check "$WORK/split.svg"
for shape in bcube:5,2 hypercube:8 bcube:4096,1; do
  "$topo" plan --fabric "$shape" --svg "$WORK/fabric.svg" > "$WORK/out" || fail "plan --fabric $shape --svg"
  check "$WORK/fabric.svg"
done
"$topo" plan --topo 'cpu[gpu]' --svg /nonexistent/x.svg > "$WORK/out" 2>&1 && fail "exit 0 without a picture"

# perf/emulated_cluster --plot, with results of one size and of many.
python3 -B - "$here/../../perf" "$WORK" << 'PYTHON' || fail "the chart of perf/emulated_cluster"
import sys
sys.path.insert(0, sys.argv[1])
from cluster import chart
def row(what, k):
    size = int(what) if what.isdigit() else 97 << 20
    ideal = size / (50e6 * (1 + k / 8))
    return {"what": what, "bytes": size, "k": k, "n": 4, "ideal": ideal, "ideal_without": size / 50e6, "least": ideal,
            "most": 1.3 * ideal, "algbw": size / ideal / 1.05}
chart.write(sys.argv[2] + "/one.svg", [row("1048576", 0)])
chart.write(sys.argv[2] + "/many.svg", [row(str(1 << size), k) for size in range(10, 28, 3) for k in range(33)])
chart.write(sys.argv[2] + "/model.svg", [row("resnet50", k) for k in (0, 4)])
PYTHON
check "$WORK/one.svg" "$WORK/many.svg" "$WORK/model.svg"

"$BIN/bps-perf" -t 2 -b 64 -e 1M -f 2 -n 5 --plot "$WORK/perf.svg" > "$WORK/out" 2>&1 || fail "bps-perf: $(cat "$WORK/out")"
check "$WORK/perf.svg"
