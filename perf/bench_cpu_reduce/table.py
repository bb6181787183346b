#!/usr/bin/env python3
"""Writes the Markdown table of perf/cpu_reduce.md from one or more JSON files of the benchmark.
Usage: table.py JSON... MARKDOWN"""
import json
import subprocess
import sys

TYPES = {"float": "f32", "half": "f16", "bfloat16": "bf16", "f8e4m3": "e4m3"}
COLUMNS = ["64KiB/t1", "1MiB/t1", "64MiB/t1", "64MiB/t2"]


def cpu():
    with open("/proc/cpuinfo") as info:
        return next((line.split(":")[1].strip() for line in info if line.startswith("model name")), "unknown")


def read(paths):
    rows = {}
    for path in paths:
        with open(path) as file:
            data = json.load(file)
        rows |= {b["name"].split("/iterations")[0]: b for b in data["benchmarks"] if "ratio" in b}
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


BASELINES = (("itself", "float", "f32 plain against itself"), ("plain", "float", "f32 against plain"),
          ("openmpi", "float", "f32 against Open MPI"), ("plain", "half", "f16 against plain"),
          ("software", "half", "f16 against software"), ("plain", "bfloat16", "bf16 against plain"))


def baselines(rows):
    yield "| | 64 KiB | 1 MiB | 64 MiB |"
    yield "|---|---|---|---|"
    for rival, name, what in BASELINES:
        cells = [cell(rows.get(f"{rival}/{name}/m2/{column}")) for column in COLUMNS[:3]]
        yield f"| {what} | " + " | ".join(cells) + " |"
        limits = [rows.get(f"limit-{rival}/{name}/m2/{column}") for column in COLUMNS[:3]]
        if name != "float" and all(limits):
            yield "| – the memory bound's ratio | " + " | ".join(f"{row['ratio']:.2f}" for row in limits) + " |"


def passes(rows):
    yield "| | 64 KiB | 1 MiB | 64 MiB |"
    yield "|---|---|---|---|"
    for name in ("half", "bfloat16"):
        for m in (4, 8):
            cells = [cell(rows.get(f"plain-passes/{name}/m{m}/{column}")) for column in COLUMNS[:3]]
            yield f"| {TYPES[name]}, m = {m} | " + " | ".join(cells) + " |"


def pairwise(rows):
    yield "| 64 MiB | f32 | bf16 |"
    yield "|---|---|---|"
    for m in (4, 8):
        cells = [cell(rows.get(f"pairwise/{name}/m{m}/64MiB/t1")) for name in ("float", "bfloat16")]
        yield f"| m = {m} | " + " | ".join(cells) + " |"


def targets(rows):
    """(what, least, measured row, row of the bound) of every target; the measured row may be a number."""
    for column, what in (("64MiB/t1", "one core"), ("64MiB/t2", "two cores")):
        for m in (2, 4, 8):
            yield (f"f32, m = {m}, 64 MiB, {what}: part of the memory bound", 0.90,
                   rows.get(f"memory/float/m{m}/{column}"), None)
    for name in ("half", "bfloat16"):
        for m in (2, 4, 8):
            yield f"{TYPES[name]}, m = {m}, 64 MiB", 0.85, rows.get(f"memory/{name}/m{m}/64MiB/t1"), None
            yield f"{TYPES[name]}, m = {m}, 64 KiB", 0.60, rows.get(f"memory/{name}/m{m}/64KiB/t1"), None
    for m in (2, 4, 8):
        yield f"e4m3, m = {m}, 64 MiB", 0.50, rows.get(f"memory/f8e4m3/m{m}/64MiB/t1"), None
    for rival, name, what in BASELINES[1:]:
        for size in ("64KiB", "1MiB", "64MiB"):
            yield (f"dst += src, {what}, {size}", 1.0 if name == "float" else 5.0,
                   rows.get(f"{rival}/{name}/m2/{size}/t1"), rows.get(f"limit-{rival}/{name}/m2/{size}/t1"))
    for name in ("half", "bfloat16"):
        for m in (4, 8):
            for size in ("64KiB", "1MiB", "64MiB"):
                yield (f"{TYPES[name]}, one pass over {m} against a copy and {m - 1} plain passes, {size}", 5.0,
                       rows.get(f"plain-passes/{name}/m{m}/{size}/t1"), None)
    for name in ("float", "bfloat16"):
        for m in (4, 8):
            yield (f"{TYPES[name]}, one pass over {m} against our own passes over two, 64 MiB", 1.6,
                   rows.get(f"pairwise/{name}/m{m}/64MiB/t1"), None)
        row = rows.get(f"memory/{name}/m8/64MiB/t1")
        yield f"{TYPES[name]}, m = 8, 64 MiB, one thread: Gbit/s", 200, row and row["consumed"] * 8e-9, None


