"""Draws the bandwidth of an all-reduce over the number of servers: measured points, ideal curve, ring bound."""
import math

from cluster.raster import Canvas, text_width

WIDTH, HEIGHT = 960, 640
LEFT, RIGHT, TOP, BOTTOM = 110, 40, 60, 90
GREY, LIGHT, BLACK, WHITE = (120, 120, 120), (225, 225, 225), (30, 30, 30), (255, 255, 255)
SERIES = ((31, 119, 180), (214, 39, 40), (44, 160, 44), (148, 103, 189), (255, 127, 14), (23, 190, 207))


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


class Chart:
    def __init__(self, rows):
        self.rows = rows
        self.canvas = Canvas(WIDTH, HEIGHT)
        self.ks = sorted({row["k"] for row in rows})
        values = [row["bytes"] / row["ideal"] for row in rows] + [row["bytes"] / row["least"] for row in rows]
        self.top = 1.15 * max(values) / 1e6

    def x(self, k):
        span = max(1, self.ks[-1] - self.ks[0])
        return LEFT + 30 + round((k - self.ks[0]) / span * (WIDTH - LEFT - RIGHT - 60))

    def y(self, bytes_per_second):
        return HEIGHT - BOTTOM - round(bytes_per_second / 1e6 / self.top * (HEIGHT - TOP - BOTTOM))

    def axes(self, title):
        canvas = self.canvas
        step = step_for(self.top)
        for index in range(int(self.top / step) + 1):
            label, y = f"{index * step:g}", self.y(index * step * 1e6)
            canvas.line((LEFT, y), (WIDTH - RIGHT, y), LIGHT, half=0)
            canvas.text(LEFT - 10 - text_width(label), y - 7, label)
        for k in self.ks:
            canvas.text(self.x(k) - text_width(str(k)) // 2, HEIGHT - BOTTOM + 12, str(k))
        canvas.line((LEFT, TOP), (LEFT, HEIGHT - BOTTOM), BLACK)
        canvas.line((LEFT, HEIGHT - BOTTOM), (WIDTH - RIGHT, HEIGHT - BOTTOM), BLACK)
        canvas.text(LEFT, 20, title)
        canvas.text(LEFT, TOP - 18, "MB/s, bytes of the buffer by time", GREY, 1)
        label = "servers (k)"
        canvas.text((LEFT + WIDTH - RIGHT - text_width(label)) // 2, HEIGHT - 30, label)

    def bounds(self):
        """The ideal curve and the ring bound. They are equal for all sizes, so the first size is used."""
        first = [row for row in self.rows if row["what"] == self.rows[0]["what"]]
        ring = self.y(first[0]["bytes"] / first[0]["ideal_without"])
        self.canvas.line((LEFT, ring), (WIDTH - RIGHT, ring), GREY, half=1, dash=8)
        points = [(self.x(row["k"]), self.y(row["bytes"] / row["ideal"])) for row in first]
        for start, end in zip(points, points[1:]):
            self.canvas.line(start, end, BLACK)

    def points(self, what, colour, shift):
        for row in self.rows:
            if row["what"] != what:
                continue
            x = self.x(row["k"]) + shift
            slowest, fastest = (self.y(row["bytes"] / row[key]) for key in ("most", "least"))
            self.canvas.line((x, slowest), (x, fastest), colour, half=0)
            self.canvas.disc(x, self.y(row["algbw"]), 6, colour)

    def legend(self, entries):
        x, y = WIDTH - RIGHT - 300, HEIGHT - BOTTOM - 24 * len(entries) - 8
        for row in range(y - 8, HEIGHT - BOTTOM - 4):  # clear the background
            self.canvas.line((x - 8, row), (WIDTH - RIGHT, row), WHITE, half=0)
        for label, draw in entries:
            draw(x, y + 7)
            self.canvas.text(x + 44, y, label)
            y += 24

    def draw(self):
        canvas = self.canvas
        self.axes(f"all-reduce of {self.rows[0]['n']} workers with k servers")
        self.bounds()
        entries = [("ideal", lambda x, y: canvas.line((x, y), (x + 30, y), BLACK)),
                   ("ring all-reduce bound", lambda x, y: canvas.line((x, y), (x + 30, y), GREY, dash=8))]
        names = list(dict.fromkeys(row["what"] for row in self.rows))
        for index, what in enumerate(names):
            colour = SERIES[index % len(SERIES)]
            self.points(what, colour, 4 * index - 2 * (len(names) - 1))
            label = "measured " + series_name(next(row for row in self.rows if row["what"] == what))
            entries.append((label, lambda x, y, colour=colour: canvas.disc(x + 15, y, 6, colour)))
        self.legend(entries)
        return canvas.png()


def write(path, rows):
    with open(path, "wb") as file:
        file.write(Chart(rows).draw())
