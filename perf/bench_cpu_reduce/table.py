#!/usr/bin/env python3
"""Writes the Markdown table of perf/cpu_reduce.md from the benchmark's JSON. Usage: table.py JSON MARKDOWN"""
import json
import subprocess
import sys

TYPES = {"float": "f32", "half": "f16", "bfloat16": "bf16", "f8e4m3": "e4m3"}
COLUMNS = ["64KiB/t1", "1MiB/t1", "64MiB/t1", "64MiB/t2"]


def cpu():
    with open("/proc/cpuinfo") as info:
        return next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "unknown")


def read(path):
    with open(path) as file:
        data = json.load(file)
    rows = {b["name"].split("/iterations")[0]: b for b in data["benchmarks"] if "ratio" in b}
    return data["context"], rows


def cell(row):
    return f"{row['consumed'] / 1e9:.1f} ({row['ratio']:.2f})" if row else "–"


def matrix(rows):
    yield "| | 64 KiB | 1 MiB | 64 MiB | 64 MiB, 2 threads |"
    yield "|---|---|---|---|---|"
    for name, short in TYPES.items():
        for m in (2, 4, 8):
            cells = [cell(rows.get(f"memory/{name}/m{m}/{column}")) for column in COLUMNS]
            yield f"| {short}, m = {m} | " + " | ".join(cells) + " |"


def rivals(rows):
    yield "| | 64 KiB | 1 MiB | 64 MiB |"
    yield "|---|---|---|---|"
    for rival, name in (("plain", "float"), ("openmpi", "float"), ("plain", "half"), ("plain", "bfloat16")):
        cells = [cell(rows.get(f"{rival}/{name}/m2/{column}")) for column in COLUMNS[:3]]
        yield f"| {TYPES[name]} against {rival} | " + " | ".join(cells) + " |"


def pairwise(rows):
    yield "| 64 MiB | f32 | bf16 |"
    yield "|---|---|---|"
    for m in (4, 8):
        cells = [cell(rows.get(f"pairwise/{name}/m{m}/64MiB/t1")) for name in ("float", "bfloat16")]
        yield f"| m = {m} | " + " | ".join(cells) + " |"


def targets(rows):
    """(what, least, measured) of every promise."""
    def ratio(name):
        return rows[name]["ratio"] if name in rows else None
    for column, what in (("64MiB/t1", "one core"), ("64MiB/t2", "two cores")):
        for m in (2, 4, 8):
            yield f"f32, m = {m}, 64 MiB, {what}: part of the memory bound", 0.90, ratio(f"memory/float/m{m}/{column}")
    for name in ("half", "bfloat16"):
        for m in (2, 4, 8):
            yield f"{TYPES[name]}, m = {m}, 64 MiB", 0.85, ratio(f"memory/{name}/m{m}/64MiB/t1")
            yield f"{TYPES[name]}, m = {m}, 64 KiB", 0.60, ratio(f"memory/{name}/m{m}/64KiB/t1")
    for m in (2, 4, 8):
        yield f"e4m3, m = {m}, 64 MiB", 0.50, ratio(f"memory/f8e4m3/m{m}/64MiB/t1")
    for rival, name, least in (("plain", "float", 1.0), ("openmpi", "float", 1.0), ("plain", "half", 5.0),
                               ("plain", "bfloat16", 5.0)):
        for size in ("64KiB", "1MiB", "64MiB"):
            yield f"{TYPES[name]} against {rival}, {size}", least, ratio(f"{rival}/{name}/m2/{size}/t1")
    for name in ("float", "bfloat16"):
        for m in (4, 8):
            yield f"{TYPES[name]}, one pass over {m} against pairs, 64 MiB", 1.6, ratio(f"pairwise/{name}/m{m}/64MiB/t1")
        row = rows.get(f"memory/{name}/m8/64MiB/t1")
        yield f"{TYPES[name]}, m = 8, 64 MiB, one thread: Gbit/s", 200, row and row["consumed"] * 8e-9


def promises(rows):
    yield "| promise | at least | measured | |"
    yield "|---|---|---|---|"
    for what, least, measured in targets(rows):
        if measured is None:
            yield f"| {what} | {least} | – | not measured |"
        else:
            # 0.895 is not 0.90: no rounding before the comparison
            yield f"| {what} | {least} | {measured:.2f} | {'kept' if measured >= least else '**missed**'} |"


def main():
    context, rows = read(sys.argv[1])
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    load = context.get("load_avg", ["?"])[0]
    with open(sys.argv[2], "w") as out:
        print(f"""# cpu_reduce: sum

Written by `make bench`; do not edit. {cpu()}, {context['num_cpus']} CPUs, load {load} at the start, kernels
"{context.get('kernels', '?')}", after commit {commit}.

Each cell: GB/s of gradient consumed (best tenth of 61 runs), and in brackets the ratio to a reference that ran in turn
with it (median; above 1: bps is faster). Sizes are of each source. One thread by its CPU time, two by the wall. Results
over 4 MiB are written past the cache by both. Other work on the machine shifts single ratios by a tenth and more, so
judge a miss by several runs.

## Against the memory bound
The reference reads m streams and writes one with no arithmetic.
""", file=out)
        print(*matrix(rows), sep="\n", file=out)
        print("\n## dst += src, one thread, against other implementations\n`plain` is the obvious loop compiled with "
              "`-O3 -march=native` (f16: the compiler's `_Float16`; bf16:\nconversion by shifts, which the compiler turns "
              "into vectors); `openmpi` is MPI_Reduce_local.\n", file=out)
        print(*rivals(rows), sep="\n", file=out)
        print("\n## One pass over m sources against m - 1 passes over two, one thread\n", file=out)
        print(*pairwise(rows), sep="\n", file=out)
        print("\n## What was promised\n", file=out)
        print(*promises(rows), sep="\n", file=out)


main()
