"""Renders the subset of Helm's templates that packaging/helm uses, where helm itself is not installed.

It is strict: what it does not know is an error, also where Helm would print nothing or "<no value>", such as a value that
values.yaml does not have. `used` collects the paths of the values that templates read."""
import base64
import hashlib
import json
import re

import yaml


class TemplateError(Exception):
    pass


class Values(dict):
    """A part of .Values that knows its path."""

    def __init__(self, content, path, used):
        super().__init__(content)
        self.path, self.used = path, used

    def field(self, name):
        if name not in self:
            raise TemplateError(f"values.yaml has no {'.'.join(self.path + (name,))}")
        value, path = self[name], self.path + (name,)
        if isinstance(value, dict):
            return Values(value, path, self.used)
        self.used.add(path)
        return value


def plain(value):
    """Marks all parts of a value as used. Numbers of values are floats in Helm; those without a fraction become ints."""
    if isinstance(value, Values):
        value.used.add(value.path)
    if isinstance(value, dict):
        return {key: plain(part) for key, part in value.items()}
    if isinstance(value, list):
        return [plain(part) for part in value]
    return int(value) if isinstance(value, float) and value == int(value) else value


def text_of(value):
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (int, float)):
        return str(plain(value))
    if not isinstance(value, str):
        raise TemplateError(f"prints a {type(value).__name__}: {value}")
    return value


def formatted(pattern, *values):
    parts = re.split(r"(%.)", pattern)
    left = list(values)
    for at in range(1, len(parts), 2):
        if not left:
            raise TemplateError(f"printf {pattern}: too few values")
        value = left.pop(0)
        good = {"%s": isinstance(value, str), "%d": type(value) is int}.get(parts[at])
        if not good:
            raise TemplateError(f"printf {pattern}: {parts[at]} with {value!r}")
        parts[at] = str(value)
    if left:
        raise TemplateError(f"printf {pattern}: too many values")
    return "".join(parts)


def required(message, value):
    if value is None or value == "":
        raise TemplateError(message)
    return value


def failed(message):
    raise TemplateError(message)


def indented(spaces, text):
    return "\n".join(" " * spaces + line for line in text.split("\n"))


def same_type(a, b):
    if type(a) is not type(b):
        raise TemplateError(f"compares {a!r} with {b!r}")
    return a, b


def to_int(value):
    if isinstance(value, bool) or not isinstance(value, (int, float)) or value != int(value):
        raise TemplateError(f"int {value!r}")
    return int(value)


# Name: function and the types of its arguments ("..." repeats the last one).
FUNCTIONS = {
    "quote": (lambda value: json.dumps(text_of(value), ensure_ascii=False), [object]),
    "toYaml": (lambda value: yaml.safe_dump(plain(value), default_flow_style=False).rstrip("\n").removesuffix("\n..."), [object]),
    "nindent": (lambda spaces, text: "\n" + indented(spaces, text), [int, str]),
    "trunc": (lambda length, text: text[:length], [int, str]),
    "trimSuffix": (lambda suffix, text: text.removesuffix(suffix), [str, str]),
    "contains": (lambda part, text: part in text, [str, str]),
    "default": (lambda other, value: value if value else other, [object, object]),
    "required": (required, [str, object]),
    "fail": (failed, [str]),
    "printf": (formatted, [str, object, "..."]),
    "int": (to_int, [object]),
    "list": (lambda *values: list(values), [object, "..."]),
    "until": (lambda count: list(range(count)), [int]),
    "b64enc": (lambda text: base64.b64encode(text.encode()).decode(), [str]),
    "sha256sum": (lambda text: hashlib.sha256(text.encode()).hexdigest(), [str]),
    "eq": (lambda a, b: a == b, [object, object]),
    "ne": (lambda a, b: a != b, [object, object]),
    "gt": (lambda a, b: a > b, [object, object]),
    "ge": (lambda a, b: a >= b, [object, object]),
    "le": (lambda a, b: a <= b, [object, object]),
}
TOKEN = re.compile(r'\s*("(?:[^"\\]|\\.)*"|:=|[|(),]|\$?[A-Za-z_][\w]*(?:\.\w+)*|\$(?:\.\w+)*|\.(?:\w+(?:\.\w+)*)?|\d+)')


