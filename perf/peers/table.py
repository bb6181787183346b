"""The table: bps, each peer's best algorithm, and the ratio of their times, as Markdown."""
import statistics


def size(count):
    for unit, base in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count % base == 0:
            return f"{count // base} {unit}"
    return f"{count} B"


def digits(micros):
    return f"{micros:.1f}" if micros < 100 else f"{micros:.0f}"


def spread(values, form):
    return f"{form(statistics.median(values))} [{form(min(values))}, {form(max(values))}]"


def best(candidates, name, count):
    """The candidate of a peer with the least median, or None."""
    found = [each for each in candidates if each.name == name and count in each.micros]
    return min(found, key=lambda each: statistics.median(each.micros[count]), default=None)


def ratios(own, other, count):
    """The ratio of each turn: the machine's load may change within minutes, but is the same for both within a turn."""
    return [one / two for one, two in zip(own.micros[count], other.micros[count])]


def rows(candidates, peers, sizes):
    """One dictionary per size and number of servers, for the table and for JSON."""
    out = []
    for own in [each for each in candidates if each.name == "bps"]:
        for count in [each for each in sizes if each in own.micros]:
            row = {"bytes": count, "k": own.servers, "bps": own.micros[count], "peers": {}}
            for name in peers:
                other = best(candidates, name, count)
                if other is not None:
                    row["peers"][name] = {"algorithm": other.algorithm, "micros": other.micros[count],
                                          "ratios": ratios(own, other, count)}
            out.append(row)
    return out


def lines(table, peers, titles):
    heads = ["", "k", "bps, µs"] + [text for name in peers for text in (f"{titles[name]}, µs", "bps / " + titles[name])]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in table:
        cells = [size(row["bytes"]), str(row["k"]), spread(row["bps"], digits)]
        for name in peers:
            other = row["peers"].get(name)
            cells += [f"{spread(other['micros'], digits)} {other['algorithm']}",
                      spread(other["ratios"], "{:.2f}".format)] if other else ["-", "-"]
        yield "| " + " | ".join(cells) + " |"
