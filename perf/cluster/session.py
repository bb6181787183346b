"""The life of a run: signals end it, and everything that it made is removed however it ends."""
import os
import signal
import sys
import tempfile

from cluster import namespace
from cluster.processes import Failure

FAILED, SKIPPED = 1, 77


class Interrupted(BaseException):
    pass


ending = []  # the signal that ends the run


def on_interrupt(number, frame):
    if not ending:  # a second signal does not restart the end
        ending.append(number)
        raise Interrupted(number)


def on_signals(handler):
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, handler)


def note(text):
    print("# " + text, flush=True)


def why_unavailable():
    """Why this process may not make namespaces, or None. Some reasons appear only on an attempt."""
    if sys.platform != "linux":
        return "network namespaces need Linux"
    return "making network namespaces needs root" if os.geteuid() != 0 else None


def skip(program, reason):
    print(f"{program}: skipped: {reason}", file=sys.stderr)
    return SKIPPED


def run(program, make, namespaces=True):
    """Runs make(tag, folder), which has run(), failed, processes and write_results(). Returns the exit status.

    Namespaces that carry the tag, and the folder, are removed at the end."""
    reason = why_unavailable() if namespaces else None
    if reason:
        return skip(program, reason)
    tag = namespace.process_tag()
    session = None
    on_signals(on_interrupt)
    try:
        left = namespace.remove_stale()
        if left:
            note(f"removed what {left} killed run(s) had left")
        session = make(tag, tempfile.mkdtemp(prefix=tag + "-"))
        session.run()
        return FAILED if session.failed else 0
    except namespace.NotSupported as unable:
        return skip(program, unable)
    except (namespace.CommandFailed, Failure, TimeoutError) as error:
        print(f"{program}: {error}", file=sys.stderr)
        return FAILED
    except Interrupted as signalled:
        print(f"{program}: {signal.Signals(signalled.args[0]).name}: ended early", file=sys.stderr)
        return 128 + signalled.args[0]
    finally:
        ending.append(None)
        if session is not None:
            session.processes.end()
        namespace.remove(tag)
        if session is not None:
            session.write_results()
