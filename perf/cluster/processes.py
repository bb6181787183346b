"""Child processes, with or without a namespace. They die with this process, even if it is killed."""
import contextlib
import os
import signal
import subprocess
import time

from cluster.namespace import LIBC

PR_SET_PDEATHSIG = 1
TICKS = os.sysconf("SC_CLK_TCK")


class Failure(Exception):
    """A measurement that did not work: one line, and more in `details`."""

    def __init__(self, message, details=""):
        super().__init__(message)
        self.details = details


def die_with_parent():
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def join_session():
    """Puts all children into one session, like the ranks that a launcher starts on a host. Linux shares CPUs among
    sessions first, so a rank in its own session that yields would not let the other ranks run."""
    die_with_parent()
    os.setpgid(0, 0)


def cpu_seconds(pid):
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def machine_ticks():
    """Ticks of all CPUs: total and busy. Time stolen by other virtual machines of the host counts as busy."""
    with open("/proc/stat") as file:
        fields = [int(field) for field in file.readline().split()[1:9]]
    return sum(fields), sum(fields) - fields[3] - fields[4]


class Child:
    def __init__(self, name, namespace, words, environment, folder):
        self.name = name
        self.out = os.path.join(folder, name + ".out")
        self.err = os.path.join(folder, name + ".err")
        self.cpu = None  # CPU seconds, set when the child has ended
        enter = ["ip", "netns", "exec", namespace] if namespace else []
        with open(self.out, "w") as out, open(self.err, "w") as err:
            self.process = subprocess.Popen(enter + words, env=environment, stdout=out, stderr=err,
                                            stdin=subprocess.DEVNULL,
                                            start_new_session=namespace is not None,
                                            preexec_fn=die_with_parent if namespace else join_session)
        self.pid = self.process.pid

    def status(self):
        """The exit status, or None while it runs."""
        if self.process.returncode is None:
            pid, status, usage = os.wait4(self.pid, os.WNOHANG)
            if pid != 0:
                self.process.returncode = os.waitstatus_to_exitcode(status)
                self.cpu = usage.ru_utime + usage.ru_stime
        return self.process.returncode

    def signal(self, number):
        if self.status() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.pid, number)

    def output_tail(self, lines=5):
        text = ""
        for path in (self.out, self.err):
            with open(path, errors="replace") as file:
                text += "".join(f"    {self.name}: {line}" for line in file.read().splitlines(True)[-lines:])
        return text


class Processes:
    def __init__(self, folder):
        self.folder = folder
        self.children = []

    def start(self, name, namespace, words, environment):
        child = Child(name, namespace, words, environment, self.folder)
        self.children.append(child)
        return child

    def end(self):
        for child in self.children:
            child.signal(signal.SIGKILL)
        for child in self.children:
            wait([child], 10)
        self.children = []


def wait(children, seconds, until_failure=False):
    """Waits until all children have ended, or one has failed if requested. Returns False on timeout."""
    until = time.monotonic() + seconds
    while True:
        states = [child.status() for child in children]
        if None not in states or (until_failure and any(states)):
            return True
        if time.monotonic() > until:
            return False
        time.sleep(0.02)


def wait_for_success(children, seconds):
    """Waits until all children have ended with status 0. Else raises a Failure with the failed child and the output."""
    in_time = wait(children, seconds, until_failure=True)
    failed = next((child for child in children if child.status()), None)
    if failed is not None:
        wait(children, 15)  # gives the other children time to print their reasons too
        raise Failure(f"{failed.name} ended with status {failed.status()}", "".join(c.output_tail(3) for c in children))
    if not in_time:
        names = children[0].name if len(children) == 1 else f"{children[0].name} to {children[-1].name}"
        raise Failure(f"{names}: not ended within {seconds:.0f} s", "".join(c.output_tail(2) for c in children))
