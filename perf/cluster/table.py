"""The table: one row per size and number of servers."""
import statistics


def finish(row, plan, n, k, base):
    """Adds the derived values to a row. `base`: the row of the same size with k = 0, or None."""
    median = statistics.median(row["seconds"])
    row.update(n=n, k=k, median=median, least=min(row["seconds"]), most=max(row["seconds"]),
               algbw=row["bytes"] / median, ideal=plan.seconds, ideal_without=plan.seconds_without,
               percent=100 * plan.seconds / median, shares=plan.shares, plan_traffic=plan.traffic)
    row["nic_percent"] = [{way: percent(nic[way]["payload"], planned * row["traffic_calls"]) for way in nic}
                          for nic, planned in zip(row["nics"], plan.traffic)]
    if base is None and k == 0:
        base = row
    if base is not None:
        row.update(speed_up=base["median"] / median, ideal_speed_up=base["ideal"] / plan.seconds)
    if "back_to_back" in row:
        row["back_to_back_percent"] = 100 * plan.seconds / row["back_to_back"]
    return row


def percent(value, of):
    return 100 * value / of if of else None


COLUMNS = (("bytes", 12), ("k", 3), ("median_ms", 10), ("min_ms", 10), ("max_ms", 10), ("MB/s", 8), ("ideal_ms", 10),
           ("%ideal", 7), ("%b2b", 6), ("speedup", 8), ("ideal", 6), ("server_cpu_s", 18), ("NIC%plan", 13),
           ("drops", 6), ("cpu%own/all", 11))


def head():
    return "# " + " ".join(f"{name:>{width}}" for name, width in COLUMNS)[2:]


def ratio(row, key):
    return f"{row[key]:.3f}" if key in row else "-"


def span(values, form):
    low, high = format(min(values), form), format(max(values), form)
    return low if low == high else f"{low}-{high}"


def line(row):
    shares = [value for nic in row["nic_percent"] for value in nic.values() if value is not None]
    cpu = row["server_cpu_seconds"]
    cells = (row["what"], row["k"], f"{row['median'] * 1e3:.2f}", f"{row['least'] * 1e3:.2f}",
             f"{row['most'] * 1e3:.2f}", f"{row['algbw'] / 1e6:.2f}", f"{row['ideal'] * 1e3:.2f}",
             f"{row['percent']:.1f}", f"{row['back_to_back_percent']:.1f}" if "back_to_back" in row else "-",
             ratio(row, "speed_up"), ratio(row, "ideal_speed_up"),
             ",".join(f"{value:.2f}" for value in cpu) or "-", span(shares, ".1f"), row["drops"],
             f"{row['own_busy_percent']:.0f}/{row['machine_busy_percent']:.0f}")
    return " ".join(f"{cell:>{width}}" for cell, (_, width) in zip(cells, COLUMNS))
