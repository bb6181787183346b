#!/usr/bin/env python3
"""Checks a Dockerfile without a builder, see containers.sh.

check_dockerfile.py check DOCKERFILE CONTEXT  prints errors
check_dockerfile.py print DOCKERFILE WORD     prints what the last stage has for ENTRYPOINT, CMD, HEALTHCHECK or ENV, as words
                                              of a shell; for "install", the install commands of the first stage's RUN lines"""
import fnmatch
import json
import os
import re
import shlex
import subprocess
import sys

import yaml

KNOWN = ("ARG", "FROM", "RUN", "WORKDIR", "COPY", "LABEL", "ENV", "USER", "EXPOSE", "STOPSIGNAL", "HEALTHCHECK", "ENTRYPOINT", "CMD")


def instructions(text):
    """Returns (line, word, rest) of each instruction."""
    found, part, first = [], "", 0
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("#") or not line.strip() and not part:
            continue
        first = first if part else number
        part += line
        if part.endswith("\\"):
            part = part[:-1] + " "
            continue
        word, _, rest = part.strip().partition(" ")
        found.append((first, word, rest.strip()))
        part = ""
    return found


def ignored(context):
    with open(os.path.join(context, ".dockerignore"), encoding="utf-8") as file:
        return [line.strip() for line in file if line.strip() and not line.startswith("#")]


