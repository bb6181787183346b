#!/usr/bin/env python3
"""Renders a chart and checks its objects, see containers.sh.

check_chart.py render CHART USED VALUES...  prints the objects; adds the paths of the values that were read to USED
check_chart.py values CHART USED            each value of values.yaml was read, and has a schema
check_chart.py objects FILE                 checks the objects of a file
check_chart.py same FILE FILE               the pods of the workloads of both files are the same
check_chart.py lost FILE TYPED              all fields of FILE are in TYPED, which kubectl has written
check_chart.py container FILE               prints the container as variables of a shell: args, env, live, ready, grace
If helm is on PATH, `render` also compares what helm renders."""
import glob
import json
import os
import shlex
import shutil
import subprocess
import sys

import yaml

from go_templates import TemplateError, render_chart
from kubernetes import WORKLOADS, check_objects
from values_schema import differences, schema_errors

RELEASE, NAMESPACE = "bps-server", "training"


def read(*path):
    with open(os.path.join(*path), encoding="utf-8") as file:
        return file.read()


class UniqueKeys(yaml.SafeLoader):
    """PyYAML takes the last of two equal keys; Kubernetes refuses them."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep) for key, _ in node.value]
        for key in keys:
            if keys.count(key) > 1:
                raise yaml.YAMLError(f"two keys {key}{node.start_mark}")
        return super().construct_mapping(node, deep)


UniqueKeys.add_constructor(yaml.resolver.BaseResolver.DEFAULT_MAPPING_TAG, lambda loader, node: loader.construct_mapping(node, True))


def documents(text):
    return [item for item in yaml.load_all(text, UniqueKeys) if item is not None]


def merge(values, changes):
    for name, change in changes.items():
        if change is None:
            values.pop(name, None)
        elif isinstance(change, dict) and isinstance(values.get(name), dict):
            merge(values[name], change)
        else:
            values[name] = change
    return values


def validate(values, schema):
    """Both checkers must agree, where jsonschema is installed."""
    errors = schema_errors(values, schema)
    try:
        import jsonschema
    except ImportError:
        return errors
    jsonschema.Draft7Validator.check_schema(schema)
    found = [error.message for error in jsonschema.Draft7Validator(schema).iter_errors(values)]
    if bool(found) != bool(errors):
        sys.exit(f"jsonschema says {found or 'nothing'}, values_schema.py says {errors or 'nothing'}")
    return errors


def compare_with_helm(chart, files, objects):
    options = [word for file in files for word in ("--values", file)]
    for command in (["lint", "--strict", chart], ["template", RELEASE, chart, "--namespace", NAMESPACE]):
        run = subprocess.run(["helm", *command, *options], capture_output=True, text=True)
        if run.returncode != 0:
            sys.exit(f"helm {command[0]}: {run.stdout} {run.stderr}")
    key = lambda item: (item["kind"], item["metadata"]["name"])
    if sorted(documents(run.stdout), key=key) != sorted(objects, key=key):
        sys.exit(f"helm renders other objects:\n{run.stdout}")


def render(chart, used_file, files):
    values = yaml.load(read(chart, "values.yaml"), UniqueKeys)
    for file in files:
        merge(values, yaml.load(read(file), UniqueKeys) or {})
    errors = validate(values, json.loads(read(chart, "values.schema.json")))
    if errors:
        return errors
    templates = {os.path.basename(path): read(path) for path in sorted(glob.glob(os.path.join(chart, "templates", "*")))}
    texts, used = render_chart(templates, yaml.safe_load(read(chart, "Chart.yaml")), values, RELEASE, NAMESPACE)
    with open(used_file, "a", encoding="utf-8") as file:
        file.writelines(".".join(path) + "\n" for path in sorted(used))
    notes = texts.pop("NOTES.txt")
    objects = [item for text in texts.values() for item in documents(text)]
    errors = check_objects(objects)
    if shutil.which("helm") and not errors:
        compare_with_helm(chart, files, objects)
    print(yaml.safe_dump_all(objects), end="")
    print("".join(f"# {line}\n" for line in notes.splitlines()), end="")
    return errors


def workload_of(file):
    return next(item for item in documents(read(file)) if item["kind"] in WORKLOADS)


def other_pod(first, second):
    """Compares the specs of two workloads; their names and labels may differ."""
    parts = [workload_of(file)["spec"] for file in (first, second)]
    parts = [{**part["template"]["spec"], "updateStrategy": part.get("updateStrategy")} for part in parts]
    return [f"{name} is {parts[1].get(name)}, in {first} {parts[0].get(name)}"
            for name in sorted({*parts[0], *parts[1]}) if parts[0].get(name) != parts[1].get(name)]


def lost(value, typed, place):
    if isinstance(value, dict) and isinstance(typed, dict):
        return [error for key, part in value.items() for error in
                (lost(part, typed[key], f"{place}.{key}") if key in typed else [f"{place}.{key}"] if part else [])]
    if isinstance(value, list) and isinstance(typed, list) and len(value) == len(typed):
        return [error for at, part in enumerate(value) for error in lost(part, typed[at], f"{place}[{at}]")]
    return [] if value == typed or place.endswith(".image") else [f"{place}: {value} became {typed}"]


def print_container(file):
    pod = workload_of(file)["spec"]["template"]["spec"]
    container = pod["containers"][0]
    ports = {port["name"]: port["containerPort"] for port in container["ports"]}
    url = lambda probe: "{port}{path}".format(path=probe["httpGet"]["path"], port=ports[probe["httpGet"]["port"]])
    print("args=(" + shlex.join(container["args"]) + ")")
    print("env=(" + shlex.join(f"{entry['name']}={entry['value']}" for entry in container["env"]) + ")")
    print(f"live={url(container['livenessProbe'])} ready={url(container['readinessProbe'])}")
    print(f"grace={pod['terminationGracePeriodSeconds']} user={pod['securityContext']['runAsUser']}")


def unused(value, path, used):
    if ".".join(path) in used:
        return []
    if isinstance(value, dict):
        return [name for key, part in value.items() for name in unused(part, path + (key,), used)]
    return [".".join(path)]


def main():
    command, chart, *rest = sys.argv[1:]
    try:
        if command == "render":
            errors = render(chart, rest[0], rest[1:])
        elif command == "values":
            values = yaml.load(read(chart, "values.yaml"), UniqueKeys)
            errors = differences(values, json.loads(read(chart, "values.schema.json")))
            errors += [f"values.yaml: no template reads {name}" for name in unused(values, (), read(rest[0]).split())]
        elif command == "objects":
            errors = check_objects(documents(read(chart)))
        elif command == "same":
            errors, chart = other_pod(chart, rest[0]), rest[0]
        elif command == "lost":
            errors = lost(workload_of(chart), json.loads(read(rest[0])), "")
        else:
            errors = print_container(chart) or []
    except (TemplateError, yaml.YAMLError) as error:
        errors = [str(error)]
    for error in errors:
        print(f"{chart}: {error}", file=sys.stderr)
    sys.exit(1 if errors else 0)


main()