def tokens_of(action):
    found, at = [], 0
    action = action.rstrip()
    while at < len(action):
        match = TOKEN.match(action, at)
        if not match:
            raise TemplateError(f"cannot read: {action[at:]}")
        found.append(match[1])
        at = match.end()
    return found


def parse(text):
    """Returns the nodes of a file: ("text", text), ("action", tokens) or (keyword, tokens, body, other body)."""
    parts = re.split(r"(\{\{-?(?:[^\"}]|\"(?:[^\"\\]|\\.)*\")*?-?\}\})", text)
    root = []
    stack = [("file", [], root, root)]
    for at, part in enumerate(parts):
        if at % 2 == 0:
            if at > 0 and parts[at - 1].endswith("-}}"):
                part = part.lstrip(" \t\r\n")
            if at + 1 < len(parts) and parts[at + 1].startswith("{{-"):
                part = part.rstrip(" \t\r\n")
            stack[-1][3].append(("text", part))
            continue
        tokens = tokens_of(part[2:-2].removeprefix("-").removesuffix("-").strip())
        keyword = tokens[0] if tokens else ""
        if keyword in ("if", "with", "range", "define"):
            node = (keyword, tokens[1:], [], [])
            stack[-1][3].append(node)
            stack.append((keyword, None, None, node[2], node, 1))
        elif keyword == "else":
            opened = stack.pop()
            if opened[0] not in ("if", "with"):
                raise TemplateError("else without if")
            stack.append(("else", None, None, opened[4][3], opened[4], opened[5]))
            if tokens[1:2] == ["if"]:
                node = ("if", tokens[2:], [], [])
                opened[4][3].append(node)
                stack.pop()
                stack.append(("if", None, None, node[2], node, 1))
            elif tokens[1:]:
                raise TemplateError(f"else {tokens[1:]}")
        elif keyword == "end":
            if len(stack) == 1 or tokens[1:]:
                raise TemplateError("an end too many")
            stack.pop()
        elif not tokens:
            raise TemplateError("an empty action")
        else:
            stack[-1][3].append(("action", tokens))
    if len(stack) != 1:
        raise TemplateError(f"{stack[-1][0]} without end")
    return root


