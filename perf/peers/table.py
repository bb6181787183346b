"""The table: bps, each peer's best algorithm, and the ratio of their medians, as Markdown."""
import statistics


def size(count):
    for unit, base in (("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count % base == 0:
            return f"{count // base} {unit}"
    return f"{count} B"


def digits(micros):
    return f"{micros:.1f}" if micros < 100 else f"{micros:.0f}"


def cell(values):
    return f"{digits(statistics.median(values))} [{digits(min(values))}, {digits(max(values))}]"


def best(candidates, name, count):
    """Of a peer's candidates the one with the least median, or None."""
    found = [each for each in candidates if each.name == name and count in each.micros]
    return min(found, key=lambda each: statistics.median(each.micros[count]), default=None)


def ratio(own, other, count):
    return statistics.median(own.micros[count]) / statistics.median(other.micros[count])


def rows(candidates, peers, sizes):
    """One dictionary for each size and number of servers, for people and for JSON."""
    out = []
    for own in [each for each in candidates if each.name == "bps"]:
        for count in [each for each in sizes if each in own.micros]:
            row = {"bytes": count, "k": own.servers, "bps": own.micros[count], "peers": {}}
            for name in peers:
                other = best(candidates, name, count)
                if other is not None:
                    row["peers"][name] = {"algorithm": other.algorithm, "micros": other.micros[count],
                                          "ratio": ratio(own, other, count)}
            out.append(row)
    return out


def lines(table, peers, titles):
    heads = ["", "k", "bps, µs"] + [text for name in peers for text in (f"{titles[name]}, µs", "bps / " + titles[name])]
    yield "| " + " | ".join(heads) + " |"
    yield "|" + "---|" * len(heads)
    for row in table:
        cells = [size(row["bytes"]), str(row["k"]), cell(row["bps"])]
        for name in peers:
            other = row["peers"].get(name)
            cells += [f"{cell(other['micros'])} {other['algorithm']}", f"{other['ratio']:.2f}"] if other else ["-", "-"]
        yield "| " + " | ".join(cells) + " |"
