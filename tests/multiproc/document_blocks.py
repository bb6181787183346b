"""Finds the code blocks of a page and checks their text without running them.

A block is fenced and names its language. HTML comments of the form <!-- test: ... --> above a block of commands say how
documented_commands.py runs it; STEERING lists the forms."""
import ast
import glob
import json
import os
import re
import shlex
import subprocess

# Blocks of these kinds are not run. Every other check applies to them.
REASONS = ("several machines", "a GPU", "installs packages", "root", "takes minutes", "other software")
STEERING = ("needs PROGRAM, ...: skipped if a program is missing (or PyTorch); on HOST, ...: keeps running in the "
            "background on each of these machines; new shell: begins without the variables and servers of earlier blocks; or, not "
            "run: " + ", ".join(REASONS))
LANGUAGES = ("sh", "text", "python", "json", "yaml", "c", "c++", "cmake", "ini", "dockerfile")
# Variables of the tests, the build and the packages, which are no settings of the library.
OTHER_VARIABLES = re.compile(r"BPS_(TEST_\w+|HOME|TORCH_PYTHON|[A-Z]*VERSION\w*|DISABLED?|SUCCESS)$")
LAUNCHERS = ("mpirun", "mpiexec", "srun", "torchrun", "ssh", "bps-run")
WRAPPERS = ("sudo", "env", "exec", "time", "nohup", "setsid", "if", "then", "else", "elif", "while", "until", "do", "!", "{")
OPERATOR = re.compile(r"[;&|()<>]+$")
ASSIGNMENT = re.compile(r"([A-Za-z_]\w*)\+?=")


class Block:
    def __init__(self, page, line, language, text, steering):
        self.page, self.line, self.language, self.text = page, line, language, text
        self.needs, self.hosts, self.reason, self.new_shell = [], [], None, False
        for form in steering:
            if form.startswith("needs "):
                self.needs += [name.strip() for name in form[6:].split(",")]
            elif form.startswith("on "):
                self.hosts += [name.strip() for name in form[3:].split(",")]
            elif form == "new shell":
                self.new_shell = True
            elif form in REASONS:
                self.reason = form
            else:
                raise ValueError(f"{self.place()}: <!-- test: {form} --> is none of: {STEERING}")

    def place(self):
        return f"{self.page}:{self.line}"


def blocks_of_page(page, text):
    """Returns the fenced blocks, and the errors: blocks without a check."""
    blocks, errors, steering, above, fence = [], [], [], "", None
    for number, line in enumerate(text.splitlines(), 1):
        if fence is not None:
            if line.strip() == "```":
                try:
                    blocks.append(Block(page, fence[0], fence[1], "\n".join(fence[3]) + "\n", steering))
                except ValueError as error:
                    errors.append(str(error))
                fence, steering = None, []
            else:
                fence[3].append(line[fence[2]:] if line[:fence[2]].isspace() else line)
            above = ""
            continue
        opening = re.match(r"( *)```(.*)$", line)
        comment = re.match(r" *<!-- test: (.*) -->$", line)
        if opening:
            fence = (number, opening[2].strip(), len(opening[1]), [])
            if fence[1] not in LANGUAGES:
                errors.append(f"{page}:{number}: a block in \"{fence[1]}\": there are checks for {', '.join(LANGUAGES)}")
        elif comment:
            steering += [form.strip() for form in comment[1].split(";")]
        else:
            if line.strip() and steering:
                errors.append(f"{page}:{number}: the comment <!-- test: {'; '.join(steering)} --> is above no block")
                steering = []
            if line.startswith("    ") and not above.strip() and not re.match(r" *([-*|]|\d+\.) ?", line):
                errors.append(f"{page}:{number}: an indented block: write it as a fenced one, with its language")
        above = line
    if fence is not None:
        errors.append(f"{page}:{fence[0]}: the block does not end")
    return blocks, errors