class Renderer:
    def __init__(self, root):
        self.root, self.defined = root, {}

    def define(self, nodes):
        for node in nodes:
            if node[0] == "define":
                name = json.loads(node[1][0])
                if name in self.defined:
                    raise TemplateError(f"{name} is defined twice")
                self.defined[name] = node[2]

    def render(self, nodes, dot, variables):
        out = []
        for node in nodes:
            if node[0] == "text":
                out.append(node[1])
            elif node[0] == "action":
                if node[1][1:2] == [":="]:
                    variables[node[1][0]] = self.evaluate(node[1][2:], dot, variables)
                else:
                    out.append(text_of(self.evaluate(node[1], dot, variables)))
            elif node[0] in ("if", "with"):
                value = self.evaluate(node[1], dot, variables)
                inner = value if node[0] == "with" and value else dot
                if isinstance(value, Values):
                    value.used.add(value.path)
                out.append(self.render(node[2] if value else node[3], inner, dict(variables)))
            elif node[0] == "range":
                out.append(self.repeat(node, dot, variables))
        return "".join(out)

    def repeat(self, node, dot, variables):
        tokens, names = node[1], []
        if ":=" in tokens:
            at = tokens.index(":=")
            names, tokens = [token for token in tokens[:at] if token != ","], tokens[at + 1:]
        values = self.evaluate(tokens, dot, variables)
        if not isinstance(values, list) or len(names) > 1:
            raise TemplateError(f"range {' '.join(node[1])}: lists and one variable are known")
        return "".join(self.render(node[2], value, {**variables, **({names[0]: value} if names else {})}) for value in values)

    def evaluate(self, tokens, dot, variables):
        value, left = self.pipeline(list(tokens), dot, variables)
        if left:
            raise TemplateError(f"cannot read: {' '.join(left)}")
        return value

    def pipeline(self, tokens, dot, variables):
        piped = []
        while True:
            words = []
            while tokens and tokens[0] not in ("|", ")"):
                words.append(tokens.pop(0))
                if words[-1] == "(":
                    words[-1], tokens = self.pipeline(tokens, dot, variables)
                    words[-1] = ("value", words[-1])
                    if not tokens or tokens.pop(0) != ")":
                        raise TemplateError("( without )")
            piped = [self.command(words, piped, dot, variables)]
            if not tokens or tokens[0] == ")":
                return piped[0], tokens
            tokens.pop(0)

    def command(self, words, piped, dot, variables):
        if not words:
            raise TemplateError("an empty command")
        name = words[0]
        if isinstance(name, str) and re.match(r"[A-Za-z]\w*$", name) and name not in ("true", "false"):
            if name in ("and", "or"):
                for word in words[1:]:
                    value = self.operand(word, dot, variables)
                    if bool(value) == (name == "or"):
                        break
                return value
            return self.call(name, [self.operand(word, dot, variables) for word in words[1:]] + piped)
        if len(words) > 1 or piped:
            raise TemplateError(f"{name} is no function")
        return self.operand(name, dot, variables)

    def call(self, name, values):
        if name == "include":
            if len(values) != 2 or values[0] not in self.defined:
                raise TemplateError(f"include {values[:1]}: not defined")
            return self.render(self.defined[values[0]], values[1], {"$": values[1]})
        if name == "not" and len(values) == 1:
            return not values[0]
        if name not in FUNCTIONS:
            raise TemplateError(f"there is no function {name}")
        function, types = FUNCTIONS[name]
        if types[-1] == "...":
            types = types[:-1] + [types[-2]] * (len(values) - len(types) + 1)
        if len(types) != len(values):
            raise TemplateError(f"{name} takes {len(types)} values, not {len(values)}")
        for wanted, value in zip(types, values):
            if wanted is not object and type(value) is not wanted:
                raise TemplateError(f"{name}: {value!r} is no {wanted.__name__}")
        if name in ("eq", "ne", "gt", "ge", "le"):
            same_type(*values)
        return function(*values)

    def operand(self, word, dot, variables):
        if isinstance(word, tuple):
            return word[1]
        if word[0] == '"':
            return json.loads(word)
        if word.isdigit():
            return int(word)
        if word in ("true", "false"):
            return word == "true"
        if word[0] in ".$":
            head, *fields = word.split(".")
            if head and head not in variables:
                raise TemplateError(f"there is no variable {head}")
            value = variables[head] if head else dot
            for field in filter(None, fields):
                if isinstance(value, Values):
                    value = value.field(field)
                elif isinstance(value, dict) and field in value:
                    value = value[field]
                else:
                    raise TemplateError(f"{word}: there is no {field}")
            return value
        raise TemplateError(f"cannot read: {word}")


def floats(value):
    if isinstance(value, dict):
        return {key: floats(part) for key, part in value.items()}
    if isinstance(value, list):
        return [floats(part) for part in value]
    return float(value) if isinstance(value, int) and not isinstance(value, bool) else value


def render_chart(files, chart, values, release, namespace):
    """`files`: the text of each template by its name. Returns the texts by name, and the paths of the used values."""
    used = set()
    root = {"Values": Values(floats(values), (), used), "Release": {"Name": release, "Namespace": namespace, "Service": "Helm"},
            "Chart": {"Name": chart["name"], "Version": chart["version"], "AppVersion": chart["appVersion"]}}
    renderer, parsed, texts = Renderer(root), {}, {}
    name = ""
    try:
        for name, text in files.items():
            parsed[name] = parse(text)
            renderer.define(parsed[name])
        for name, nodes in parsed.items():
            if not name.startswith("_"):
                texts[name] = renderer.render(nodes, root, {"$": root})
    except TemplateError as error:
        raise TemplateError(f"{name}: {error}") from error
    return texts, used
