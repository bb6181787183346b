#!/usr/bin/env python3
"""Facts in the documents that follow from the sources. Usage: documented_facts.py BPS-TOPO

- Every heading of docs/troubleshooting.md between backquotes is a message of the sources; "…" stands for a placeholder.
- The tables of speed-ups and prices in README.md and docs/cluster.md are those of `bps-topo plan`."""
import functools
import glob
import json
import re
import subprocess
import sys

errors = []


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def messages():
    """Returns all string literals, with adjacent ones joined and "…" in place of placeholders."""
    found = set()
    for folder in "src", "net_plugin", "tools", "perf":
        for path in glob.glob(f"{folder}/**/*.cc", recursive=True) + glob.glob(f"{folder}/**/*.h", recursive=True):
            for literal in re.finditer(r'"(?:[^"\\\n]|\\.)*"(?:\s*"(?:[^"\\\n]|\\.)*")*', read(path)):
                text = "".join(re.findall(r'"((?:[^"\\\n]|\\.)*)"', literal[0]))
                found.add(re.sub(r"\{[^{}]*\}", "…", text.replace('\\"', '"')))
    return "\n".join(found)


def check_headings(page):
    known, headings = messages(), re.findall(r"^### (.*)$", read(page), re.M)
    for heading in headings:
        text = re.match(r"`([^`]+)`$", heading)
        pattern = ".*".join(re.escape(part) for part in text[1].split("…")) if text else None
        if pattern is None or len(text[1].replace("…", "").strip()) < 12 or not re.search(pattern, known):
            errors.append(f"{page}: no message of the sources matches the heading {heading}")
    if not headings:
        errors.append(f"{page}: has no headings")


@functools.lru_cache(maxsize=None)
def speed_up(n, k):
    run = subprocess.run([sys.argv[1], "plan", "--json", "--topo", "cpu[nic]", "--workers", str(n), "--servers", str(k)],
                         capture_output=True, text=True, check=True)
    return json.loads(run.stdout)["speed_up"]


def check_rows(page, header, expected):
    """Compares the rows of the table below `header` with what expected(cells of a row) returns."""
    table = read(page).partition(header + "\n")[2].partition("\n\n")[0].splitlines()[1:]
    for line in table:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if cells != expected(cells):
            errors.append(f"{page}: {line} must be | {' | '.join(expected(cells))} |")
    if not table:
        errors.append(f"{page}: has no table {header}")


def rounded(value, like):
    """Formats a value with as many decimals as `like` has."""
    return f"{value + 1e-9:.{len(like.partition('.')[2])}f}"


def factors(cells):
    n = int(cells[0])
    return cells[:1] + [rounded(speed_up(n, k), cell) for cell, k in zip(cells[1:], (0, 1, 2, n // 2, n))]


def step(n, k, c):
    """The time of a step with k servers, as a part of its time without servers."""
    return 1 - c + c / speed_up(n, k)


def percent(value):
    return f"{100 * value:.0f} %"


def prices(cells):
    n, k = int(cells[0]), int(cells[1])
    return cells[:2] + [rounded(speed_up(n, k), cells[2])] + [
        percent(n * (1 - step(n, k, c)) / (k * step(n, k, c))) for c in (0.2, 0.4, 0.6)]


def one_more(cells):
    n, k = int(cells[0]), int(cells[1])
    now, then = step(n, k, 0.4), step(n, k + 1, 0.4)
    return cells[:2] + [rounded(speed_up(n, k + 1) / speed_up(n, k), cells[2]),
                        percent(n * (now - then) / ((k + 1) * then - k * now))]


check_headings("docs/troubleshooting.md")
check_rows("README.md", "| n \\ k | 0 | 1 | 2 | n/2 | n |", factors)
check_rows("docs/cluster.md", "| n | k | s | c = 0.2 | c = 0.4 | c = 0.6 |", prices)
check_rows("docs/cluster.md", "| n | servers now (k) | one more | price, c = 0.4 |", one_more)
for error in errors:
    print(error)
sys.exit(1 if errors else 0)