def blocks_of_source(page, text):
    """The blocks of the first comment of a source file: lines that are further indented than its sentences."""
    blocks, lines, first = [], [], 0
    for number, line in enumerate(text.splitlines() + [""], 1):
        code = re.match(r"(?: \* {3,}|//? {3,}|# {3,}| {2,})(\S.*)$", line)
        if code and not re.match(r'#include|import |"""', line):
            if not lines:
                first = number
            lines.append(code[1])
            continue
        if lines:
            blocks.append(Block(page, first, "sh", "\n".join(lines) + "\n", []))
            lines = []
        if re.match(r" \*/|#include|import |\"\"\"$|apiVersion", line):
            break
    return blocks


def commands(text):
    """Splits a block into complete commands: lines that bash can parse, with continuation lines and here-documents."""
    found, part = [], ""
    for line in text.splitlines(keepends=True):
        if not part and (not line.strip() or line.lstrip().startswith("#")):
            continue
        part += line
        if part.endswith("\\\n"):
            continue
        parsed = subprocess.run(["bash", "-n"], input=part, capture_output=True, text=True)
        if parsed.returncode == 0 and not parsed.stderr:
            found.append(part.rstrip("\n"))
            part = ""
    if part:
        raise ValueError("bash cannot parse: " + part.strip())
    return found


def simple_commands(text):
    """Returns the words of each simple command, without redirections and here-documents."""
    text = re.sub(r"<<-?\s*'?(\w+)'?(.*)\n(?:.*\n)*?\1\n", r"\2\n", text).replace("\\\n", " ")
    found = []
    for line in text.splitlines():
        lexer = shlex.shlex(line, posix=True, punctuation_chars=";&|()<>")
        lexer.whitespace_split = True
        words, skip = [], False
        for word in lexer:
            if OPERATOR.match(word):
                skip = "<" in word or ">" in word
                if not skip and words:
                    found.append(words)
                    words = []
            elif skip:
                skip = False
            else:
                words.append(word)
        if words:
            found.append(words)
    return found


