"""Acts as all ranks but rank 0 of a large job. They finish their handshakes while rank 0 is stopped for a moment.

    join_burst.py RANKS HOST:PORT KEY_FILE PID_OF_RANK_0

Then each rank joins and must get the roster. Prints how many do not get it; exits with 1 if any does not.
"""
import os
import signal
import struct
import sys
import socket

import session
import sodium
import wire
from wire import Type


def join(rank, ranks):
    return (struct.pack("<IIIII", rank, ranks, 10000, 1, 100) + wire.blob(f"id{rank}") + wire.blob("host") +
            struct.pack("<dB", 0, 0) + wire.blob("") +  # without a standby address and not in a shrink
            wire.blob("") + struct.pack("<I", 0xFFFFFFFF))  # without a fabric and directly


def gets_roster(rank):
    try:
        while True:
            kind, _ = rank.receive()
            if kind != Type.HEARTBEAT:
                return kind == Type.ROSTER
    except (OSError, EOFError):
        return False


ranks, target, key, pid = int(sys.argv[1]), sys.argv[2], session.key_from(sys.argv[3], session.RENDEZVOUS), int(sys.argv[4])
host, port = target.rsplit(":", 1)
others = []
for _ in range(ranks - 1):
    rank = session.Session(socket.create_connection((host, int(port)), 10), key)
    rank.send(Type.HELLO, wire.hello(wire.JOIN, 10000, os.urandom(32), sodium.x25519(rank.secret), target))
    others.append((rank, rank.expect(Type.CHALLENGE)[36:68]))
os.kill(pid, signal.SIGSTOP)
keys = []
for rank, theirs in others:
    rank.send(Type.PROOF, rank.proof(session.CONNECTING))
    keys.append(rank.session_keys(theirs))
os.kill(pid, signal.SIGCONT)
for (rank, _), both in zip(others, keys):
    rank.expect(Type.WELCOME)
    rank.mine, rank.theirs = both
for number, (rank, _) in enumerate(others, 1):
    try:
        rank.send(Type.JOIN, join(number, ranks))
    except OSError:
        pass
lost = sum(not gets_roster(rank) for rank, _ in others)
print(f"{lost} of {ranks - 1} ranks were kept out")
sys.exit(lost > 0)
