#!/usr/bin/env python3
"""Runs the commands of the documents; see documented_commands.sh.

Usage: documented_commands.py TREE BUILD WORK [PAGE...]

All commands of a page run in one shell, in order, in a copy of the tree. The test plays all machines: each has an
interface of its name in this network namespace, and stand-ins for ssh, srun and sudo run their commands here. Without
namespaces (UNSHARED unset) the commands are only checked."""
import glob
import os
import shlex
import shutil
import signal
import subprocess
import sys
import time

from document_blocks import Block, Checker, blocks_of_page, blocks_of_source, commands

BLOCK_SECONDS = float(os.environ.get("BPS_TEST_BLOCK_SECONDS", "60"))
HOSTS = {"worker1": 1, "worker2": 2, "worker3": 3, "worker4": 4, "cpu1": 11, "cpu2": 12}
# How the blocks in the comments of the examples are run: a comment in a source file has no steering of its own.
EXAMPLES = {"examples/all_reduce.c": ["", "several machines"], "examples/all_reduce_nccl.c": [""],
            "examples/train_digits.c": [""], "examples/train_digits_async.cc": [""],
            "examples/train_digits_torch.cc": ["needs PyTorch"], "examples/async.py": ["needs torchrun, bps_torch"],
            "examples/ddp.py": ["needs torchrun, bps_torch", "several machines", "a GPU"],
            "examples/servers.yaml": ["several machines"]}
SSH = """#!/bin/bash
while [ "${1#-}" != "$1" ]; do
  case $1 in -[opi]) shift 2 ;; *) shift ;; esac
done
host=$1; shift
cd "$HOME" && BPS_HOSTID=$host BPS_SOCKET_IFNAME==$host exec setsid -w bash -c "$*"
"""
SRUN = """#!/bin/bash
[ "$1" = -N ] || { echo "srun: this stand-in knows -N only" >&2; exit 2; }
n=$2 pids=() status=0; shift 2
for ((rank = 0; rank < n; rank++)); do
  SLURM_PROCID=$rank SLURM_NTASKS=$n SLURM_LOCALID=0 BPS_HOSTID=worker$((rank + 1)) \\
    BPS_SOCKET_IFNAME==worker$((rank + 1)) "$@" & pids+=($!)
done
for pid in "${pids[@]}"; do wait "$pid" || status=$?; done
exit $status
"""


def log(text):
    print(text, flush=True)


def python_module(name):
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True).returncode == 0


class Place:
    """The machine on which the commands run: folders, stand-ins and interfaces."""

    def __init__(self, tree, build, work):
        self.work, self.copy, self.home = work, os.path.join(work, "tree"), os.path.join(work, "home")
        files = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"], cwd=tree,
                               capture_output=True, text=True).stdout.split("\0")
        for name in filter(None, files):
            source, target = os.path.join(tree, name), os.path.join(self.copy, name)
            if os.path.isfile(source) and not name.startswith("tests/fuzz"):
                os.makedirs(os.path.dirname(target), exist_ok=True)
                shutil.copy2(source, target)
        os.makedirs(self.copy, exist_ok=True)
        os.symlink(os.path.abspath(build), os.path.join(self.copy, "build"))
        os.makedirs(os.path.join(work, "bin"))
        os.makedirs(self.home)
        for name, text in ("ssh", SSH), ("srun", SRUN), ("sudo", '#!/bin/sh\nexec "$@"\n'):
            path = os.path.join(work, "bin", name)
            with open(path, "w", encoding="ascii") as file:
                file.write(text)
            os.chmod(path, 0o755)
        self.environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("BPS_", "NCCL_"))},
            "PATH": os.pathsep.join([os.path.join(os.path.abspath(build), "bin"), os.path.join(work, "bin"),
                                     os.environ["PATH"]]),
            "HOME": self.home, "TMPDIR": work, "BPS_SOCKET_IFNAME": "=worker1", "BPS_HOSTID": "worker1",
            "NCCL_IB_DISABLE": "1", "OMPI_ALLOW_RUN_AS_ROOT": "1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1"}

    def make_hosts(self):
        """Makes an interface and a name for each machine."""
        subprocess.run(["ip", "link", "set", "lo", "up"], check=True)
        names = "127.0.0.1 localhost " + os.uname().nodename + "\n"
        for host, number in HOSTS.items():
            names += f"10.71.0.{number} {host}\n"
            subprocess.run(["ip", "link", "add", host, "type", "veth", "peer", "name", host + "-peer"], check=True)
            subprocess.run(["ip", "address", "add", f"10.71.0.{number}/24", "dev", host], check=True)
            for end in host, host + "-peer":
                subprocess.run(["ip", "link", "set", end, "up"], check=True)
        path = os.path.join(self.work, "hosts")
        with open(path, "w", encoding="ascii") as file:
            file.write(names)
        subprocess.run(["mount", "--bind", path, "/etc/hosts"], check=True)

    def missing(self, program):
        if program == "PyTorch":
            return not python_module("torch")
        if program == "bps_torch":
            return not python_module("bps_torch")
        return shutil.which(program, path=self.environment["PATH"]) is None


