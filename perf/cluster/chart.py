"""Draws the bandwidth of an all-reduce over the number of servers: measured points, ideal curve, ring bound.

An SVG picture needs no libraries; a PNG picture needs matplotlib."""
import importlib.util
import math
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 960, 640
LEFT, RIGHT, TOP, BOTTOM = 90, 30, 76, 70
COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
UNIT = "MB/s, bytes of the buffer by time"
RING, IDEAL = "ring all-reduce bound", "ideal"


def can_draw(path):
    return path.endswith(".svg") or importlib.util.find_spec("matplotlib") is not None


def step_for(most, lines=6):
    """A round distance between grid lines."""
    rough = most / lines
    unit = 10 ** math.floor(math.log10(rough))
    return next(unit * factor for factor in (1, 2, 5, 10) if unit * factor >= rough)


def series_name(row):
    for unit, letter in ((1 << 30, "G"), (1 << 20, "M"), (1 << 10, "K")):
        if row["what"].isdigit() and row["bytes"] % unit == 0:
            return f"{row['bytes'] // unit}{letter}"
    return row["what"]


class Data:
    """The curves of a picture, in MB/s."""

    def __init__(self, rows):
        self.title = f"all-reduce of {rows[0]['n']} workers with k servers"
        self.ks = sorted({row["k"] for row in rows})
        first = [row for row in rows if row["what"] == rows[0]["what"]]  # the bounds are equal for all sizes
        self.ring = first[0]["bytes"] / first[0]["ideal_without"] / 1e6
        self.ideal = sorted((row["k"], row["bytes"] / row["ideal"] / 1e6) for row in first)
        self.series = []  # name, colour and points: k, measured, slowest, fastest
        for index, what in enumerate(dict.fromkeys(row["what"] for row in rows)):
            mine = [row for row in rows if row["what"] == what]
            points = [(row["k"], row["algbw"] / 1e6, row["bytes"] / row["most"] / 1e6, row["bytes"] / row["least"] / 1e6)
                      for row in mine]
            self.series.append(("measured " + series_name(mine[0]), COLOURS[index % len(COLOURS)], points))
        measured = [point[3] for _, _, points in self.series for point in points]
        self.top = 1.1 * max([self.ring] + [value for _, value in self.ideal] + measured)


class Svg:
    def __init__(self, data):
        self.data, self.parts = data, []
        # The legend has its lines below the axes.
        self.entries = 2 + len(data.series)
        self.height = HEIGHT + 22 * ((self.entries + 2) // 3)

    def x(self, k, shift=0):
        span = max(1, self.data.ks[-1] - self.data.ks[0])
        return LEFT + 30 + (k - self.data.ks[0]) / span * (WIDTH - LEFT - RIGHT - 60) + shift

    def y(self, value):
        return HEIGHT - BOTTOM - value / self.data.top * (HEIGHT - TOP - BOTTOM)

    def text(self, x, y, words, anchor="start", more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>')

    def line(self, start, end, colour, width=1.0, dash=""):
        self.parts.append(f'<path d="M{start[0]:.1f} {start[1]:.1f}L{end[0]:.1f} {end[1]:.1f}" stroke="{colour}" '
                          f'stroke-width="{width}"' + (f' stroke-dasharray="{dash}"' if dash else "") + "/>")

    def disc(self, x, y, colour):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="5" fill="{colour}"/>')

    def axes(self):
        step = step_for(self.data.top)
        for index in range(int(self.data.top / step) + 1):
            y = self.y(index * step)
            self.line((LEFT, y), (WIDTH - RIGHT, y), "#222" if index == 0 else "#ddd")
            self.text(LEFT - 8, y + 5, f"{index * step:g}", "end")
        # With many numbers of servers, every few of them have a label.
        every = -(-len(self.data.ks) // 20)
        for k in self.data.ks[::every]:
            self.text(self.x(k), HEIGHT - BOTTOM + 20, str(k), "middle")
        self.line((LEFT, TOP), (LEFT, HEIGHT - BOTTOM), "#222")
        self.text(LEFT, 28, self.data.title, more=' font-size="17"')
        self.text(LEFT, TOP - 16, UNIT, more=' fill="#666"')
        self.text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 24, "servers (k)", "middle")

    def curves(self):
        self.line((LEFT, self.y(self.data.ring)), (WIDTH - RIGHT, self.y(self.data.ring)), "#777", 2, "8 6")
        for start, end in zip(self.data.ideal, self.data.ideal[1:]):
            self.line((self.x(start[0]), self.y(start[1])), (self.x(end[0]), self.y(end[1])), "#222", 2)
        for index, (_, colour, points) in enumerate(self.data.series):
            shift = 5 * (index - (len(self.data.series) - 1) / 2)
            for k, measured, slowest, fastest in points:
                self.line((self.x(k, shift), self.y(slowest)), (self.x(k, shift), self.y(fastest)), colour)
                self.disc(self.x(k, shift), self.y(measured), colour)

    def legend(self):
        for index in range(self.entries):
            x, y = LEFT + 280 * (index % 3), HEIGHT + 22 * (index // 3)
            if index < 2:
                self.line((x, y - 5), (x + 30, y - 5), *(("#222", 2), ("#777", 2, "8 6"))[index])
            else:
                self.disc(x + 15, y - 5, self.data.series[index - 2][1])
            self.text(x + 40, y, (IDEAL, RING, *(name for name, _, _ in self.data.series))[index])

    def draw(self):
        self.axes()
        self.curves()
        self.legend()
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {self.height}" width="{WIDTH}" '
                f'height="{self.height}" font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="14" '
                f'fill="#222">\n<rect width="{WIDTH}" height="{self.height}" fill="#fff"/>\n' +
                "\n".join(self.parts) + "\n</svg>\n")


def draw_with_matplotlib(path, data):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    figure, axes = plt.subplots(figsize=(9.6, 6.4), layout="constrained")
    axes.axhline(data.ring, color="#777777", linestyle="--", label=RING)
    axes.plot(*zip(*data.ideal), color="#222222", label=IDEAL)
    for name, colour, points in data.series:
        ks, measured, slowest, fastest = zip(*points)
        bars = [[max(0, value - low) for value, low in zip(measured, slowest)],
                [max(0, high - value) for value, high in zip(measured, fastest)]]
        axes.errorbar(ks, measured, bars, color=colour, fmt="o", capsize=3, label=name)
    axes.set(title=data.title, xlabel="servers (k)", ylabel=UNIT, ylim=(0, data.top))
    axes.set_xticks(data.ks)
    axes.grid(axis="y", alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=130)


def write(path, rows):
    data = Data(rows)
    if not path.endswith(".svg"):
        draw_with_matplotlib(path, data)
        return
    with open(path, "w", encoding="utf-8") as file:
        file.write(Svg(data).draw())
