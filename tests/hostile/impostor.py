"""Listens in a server's place without the key, and answers every hub in one of several ways.

    impostor.py refuse|garbage|close|silent|challenge|welcome SECONDS

Prints "listening on HOST:PORT", and on SIGTERM "met N" with the number of connections.
"""
import os
import signal
import socket
import struct
import sys
import threading

import wire
from session import Session
from wire import Type

kept = []


def answer(how, sock):
    kept.append(sock)
    session = Session(sock, os.urandom(32))
    session.receive()  # the Hello
    if how == "refuse":
        session.send(Type.REFUSAL, wire.refusal(1, 6, "authentication failed: says a stranger"))
    elif how == "garbage":
        sock.sendall(os.urandom(5000))
    elif how == "close":
        sock.close()
    elif how != "silent":
        session.send(Type.CHALLENGE, struct.pack("<I", 10000) + os.urandom(64))
        session.receive()  # the Proof
        if how == "welcome":
            session.send(Type.WELCOME, os.urandom(32))


def leave(*_):
    print("met", len(kept), flush=True)
    os._exit(0)


def serve(how, sock):
    try:
        answer(how, sock)
    except (OSError, EOFError):
        pass


listener = socket.create_server(("127.0.0.1", 0))
signal.signal(signal.SIGTERM, leave)
signal.signal(signal.SIGALRM, leave)
signal.alarm(int(sys.argv[2]))
print(f"listening on 127.0.0.1:{listener.getsockname()[1]}", flush=True)
while True:
    threading.Thread(target=serve, args=(sys.argv[1], listener.accept()[0]), daemon=True).start()
