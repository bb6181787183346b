"""A strict reader of Prometheus' text format (version 0.0.4), which also checks the naming rules of Prometheus."""
import re
import urllib.request

NAME = re.compile(r"[a-z][a-z0-9_]*\Z")
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"(,|\Z)')
UNITS = ("_seconds", "_bytes")


class Wrong(Exception):
    """The page breaks a rule."""


def require(condition, text):
    if not condition:
        raise Wrong(text)


def labels_of(text, line):
    labels, at = {}, 0
    while at < len(text):
        match = LABEL.match(text, at)
        require(match, f"labels: {line}")
        require(match[1] not in labels, f"a label twice: {line}")
        labels[match[1]] = re.sub(r"\\(.)", lambda m: "\n" if m[1] == "n" else m[1], match[2])
        at = match.end()
    require(not text.endswith(","), f"a comma at the end: {line}")
    return labels


def check_name(name, kind):
    require(NAME.match(name), f"name {name}")
    require(name.endswith("_total") == (kind == "counter"), f"{kind} {name}: counters, and only they, end in _total")
    base = name.removesuffix("_total")
    for unit in UNITS:
        require(unit not in base or base.endswith(unit), f"{name}: the unit stands at the end")
    require(not re.search(r"_(ms|us|milliseconds|kb|mb|kilobytes|minutes)(_|\Z)", base), f"{name}: not a base unit")


def parse(text):
    """Returns {name: (type, {labels: value})}."""
    require(text.endswith("\n"), "the last line has no end")
    families, current, helped = {}, None, None
    for line in text.splitlines():
        if line.startswith("# HELP "):
            _, _, helped, words = line.split(" ", 3)
            require(helped not in families, f"two families {helped}")
            require(words.strip() == words and words, f"help of {helped}")
        elif line.startswith("# TYPE "):
            _, _, current, kind = line.split(" ")
            require(current == helped, f"TYPE of {current} does not follow its HELP")
            require(kind in ("counter", "gauge"), f"type {kind} of {current}")
            check_name(current, kind)
            families[current] = (kind, {})
        else:
            match = re.match(r"([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\{(.*)\})? (\S+)\Z", line)
            require(match, f"line: {line}")
            require(match[1] == current, f"{match[1]} stands outside its family")
            require(match[2] != "", f"empty braces: {line}")
            key = tuple(sorted(labels_of(match[2] or "", line).items()))
            kind, samples = families[current]
            require(key not in samples, f"twice: {line}")
            value = float(match[3])
            require(kind != "counter" or value >= 0, f"a counter below 0: {line}")
            samples[key] = value
    for name, (_, samples) in families.items():
        require(len({tuple(k for k, _ in key) for key in samples}) <= 1, f"{name}: samples with different labels")
    return families


def check_later(before, after):
    """The counters of a later page are not smaller. Series of an open job may end with the job."""
    for name, (kind, samples) in before.items():
        require(name in after, f"{name} is gone")
        for key, value in samples.items():
            later = after[name][1].get(key)
            require(later is not None or "job" in dict(key), f"{name}{key} is gone")
            require(kind != "counter" or later is None or later >= value, f"{name}{key}: {value} then {later}")


def fetch(address, path="/metrics"):
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(f"http://{address}{path}", timeout=10) as page:
        return page.read().decode()


def scrape(address):
    return parse(fetch(address))


def value(families, name, **labels):
    return families[name][1][tuple(sorted(labels.items()))]