class Checker:
    """Knows the programs with their options, the variables and the files of the tree."""

    def __init__(self, tree, programs):
        self.tree, self.programs, self.usages = tree, programs, {}
        with open(os.path.join(tree, "docs/environment.md"), encoding="utf-8") as file:
            self.variables = set(re.findall(r"^\| `(\w+)`", file.read(), re.M))
        self.targets = set()
        for name in ["Makefile"] + glob.glob(os.path.join(tree, "*/*.mk")):
            with open(os.path.join(tree, name), encoding="utf-8") as file:
                self.targets |= {target for line in re.findall(r"^([a-z][\w -]*):(?!=)", file.read(), re.M)
                                 for target in line.split()}

    def usage(self, *command):
        """Returns the text of --help, and the options in it: their names, and whether a value follows."""
        if command not in self.usages:
            run = subprocess.run([self.path(command[0]), *command[1:], "--help"], capture_output=True, text=True,
                                 timeout=20, cwd=self.tree)
            options = {}
            for line in run.stdout.partition("\nSubcommands:")[0].splitlines():
                # "  -n,--workers UINT   text", "  -f, --stepfactor N   text" or "  -k LIST, --servers LIST   text"
                head = re.match(r" +(-[^ ,]+(?: [A-Z{[][^ ,]*)?(?:, ?-[^ ,]+(?: [A-Z{[][^ ,]*)?)*)", line)
                for name in re.findall(r"(?<![\w-])--?[A-Za-z][\w-]*", head[1] if head else ""):
                    options[name] = bool(re.search(r" [A-Z0-9{[]", head[1])) or bool(re.match(r" 0", line[head.end():]))
            self.usages[command] = run.stdout, options
        return self.usages[command]

    def path(self, name):
        return self.programs[name]

    def program(self, word):
        """Returns the name of the program of bps that `word` starts, or None."""
        name = os.path.basename(word)
        in_path = "/" not in word and name.startswith(("bps-", "net-plugin-"))
        return name if name in self.programs and (in_path or word.startswith(("build/", "perf/", "./"))) else None

    def check_options(self, name, words):
        """Checks the words behind a program. Returns its errors, and the words behind the command that it starts."""
        command = (name,)
        text = self.usage(name)[0]
        # Commands such as `bps-topo plan` have options of their own.
        subcommands = re.findall(r"^([a-z-]+)$", text.partition("\nSubcommands:")[2], re.M)
        if words and words[0] in subcommands:
            command, words = (name, words[0]), words[1:]
        options = {**self.usage(name)[1], **self.usage(*command)[1]}
        errors, value = [], False
        for at, word in enumerate(words):
            if value:
                value = False
            elif word == "--":
                return errors, words[at + 1:]
            elif re.match(r"--?[A-Za-z]", word):
                option, _, given = word.partition("=")
                if option not in options and option[:2] in options and not option.startswith("--"):
                    option, given = option[:2], option[2:]  # -n4
                if option not in options:
                    errors.append(f"{' '.join(command)} has no option {option}")
                value = options.get(option, False) and not given
            elif name == "bps-run":
                return errors, words[at:]
        return errors, []

    def check_command(self, words):
        errors = []
        while words and (ASSIGNMENT.match(words[0]) or words[0] in WRAPPERS):
            words = words[1:]
        if words[:1] == ["timeout"]:
            words = words[2:]
        if not words:
            return errors
        name = self.program(words[0])
        if name:
            errors, rest = self.check_options(name, words[1:])
            return errors + (self.check_command(rest) if rest else [])
        if re.match(r"bps-[a-z-]+$", words[0]):
            errors.append(f"there is no program {words[0]}")
        if words[0] == "make":
            errors += [f"make has no target {word}" for word in words[1:]
                       if re.match(r"[a-z][\w-]*$", word) and word not in self.targets]
        if os.path.basename(words[0]) in LAUNCHERS:
            for at, word in enumerate(words[1:], 1):
                if self.program(word) or re.match(r"bps-[a-z-]+$", word):
                    return errors + self.check_command(words[at:])
        return errors

    def check_shell(self, text):
        errors = []
        for words in simple_commands(text):
            errors += self.check_command(words)
            for word in words:
                if re.match(r"(\./)?(perf|tests|tools|examples|docs|frameworks|packaging)/[\w./-]+$", word) and \
                        not os.path.exists(os.path.join(self.tree, word)):
                    errors.append(f"there is no {word}")
        return errors

    def check_variables(self, text):
        return [f"there is no variable {name}" for name in sorted(set(re.findall(r"\bBPS_[A-Z]\w*", text)))
                if name not in self.variables and not OTHER_VARIABLES.match(name)]

    def check_block(self, block):
        """Returns the errors that the text of the block shows."""
        text, errors = block.text, []
        try:
            if block.language == "sh":
                commands(text)
                errors = self.check_shell(text)
            elif block.language == "text":
                for line in text.splitlines():
                    if line.startswith("$ "):
                        errors += self.check_shell(line[2:])
                    elif self.program(line.split(" ")[0]) and re.search(r" --?[a-z]", line):
                        errors.append(f"a command in a block of text: {line}")
                return errors
            elif block.language == "python":
                ast.parse(text)
            elif block.language == "json":
                json.loads(text)
            elif block.language == "c":
                run = subprocess.run(["cc", "-std=c99", "-fsyntax-only", "-I", os.path.join(self.tree, "include"), "-xc",
                                      "-"], input=text, capture_output=True, text=True)
                errors += run.stderr.splitlines() if run.returncode else []
        except (ValueError, SyntaxError) as error:
            errors.append(str(error))
        return errors + self.check_variables(text)

    def check_prose(self, page, text):
        """Checks the commands in the sentences and tables of a page: `bps-perf --csv`."""
        errors, fenced = [], False
        for number, line in enumerate(text.splitlines(), 1):
            if re.match(r" *```", line):
                fenced = not fenced
            if fenced or line.startswith("<!--"):
                continue
            for span in re.findall(r"`([^`]+)`", line):
                try:
                    words = shlex.split(span)
                except ValueError:
                    continue
                if len(words) > 1 and (self.program(words[0]) or re.match(r"bps-[a-z-]+$", words[0])):
                    errors += [f"{page}:{number}: {error}" for error in self.check_command(words)]
        return errors
