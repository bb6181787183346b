"""Draws the losses of asynchronous and synchronous trainings as SVG: without a slow rank over the steps, and with one over
the time."""
from xml.sax.saxutils import escape

WIDTH, HEIGHT = 960, 420
LEFT, TOP, BOTTOM, PANEL, GAP = 70, 80, 70, 390, 90
COLOURS = {"none": "#1f77b4", "4": "#2ca02c", "0": "#d62728"}
NAMES = {"none": "asynchronous, no limit", "4": "at most 4 steps ahead", "0": "in step (synchronous)"}
MOST_LOSS = 2.5


class Picture:
    def __init__(self):
        self.parts = []

    def text(self, x, y, words, anchor="start", more=""):
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{more}>{escape(words)}</text>')

    def path(self, points, colour, width):
        places = "L".join(f"{x:.1f} {y:.1f}" for x, y in points)
        self.parts.append(f'<path d="M{places}" fill="none" stroke="{colour}" stroke-width="{width}"/>')

    def panel(self, left, title, label, most, curves):
        """`curves`: colour and points (x, loss)."""
        bottom = HEIGHT - BOTTOM
        def place(x, loss):
            return left + x / most * PANEL, bottom - min(loss, MOST_LOSS) / MOST_LOSS * (bottom - TOP)
        for index in range(6):
            loss = index * MOST_LOSS / 5
            self.path([place(0, loss), place(most, loss)], "#ddd" if index else "#222", 1)
            self.text(left - 8, place(0, loss)[1] + 5, f"{loss:.1f}", "end")
            x = index * most / 5
            self.text(place(x, 0)[0], bottom + 20, f"{x:g}", "middle")
        self.text(left, TOP - 16, title)
        self.text(left + PANEL / 2, bottom + 42, label, "middle")
        for colour, points in curves:
            self.path([place(x, loss) for x, loss in points if x <= most], colour, 2)

    def svg(self):
        return (f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}" '
                'font-family="DejaVu Sans, Helvetica, Arial, sans-serif" font-size="14" fill="#222">\n'
                f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>\n' + "\n".join(self.parts) + "\n</svg>\n")


def round_up(value):
    """The least of 1, 2, 5, 10, ... that is at least `value`."""
    unit = 1e-3
    while True:
        for factor in (1, 2, 5):
            if factor * unit >= value:
                return factor * unit
        unit *= 10


def draw(facts):
    picture = Picture()
    picture.text(LEFT, 28, f"Loss of {facts['workers']} ranks that learn handwritten digits, with {facts['servers']} servers",
                 more=' font-size="17"')
    alone = [case for case in facts["cases"] if case["slow"] < 0]
    slowed = [case for case in facts["cases"] if case["slow"] >= 0]
    picture.panel(LEFT, "equal ranks", "steps of each rank", facts["steps"],
                  [(COLOURS[case["staleness"]], [(step, loss) for _, step, loss in case["points"]]) for case in alone])
    ends = [case["points"][-1][0] for case in slowed]
    picture.panel(LEFT + PANEL + GAP, f"one rank computes {10 * facts['compute']} ms in each step, not {facts['compute']} ms", "seconds", round_up(max(ends) / 2),
                  [(COLOURS[case["staleness"]], [(seconds, loss) for seconds, _, loss in case["points"]])
                   for case in slowed])
    for index, case in enumerate(alone):
        x = LEFT + 280 * index
        picture.path([(x, HEIGHT - 13), (x + 30, HEIGHT - 13)], COLOURS[case["staleness"]], 3)
        picture.text(x + 38, HEIGHT - 8, NAMES[case["staleness"]])
    return picture.svg()
