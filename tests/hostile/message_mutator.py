"""Stands between two processes of a job as somebody who holds the key, and changes one message on its way.

    message_mutator.py hub HOST:PORT KEY_FILE SEED SECONDS       between a rank and its hub (BPS_ROOT=HOST:PORT)
    message_mutator.py server HOST:PORT KEY_FILE SEED SECONDS    between a hub and a server

SEED says which message that is, by type and how many of that type come before it, and what becomes of it: it is left out, comes twice, ends early, goes
on, has other bytes, another type or other counts. Prints "listening on HOST:PORT", and "did ..." when it has. What both
ends make of it is theirs to say; neither may crash or wait for ever.
"""
import random
import signal
import socket
import struct
import sys
import threading

import session
import wire
from wire import Type

UP, DOWN = 1, 0  # to the hub or server, and from it
CHOICES = {
    "hub": [(UP, Type.JOIN), (UP, Type.CONTROL_OP_INPUT), (UP, Type.GOODBYE), (DOWN, Type.ROSTER), (DOWN, Type.CONTROL_OP_RESULT),
            (DOWN, Type.GOODBYE)],
    "server": [(UP, Type.OPEN_JOB), (UP, Type.BEGIN), (UP, Type.CONTROL_OP_RESULT), (UP, Type.GOODBYE), (DOWN, Type.OFFER),
               (DOWN, Type.JOB_OPENED), (DOWN, Type.CONTROL_OP_INPUT), (DOWN, Type.GOODBYE)],
}


def other_bytes(payload, dice):
    out = bytearray(payload or b"\0")
    for _ in range(dice.choice([1, 1, 4, 32])):
        out[dice.randrange(len(out))] = dice.choice([0, 1, 0x7F, 0x80, 0xFF, dice.randrange(256)])
    return bytes(out)


def other_count(payload, dice):
    """Somewhere a number of four bytes is another one: lengths and counts are such."""
    out = bytearray(payload.ljust(4, b"\0"))
    at = dice.randrange(len(out) - 3)
    struct.pack_into("<I", out, at, dice.choice([0, 1, 2, 1000, 1 << 16, 1 << 20, (1 << 31) - 1, (1 << 32) - 1]))
    return bytes(out)


def other_blobs(payload, dice):
    """A round's answer with other blobs than it has: none, fewer, more, or other sizes."""
    kind, number, count = struct.unpack_from("<BII", payload)
    blobs, at = [], 9
    for _ in range(count):
        size = struct.unpack_from("<I", payload, at)[0]
        blobs.append(payload[at + 4:at + 4 + size])
        at += 4 + size
    how = dice.randrange(5)
    if how == 0:
        blobs = []
    elif how == 1:
        blobs = blobs[:-1]
    elif how == 2:
        blobs.append(b"x")
    elif blobs:
        which = dice.randrange(len(blobs))
        blobs[which] = b"" if how == 3 else other_bytes(blobs[which], dice) + bytes(dice.randrange(300))
    return wire.round_answer(kind, number, blobs)


def lies(kind, payload, dice):
    """The messages that come in place of this one, and the word for it."""
    if kind == Type.CONTROL_OP_RESULT and dice.random() < 0.5:
        return "blobs", [(kind, other_blobs(payload, dice))]
    how = dice.choice(["left out", "twice", "short", "long", "bytes", "bytes", "count", "count", "type", "empty", "flood"])
    changed = {
        "left out": [],
        "twice": [(kind, payload)] * 2,
        "short": [(kind, payload[:dice.randrange(len(payload) + 1)])],
        "long": [(kind, payload + bytes(dice.choice([1, 4, 5000])))],
        "bytes": [(kind, other_bytes(payload, dice))],
        "count": [(kind, other_count(payload, dice))],
        "type": [(dice.randrange(0, 30), payload)],
        "empty": [(kind, b"")],
        "flood": [(kind, payload)] * 300,
    }
    return how, changed[how]


class Liar:
    def __init__(self, what, seed):
        self.dice = random.Random(seed)
        self.direction, self.kind = self.dice.choice(CHOICES[what])
        self.before = self.dice.choice([0, 0, 1, 2, 5]) if "ROUND" in self.kind.name else 0
        self.lock = threading.Lock()

    def become(self, kind, payload, direction):
        """What is sent in place of a message."""
        with self.lock:
            if (direction, kind) != (self.direction, self.kind):
                return [(kind, payload)]
            self.before -= 1
            if self.before != -1:
                return [(kind, payload)]
            how, messages = lies(kind, payload, self.dice)
            print(f"did {how} to {kind.name} {'up' if direction == UP else 'down'}", flush=True)
            return messages

    def pump(self, source, sink, direction):
        try:
            while True:
                kind, payload = source.receive()
                for message in self.become(kind, payload, direction):
                    sink.send(*message)
        except (OSError, EOFError, ValueError, struct.error):
            for end in (source, sink):
                try:
                    end.socket.shutdown(socket.SHUT_RDWR)
                except OSError:
                    pass

    def serve(self, sock):
        below = session.Session(sock, key)
        try:
            host, port = target.rsplit(":", 1)
            above = session.Session(socket.create_connection((host, int(port)), 10), key)
            # The job's id: a hub gives it to its ranks, and tells it to the servers.
            if purpose == wire.SERVER:
                below.accept()
                above.job = below.job
                above.dial(purpose, target)
            else:
                above.dial(purpose, target)
                below.accept(above.job)
        except (OSError, EOFError):
            sock.close()
            return
        for s in (above, below):
            s.socket.settimeout(None)
        threading.Thread(target=self.pump, args=(above, below, DOWN), daemon=True).start()
        self.pump(below, above, UP)


purpose = wire.SERVER if sys.argv[1] == "server" else wire.JOIN
target = sys.argv[2]
key = session.key_from(sys.argv[3], session.SERVERS if purpose == wire.SERVER else session.RENDEZVOUS)
liar = Liar(sys.argv[1], int(sys.argv[4]))
listener = socket.create_server(("127.0.0.1", 0))
signal.alarm(int(sys.argv[5]))
print(f"listening on 127.0.0.1:{listener.getsockname()[1]}", flush=True)
while True:
    threading.Thread(target=liar.serve, args=(listener.accept()[0],), daemon=True).start()