class Image:
    """Names the errors with their lines, and keeps the last stage's settings."""

    def __init__(self, path, context=None):
        with open(path, encoding="utf-8") as file:
            self.lines = instructions(file.read())
        self.path, self.context, self.errors = path, context, []
        self.stages, self.last, self.runs = [], {}, []

    def wrong(self, line, text):
        self.errors.append(f"{self.path}:{line}: {text}")

    def read(self):
        for line, word, rest in self.lines:
            if word not in KNOWN:
                self.wrong(line, f"the instruction {word} is not used here; known are {', '.join(KNOWN)}")
            elif word == "FROM":
                match = re.fullmatch(r"(\S+) AS (\w+)", rest)
                if not match or not re.search(r":(?!latest$)[\w.-]+$|^\$\{\w+\}$", match[1]):
                    self.wrong(line, f"FROM {rest}: expected IMAGE:VERSION AS STAGE")
                self.stages.append(match[2] if match else rest)
                self.last, self.first_of_stage = {}, line
            elif word == "COPY":
                self.check_copy(line, rest)
            elif word == "RUN":
                self.runs.append((len(self.stages), rest))
                self.check_run(line, rest)
            elif word in ("CMD", "ENTRYPOINT"):
                self.last[word] = line, self.words(line, word, rest)
            elif word == "HEALTHCHECK":
                self.last[word] = line, self.words(line, word, rest.partition("CMD ")[2])
            elif word == "ENV":
                self.last[word] = line, [*self.last.get(word, (0, []))[1], *shlex.split(rest)]
            else:
                self.last[word] = line, rest
            if word == "ARG" and not self.stages and not re.fullmatch(r"\w+=\S+:(?!latest$)[\w.-]+", rest):
                self.wrong(line, f"ARG {rest}: expected NAME=IMAGE:VERSION")

    def words(self, line, word, rest):
        try:
            found = json.loads(rest)
            if isinstance(found, list) and found and all(isinstance(part, str) for part in found):
                return found
        except ValueError:
            pass
        self.wrong(line, f"{word}: expected a list in JSON, so that signals reach the program: {rest}")
        return []

    def check_copy(self, line, rest):
        words = rest.split()
        if words[0].startswith("--from="):
            stage = words[0].partition("=")[2]
            if stage not in self.stages[:-1]:
                self.wrong(line, f"there is no earlier stage {stage}")
            return
        for source in words[:-1] if self.context else []:
            if not os.path.exists(os.path.join(self.context, source)):
                self.wrong(line, f"there is no {source}")
            for pattern in ignored(self.context):
                if fnmatch.fnmatch(source, pattern):
                    self.wrong(line, f".dockerignore leaves out {source}")

    def check_run(self, line, rest):
        parsed = subprocess.run(["bash", "-n", "-c", rest], capture_output=True, text=True)
        if parsed.returncode != 0:
            self.wrong(line, f"bash cannot parse: {parsed.stderr.strip()}")
        if "apt-get install" in rest:
            for part in "apt-get update", "--no-install-recommends", " -y", "rm -rf /var/lib/apt/lists/*":
                if part not in rest:
                    self.wrong(line, f"apt-get install without {part}")

    def packages(self, stage):
        return {word for at, run in self.runs if at == stage for part in run.split("&&") if "apt-get install" in part
                for word in part.split("install", 1)[1].split() if not word.startswith("-")}

    def check(self):
        for word in "USER", "HEALTHCHECK", "STOPSIGNAL", "EXPOSE", "ENTRYPOINT", "CMD", "ENV", "LABEL":
            if word not in self.last:
                self.wrong(self.first_of_stage, f"the last stage has no {word}")
        if self.errors:
            return
        line, user = self.last["USER"]
        if not re.fullmatch(r"[1-9]\d*:[1-9]\d*", user):
            self.wrong(line, f"USER {user}: expected numbers, and not root, as runAsNonRoot needs them")
        if self.last["STOPSIGNAL"][1] != "SIGTERM":
            self.wrong(self.last["STOPSIGNAL"][0], "bps-server drains on SIGTERM")
        self.check_ports(user)
        for name in ".git", "build":
            if name not in ignored(self.context):
                self.errors.append(f".dockerignore lacks {name}")
        listed = subprocess.run([os.path.join(self.context, "tools/deps.sh"), "--print", "apt"], capture_output=True, text=True).stdout
        needed = {name for name in listed.partition("libhwloc15")[0].split() if name not in ("libgtest-dev", "libgmock-dev")}
        for name in sorted(needed - self.packages(1)):
            self.wrong(self.first_of_stage, f"tools/deps.sh has {name}, which the build stage does not install")

    def check_ports(self, user):
        """EXPOSE and CMD have the ports of the service's settings and of the chart."""
        def text(path):
            with open(os.path.join(self.context, path), encoding="utf-8") as file:
                return file.read()
        values = yaml.safe_load(text("packaging/helm/bps-server/values.yaml"))
        ports = values["ports"]
        data = f"{ports['data']['first']}-{ports['data']['last']}"
        line, exposed = self.last["EXPOSE"]
        if exposed.split() != [str(ports["control"]), data, str(ports["metrics"])]:
            self.wrong(line, f"EXPOSE {exposed}: the chart has {ports['control']} {data} {ports['metrics']}")
        settings = re.search(r"^BPS_SERVER_OPTIONS=(.*)$", text("packaging/systemd/server.conf"), re.M)[1]
        if self.last["CMD"][1] != settings.replace("127.0.0.1", "0.0.0.0").split():
            self.wrong(self.last["CMD"][0], f"CMD: packaging/systemd/server.conf has {settings}")
        if f":{ports['metrics']}/" not in "".join(self.last["HEALTHCHECK"][1]).replace(f"/{ports['metrics']} ", f":{ports['metrics']}/"):
            self.wrong(self.last["HEALTHCHECK"][0], f"HEALTHCHECK does not use port {ports['metrics']}")
        context = values["podSecurityContext"]
        if user != f"{context['runAsUser']}:{context['runAsGroup']}":
            self.wrong(self.last["USER"][0], f"USER {user}: the chart runs as {context['runAsUser']}:{context['runAsGroup']}")


def main():
    command, path, argument = sys.argv[1:]
    image = Image(path, argument if command == "check" else None)
    image.read()
    if command == "check":
        image.check()
        print("\n".join(image.errors))
        sys.exit(1 if image.errors else 0)
    if argument == "install":
        print("\n".join(part.strip() for stage, run in image.runs if stage == 1 for part in run.split("&&")
                        if part.strip().startswith("install ")))
    else:
        print(shlex.join(image.last[argument][1]))


main()
