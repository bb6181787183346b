"""The table: one row for each case and backend."""
import statistics

COLUMNS = (("bucket", 8), ("sync", 4), ("grp", 3), ("backend", 7), ("k", 2), ("iter_ms", 8), ("min-max", 15), ("iter/s", 7),
           ("compute", 8), ("comm", 8), ("exposed", 8), ("hidden%", 7), ("/gloo", 6), ("cpu%own/all", 11))


def head():
    return "# " + " ".join(f"{name:>{width}}" for name, width in COLUMNS)[2:]


def finish(row, base):
    """Adds the derived values. `base`: the row of Gloo for the same case, or None."""
    median = {name: statistics.median(seconds) for name, seconds in row["times"].items()}
    exposed = median["iteration"] - median["compute"]
    row.update(median=median, least=min(row["times"]["iteration"]), most=max(row["times"]["iteration"]),
               exposed=exposed, hidden=1 - exposed / median["communication"])
    if row["backend"] == "gloo":
        base = row
    row["speed_up"] = base["median"]["iteration"] / median["iteration"] if base else None
    return row


def line(row):
    case, median = row["case"], row["median"]
    cells = (f"{case['bucket_mb']:g}", case["accumulate"], case["groups"] or "-", row["backend"],
             row["k"] if row["backend"] == "bps" else "-", f"{1e3 * median['iteration']:.1f}",
             f"{1e3 * row['least']:.1f}-{1e3 * row['most']:.1f}", f"{1 / median['iteration']:.3f}",
             f"{1e3 * median['compute']:.1f}", f"{1e3 * median['communication']:.1f}", f"{1e3 * row['exposed']:.1f}",
             f"{100 * row['hidden']:.0f}", f"{row['speed_up']:.3f}" if row["speed_up"] else "-",
             f"{row['own_busy_percent']:.0f}/{row['machine_busy_percent']:.0f}")
    return " ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, COLUMNS))
