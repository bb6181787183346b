"""Network namespaces with their owner in their name, so that the remains of a killed run can be found and removed."""
import contextlib
import ctypes
import glob
import os
import re
import shutil
import signal
import subprocess
import tempfile

PREFIX = "bpsec"  # no other program's namespaces begin with this
RUN = "/run/netns"
CLONE_NEWNET = 0x40000000
LIBC = ctypes.CDLL(None, use_errno=True)


class NotSupported(Exception):
    """This machine cannot make an emulated cluster."""


class CommandFailed(Exception):
    pass


def command(*words, text=None):
    """Runs a command. Raises CommandFailed with the command's output if it fails.

    The command has its own session, so that Ctrl-C in a terminal reaches only this script."""
    try:
        done = subprocess.run(words, input=text, capture_output=True, text=True, start_new_session=True)
    except FileNotFoundError:
        raise CommandFailed(f"there is no command '{words[0]}'") from None
    if done.returncode != 0:
        said = (done.stderr.strip() or f"status {done.returncode}").splitlines()[0]
        raise CommandFailed(f"{' '.join(words)}: {said}")
    return done.stdout


def started(pid):
    """When a process started, in clock ticks: with the pid it is unique. None: no such process."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            fields = file.read().rpartition(")")[2].split()
    except OSError:
        return None
    return None if fields[0] == "Z" else int(fields[19])


def process_tag():
    return f"{PREFIX}-{os.getpid()}-{started(os.getpid())}"


def tag_of(name):
    """The tag in the name of a namespace or directory if its run has ended, else None."""
    match = re.match(rf"({PREFIX}-(\d+)-(\d+))-", name)
    if match is None or started(int(match[2])) == int(match[3]):
        return None
    return match[1]


def names():
    return os.listdir(RUN) if os.path.isdir(RUN) else []


def remove(tag):
    """Ends the processes in the namespaces of a tag, then removes its namespaces and directories."""
    for name in [each for each in names() if each.startswith(tag + "-")]:
        for pid in subprocess.run(["ip", "netns", "pids", name], capture_output=True, text=True).stdout.split():
            with contextlib.suppress(ProcessLookupError):
                os.kill(int(pid), signal.SIGKILL)
        subprocess.run(["ip", "netns", "del", name], capture_output=True, start_new_session=True)
    for folder in glob.glob(os.path.join(tempfile.gettempdir(), tag + "-*")):
        shutil.rmtree(folder, ignore_errors=True)


def remove_stale():
    """Removes the remains of killed runs. Returns the number of these runs."""
    here = names() + os.listdir(tempfile.gettempdir())
    stale = {tag for tag in map(tag_of, here) if tag}
    for tag in stale:
        remove(tag)
    return len(stale)


def enter(descriptor):
    if LIBC.setns(descriptor, CLONE_NEWNET) != 0:
        raise NotSupported(f"setns: {os.strerror(ctypes.get_errno())}")


@contextlib.contextmanager
def in_namespace(name):
    """Moves this thread into the namespace: sockets made inside, and /proc/sys/net, belong to the namespace."""
    with open("/proc/self/ns/net") as own, open(f"{RUN}/{name}") as other:
        enter(other.fileno())
        try:
            yield
        finally:
            enter(own.fileno())
