"""Draws the results of ddp_bench with matplotlib. Usage: chart.py RESULTS.json FILE.png|FILE.svg

For every option that has several values, a part of the figure has the time of an iteration over this option. Without
such options the figure has one bar for each backend: computation and exposed communication."""
import json
import sys

import matplotlib

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

AXES = {"bucket_mb": "bucket (MiB)", "accumulate": "batches between two all-reduces", "groups": "process groups"}
COLOURS = ("#777777", "#d62728", "#1f77b4", "#2ca02c", "#9467bd", "#ff7f0e", "#8c564b", "#e377c2")


def label(row):
    return f"bps, k = {row['k']}" if row["backend"] == "bps" else row["backend"].capitalize()


def values(rows, name):
    return list(dict.fromkeys(row["case"][name] for row in rows))


def draw_curve(axes, rows, name):
    """Time over one option; the other options have their first value."""
    others = {other: values(rows, other)[0] for other in AXES if other != name}
    rows = [row for row in rows if all(row["case"][other] == value for other, value in others.items())]
    marks = values(rows, name)
    for colour, what in zip(COLOURS, dict.fromkeys(map(label, rows))):
        mine = [row for row in rows if label(row) == what]
        x = [marks.index(row["case"][name]) for row in mine]
        y = [1e3 * row["median"]["iteration"] for row in mine]
        bars = [[1e3 * (row["median"]["iteration"] - row["least"]) for row in mine],
                [1e3 * (row["most"] - row["median"]["iteration"]) for row in mine]]
        axes.errorbar(x, y, bars, color=colour, label=what, marker="o", capsize=3, linewidth=1.5)
    axes.set_xticks(range(len(marks)), [f"{mark:g}" for mark in marks])
    axes.set_xlabel(AXES[name])
    axes.set_ylabel("time per batch (ms)")
    axes.set_ylim(bottom=0)
    axes.grid(axis="y", alpha=0.3)
    axes.legend()


def draw_bars(axes, rows):
    for place, row in enumerate(rows):
        compute = 1e3 * row["median"]["compute"]
        whole = 1e3 * row["median"]["iteration"]
        spread = [[whole - 1e3 * row["least"]], [1e3 * row["most"] - whole]]
        axes.bar(place, compute, color="#bbbbbb", label=None if place else "computation")
        axes.bar(place, max(0, whole - compute), bottom=min(compute, whole), color="#1f77b4",
                 label=None if place else "exposed communication")
        axes.errorbar(place, whole, spread, color="black", capsize=4)
        if row["speed_up"]:
            axes.annotate(f"{row['speed_up']:.2f} ×", (place, 0), xytext=(0, 6), textcoords="offset points", ha="center")
    axes.set_xticks(range(len(rows)), [label(row) for row in rows])
    axes.set_ylabel("time per batch (ms)")
    axes.margins(y=0.15)
    axes.legend()


def main():
    with open(sys.argv[1]) as file:
        results = json.load(file)
    rows = results["rows"]
    curves = [name for name in AXES if len(values(rows, name)) > 1]
    count = max(1, len(curves))
    figure, parts = plt.subplots(1, count, figsize=(6.4 * count, 4.6), squeeze=False, layout="constrained")
    for axes, name in zip(parts[0], curves):
        draw_curve(axes, rows, name)
    if not curves:
        draw_bars(parts[0][0], rows)
    figure.suptitle(f"DistributedDataParallel, {results['model']} of {rows[0]['parameter_bytes'] / 1e6:.0f} MB, "
                    f"{results['workers']} workers at {results['rate'] / 1e6:g} Mbit/s")
    figure.savefig(sys.argv[2], dpi=130)


if __name__ == "__main__":
    main()
