"""Checks values against values.schema.json, with the few words of JSON schema that the file uses; others are errors."""
import re

TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "integer": int, "number": (int, float)}
WORDS = {"$schema", "title", "type", "properties", "required", "additionalProperties", "enum", "minimum", "maximum",
         "minLength", "pattern", "items"}


def schema_errors(value, schema, place=""):
    unknown = set(schema) - WORDS
    if unknown:
        return [f"values.schema.json: this checker does not know {', '.join(sorted(unknown))}"]
    here = place or "the values"
    if "enum" in schema:
        return [] if value in schema["enum"] else [f"{here}: {value!r} is none of {', '.join(schema['enum'])}"]
    kind = schema["type"]
    if not isinstance(value, TYPES[kind]) or isinstance(value, bool) and kind != "boolean":
        return [f"{here}: {value!r} is no {kind}"]
    errors = []
    if "minimum" in schema and not schema["minimum"] <= value <= schema["maximum"]:
        errors.append(f"{here}: {value} is not in {schema['minimum']} to {schema['maximum']}")
    if len(value) < schema.get("minLength", 0) if kind == "string" else False:
        errors.append(f"{here}: is empty")
    if kind == "string" and not re.search(schema.get("pattern", ""), value):
        errors.append(f"{here}: {value!r} does not match {schema['pattern']}")
    if kind == "array":
        for at, part in enumerate(value):
            errors += schema_errors(part, schema["items"], f"{place}[{at}]")
    if kind == "object":
        errors += [f"{here}: lacks {name}" for name in schema.get("required", []) if name not in value]
        for name, part in value.items():
            path = f"{place}.{name}" if place else name
            known = schema.get("properties", {}).get(name, schema.get("additionalProperties", True))
            if known is False:
                errors.append(f"{path}: there is no such value")
            elif known is not True:
                errors += schema_errors(part, known, path)
    return errors


def differences(values, schema, place=""):
    """The values without a schema, and the schemas without a value in values.yaml."""
    properties = schema.get("properties")
    if properties is None or not isinstance(values, dict):
        return []
    errors = [f"values.schema.json has no {place}{name}" for name in values if name not in properties]
    for name, part in properties.items():
        # Helm gives every chart "global"; the probes may have more fields than values.yaml sets.
        if name in values:
            errors += differences(values[name], part, f"{place}{name}.")
        elif name != "global" and not place.endswith("Probe."):
            errors.append(f"values.yaml has no {place}{name}")
    return errors