def script_of(blocks, work):
    """Returns a script that runs the blocks and notes in the file `at` which one it runs."""
    lines = ["ended() { echo \"$at: status $1 of: $command\"; exit 1; }", "home=$PWD"]
    for block in blocks:
        lines.append(f"at={shlex.quote(block.place())}; echo \"$at\" > {shlex.quote(work)}/at")
        if block.new_shell:
            lines.append("for name in ${!BPS_*} ${!NCCL_*}; do [[ $name =~ ^(BPS_SOCKET_IFNAME|BPS_HOSTID|NCCL_IB_DISABLE)$ ]] "
                         "|| unset \"$name\"; done; cd \"$home\"; for job in $(jobs -p); do pkill -P $job; done; wait")
        for command in commands(block.text):
            lines.append(f"command={shlex.quote(command)}")
            for number, host in enumerate(block.hosts):
                output = f"{shlex.quote(work)}/{block.line}.{number}"
                lines.append(
                    f"(export BPS_HOSTID={host} BPS_SOCKET_IFNAME=={host}; eval \"$command\") < /dev/null > {output} 2>&1 &\n"
                    f"until grep -sq '^listening on' {output}; do kill -0 $! 2>/dev/null || {{ cat {output}; ended ended; }}; "
                    "sleep 0.05; done")
            if not block.hosts:
                lines.append("eval \"$command\" < /dev/null; status=$?; [ $status = 0 ] || ended $status")
    return "\n".join(lines) + "\nexit 0\n"


def run_page(page, blocks, place):
    """Returns an error, or None."""
    output, at = os.path.join(place.work, "output"), os.path.join(place.work, "at")
    with open(at, "w", encoding="ascii"), open(output, "w", encoding="utf-8") as file:
        shell = subprocess.Popen(["bash", "-c", script_of(blocks, place.work)], cwd=place.copy, env=place.environment,
                                 stdin=subprocess.DEVNULL, stdout=file, stderr=subprocess.STDOUT, start_new_session=True)
    current, since, error = "", time.monotonic(), None
    while shell.poll() is None and error is None:
        time.sleep(0.05)
        with open(at, encoding="utf-8") as file:
            now = file.read().strip()
        if now != current:
            current, since = now, time.monotonic()
        if time.monotonic() - since > BLOCK_SECONDS:
            error = f"{current}: has not ended after {BLOCK_SECONDS:g} s"
    try:
        os.killpg(shell.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    shell.wait()
    with open(output, encoding="utf-8", errors="replace") as file:
        lines = file.read().splitlines()
    if error is None and shell.returncode != 0:
        error = next((line for line in reversed(lines) if line.startswith(page + ":")), f"{page}: the shell ended")
    return error and error + "\n" + "\n".join("    " + line for line in lines[-15:])


def read(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def main():
    tree, build, work, *pages = sys.argv[1:]
    pages = pages or sorted(
        os.path.relpath(path, tree) for pattern in ("*.md", "docs/*.md", "examples/*", "frameworks/*/README.md", "perf/*.md",
                                                      "tests/data/*/README.md")
        for path in glob.glob(os.path.join(tree, pattern)) if os.path.isfile(path))
    programs = {os.path.basename(path): path for pattern in (build + "/bin/*", tree + "/perf/*")
                for path in map(os.path.abspath, glob.glob(pattern)) if os.path.isfile(path) and os.access(path, os.X_OK)}
    checker, place, errors, skipped = Checker(tree, programs), None, [], []
    run = parsed = 0
    for page in pages:
        text = read(os.path.join(tree, page))
        if page.endswith(".md"):
            blocks, found = blocks_of_page(page, text)
            found += checker.check_prose(page, text)
        else:
            blocks, found = blocks_of_source(page, text), []
            steering = EXAMPLES.get(page, [])
            if len(steering) != len(blocks):
                found.append(f"{page}: {len(blocks)} blocks of commands, but EXAMPLES in {__file__} says {len(steering)}")
            blocks = [Block(block.page, block.line, "sh", block.text, [form] if form else [])
                      for block, form in zip(blocks, steering)]
        for block in blocks:
            found += [f"{block.place()}: {error}" for error in checker.check_block(block)]
        errors += found
        shell = [block for block in blocks if block.language == "sh"]
        parsed += len(shell)
        if found or "UNSHARED" not in os.environ:
            continue
        if place is None:
            place = Place(tree, build, work)
            place.make_hosts()
        due = []
        for block in shell:
            missing = [program for program in block.needs if place.missing(program)]
            if missing:
                skipped.append(f"{block.place()} needs {', '.join(missing)}")
            elif block.reason is None:
                due.append(block)
        if not due:
            continue
        start = time.monotonic()
        error = run_page(page, due, place)
        log(f"{page}: {len(due)} blocks in {time.monotonic() - start:.1f} s")
        run += len(due)
        if error:
            errors.append(error)
    for reason in skipped:
        log(f"skip: {reason}, which is not on this machine")
    for error in errors:
        log(f"FAILED: {error}")
    log(f"{parsed} blocks of commands checked, {run} of them run, {len(skipped)} skipped, {len(errors)} errors")
    return 1 if errors else 0


sys.exit(main())
