"""metric_names.py PACKAGING ADDRESS SIDE: the dashboards and alert rules use only metrics that exist. SIDE is `server`
or `rank`, and ADDRESS has the metrics of such a process; metrics of the other side are not looked at."""
import glob
import json
import re
import sys

import prometheus as p


def used(text):
    names = set(re.findall(r"\b(?:bps|process)_[a-z_]+\b", text)) - {"bps_server"}
    assert names, f"no metric: {text}"
    return names


packaging, address, side = sys.argv[1:]
names = set(p.scrape(address))
expressions = []
dashboards = sorted(glob.glob(f"{packaging}/grafana/*.json"))
assert len(dashboards) == 2, dashboards
for path in dashboards:
    dashboard = json.load(open(path))
    targets = [t["expr"] for panel in dashboard["panels"] for t in panel.get("targets", [])]
    variables = [v["query"] for v in dashboard["templating"]["list"] if v["type"] == "query"]
    assert len(targets) >= 10 and variables, path
    assert len({panel["id"] for panel in dashboard["panels"]}) == len(dashboard["panels"]), path
    expressions += targets + variables
rules = open(f"{packaging}/prometheus/alerts.yml").read()
alerts = re.findall(r"^ +expr: (.*)$", rules, re.M)
assert len(re.findall(r"- alert: \w+\n", rules)) == len(alerts) >= 5
looked_at = 0
for expression in expressions + alerts:
    own = {name for name in used(expression) if name.startswith("bps_rank_") == (side == "rank")}
    looked_at += len(own)
    assert own <= names, f"{own - names} does not exist: {expression}"
    for depth in "()", "{}", "[]":
        assert expression.count(depth[0]) == expression.count(depth[1]), expression
assert looked_at >= 10, looked_at
