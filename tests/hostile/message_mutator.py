"""Relays a connection between two processes of a job, holds the key, and changes one message.

    message_mutator.py hub HOST:PORT KEY_FILE SEED SECONDS       between a rank and its hub (BPS_ROOT=HOST:PORT)
    message_mutator.py server HOST:PORT KEY_FILE SEED SECONDS    between a hub and a server

SEED selects the message, by its type and the number of earlier messages of that type, and the change: the message is
left out, repeated, truncated or extended, or has other bytes, another type or other counts. Prints "listening on
HOST:PORT", and "did ..." after the change. Neither end may crash or wait forever.
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


def other_bytes(payload, rng):
    out = bytearray(payload or b"\0")
    for _ in range(rng.choice([1, 1, 4, 32])):
        out[rng.randrange(len(out))] = rng.choice([0, 1, 0x7F, 0x80, 0xFF, rng.randrange(256)])
    return bytes(out)


def other_count(payload, rng):
    """Replaces some number of four bytes, as lengths and counts are."""
    out = bytearray(payload.ljust(4, b"\0"))
    at = rng.randrange(len(out) - 3)
    struct.pack_into("<I", out, at, rng.choice([0, 1, 2, 1000, 1 << 16, 1 << 20, (1 << 31) - 1, (1 << 32) - 1]))
    return bytes(out)


def other_blobs(payload, rng):
    """Changes the blobs of a control operation's result: none, fewer, more, or other sizes."""
    kind, number, count = struct.unpack_from("<BII", payload)
    blobs, at = [], 9
    for _ in range(count):
        size = struct.unpack_from("<I", payload, at)[0]
        blobs.append(payload[at + 4:at + 4 + size])
        at += 4 + size
    how = rng.randrange(5)
    if how == 0:
        blobs = []
    elif how == 1:
        blobs = blobs[:-1]
    elif how == 2:
        blobs.append(b"x")
    elif blobs:
        which = rng.randrange(len(blobs))
        blobs[which] = b"" if how == 3 else other_bytes(blobs[which], rng) + bytes(rng.randrange(300))
    return wire.control_op_result(kind, number, blobs)


def mutated(kind, payload, rng):
    """Returns the name of a random change and the messages to send instead of this one."""
    if kind == Type.CONTROL_OP_RESULT and rng.random() < 0.5:
        return "blobs", [(kind, other_blobs(payload, rng))]
    how = rng.choice(["left out", "twice", "short", "long", "bytes", "bytes", "count", "count", "type", "empty", "flood"])
    changed = {
        "left out": [],
        "twice": [(kind, payload)] * 2,
        "short": [(kind, payload[:rng.randrange(len(payload) + 1)])],
        "long": [(kind, payload + bytes(rng.choice([1, 4, 5000])))],
        "bytes": [(kind, other_bytes(payload, rng))],
        "count": [(kind, other_count(payload, rng))],
        "type": [(rng.randrange(0, 30), payload)],
        "empty": [(kind, b"")],
        "flood": [(kind, payload)] * 300,
    }
    return how, changed[how]


class Mutator:
    def __init__(self, what, seed):
        self.rng = random.Random(seed)
        self.direction, self.kind = self.rng.choice(CHOICES[what])
        self.before = self.rng.choice([0, 0, 1, 2, 5]) if "CONTROL_OP" in self.kind.name else 0
        self.lock = threading.Lock()

    def replacement(self, kind, payload, direction):
        """Returns the messages to send instead of this one."""
        with self.lock:
            if (direction, kind) != (self.direction, self.kind):
                return [(kind, payload)]
            self.before -= 1
            if self.before != -1:
                return [(kind, payload)]
            how, messages = mutated(kind, payload, self.rng)
            print(f"did {how} to {kind.name} {'up' if direction == UP else 'down'}", flush=True)
            return messages

    def pump(self, source, sink, direction):
        try:
            while True:
                kind, payload = source.receive()
                for message in self.replacement(kind, payload, direction):
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
            # The hub chooses the job's id and sends it to its ranks and to the servers.
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
mutator = Mutator(sys.argv[1], int(sys.argv[4]))
listener = socket.create_server(("127.0.0.1", 0))
signal.alarm(int(sys.argv[5]))
print(f"listening on 127.0.0.1:{listener.getsockname()[1]}", flush=True)
while True:
    threading.Thread(target=mutator.serve, args=(listener.accept()[0],), daemon=True).start()