def promises(rows):
    yield "| promise | at least | measured | quartiles | memory bound | |"
    yield "|---|---|---|---|---|---|"
    for what, least, row, bound in targets(rows):
        if row is None:
            yield f"| {what} | {least} | – | | | not measured |"
            continue
        measured = row["ratio"] if isinstance(row, dict) else row
        quartiles = f"{row['low']:.2f} – {row['high']:.2f}" if isinstance(row, dict) else ""
        possible = f"{bound['ratio']:.2f}" if bound else ""
        # Compare before rounding: 0.895 must not pass as 0.90.
        verdict = "kept" if measured >= least else "**missed**"
        if verdict != "kept" and bound and bound["ratio"] < least:
            verdict += ": the bound is below it"
        digits = 3 if least == 1.0 else 2  # a limit of 1.0 needs three digits, because a hundredth decides
        yield f"| {what} | {least} | {measured:.{digits}f} | {quartiles} | {possible} | {verdict} |"


def main():
    context, rows = read(sys.argv[1:-1])
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True).stdout.strip()
    load = context.get("load_avg", ["?"])[0]
    with open(sys.argv[-1], "w") as out:
        print(f"""# cpu_reduce: sum

Written by `make bench`; do not edit. {cpu()}, {context['num_cpus']} CPUs, load {load} at the start, kernels
"{context.get('kernels', '?')}", after commit {commit}.

Each cell has the rate of bps in GB/s. In brackets is the ratio of bps's rate to the rate of a reference; a ratio above
1 means that bps is faster. The rate counts the bytes of all sources. It is the rate that the fastest tenth of bps's
runs reached or exceeded. The sizes in the tables are the bytes of each source.

How measured: the benchmark runs bps and the reference alternately, on a machine with no other load. One run of bps and
one run of the reference form a pair. Each run makes the same number of calls, chosen so that a run of bps takes about
0.2 ms; a run makes at least one call. The ratio in a cell is the median of 301 pairs for sizes up to 1 MiB and of 61
pairs for 64 MiB, or of 15 pairs if the reference is slow at 64 MiB. The last table also has the quartiles.
Runs with one thread are timed by the CPU time of the thread, runs with two threads by wall time.

In the comparison with the memory bound, bps and the reference write results over 4 MiB with stores that bypass the
caches. A virtual machine shares the memory bandwidth of its host with other machines, which can change a ratio. If a
promise is missed, judge it by several runs, and by the row that compares a loop with itself.

## Against the memory bound
The reference reads m sources and writes one result, without arithmetic.
""", file=out)
        print(*matrix(rows), sep="\n", file=out)
        print("\n## dst += src, one thread, against other implementations\n"
              "`plain` is the obvious loop, compiled with `-O3 -march=native`. For f16 it uses the compiler's "
              "`_Float16`. For bf16 it\n"
              "converts by shifts, rounds to nearest even and keeps NaN; GCC turns this loop into vector code. "
              "`Open MPI` is\n"
              "MPI_Reduce_local. `software` decodes float16 case by case in plain C. The code of the memory bound "
              "reads both\n"
              "buffers and writes one, without arithmetic. The ratio of the memory bound is about the highest that "
              "any code can reach.\n", file=out)
        print(*baselines(rows), sep="\n", file=out)
        print("\n## One pass over m sources against a copy and m - 1 plain passes, one thread\n", file=out)
        print(*passes(rows), sep="\n", file=out)
        print("\n## One pass over m sources against m - 1 of our own passes over two, one thread\n", file=out)
        print(*pairwise(rows), sep="\n", file=out)
        print("\n## What was promised\n", file=out)
        print(*promises(rows), sep="\n", file=out)


main()
