"""Relays a connection between a hub and a server without the key: forwards the handshake, then attacks the frames.

    relay.py pass|inject|flip|replay|swap|drop HOST:PORT SECONDS

Except for `pass`, the attack happens once on every connection, to a frame of the server some frames after the handshake.
Prints "listening on HOST:PORT", "did MODE" after the attack, and "handles in clear" if a data connection's handle can be
read.
"""
import signal
import socket
import struct
import sys
import threading

import wire
from wire import Type

HANDLE = struct.pack("<I", 0x48737062)  # the first bytes of a handle (net_plugin/tcp/wire.h)
CLEAR = 2   # the server's frames in clear: Challenge and Welcome
TAG = 16
AFTER = 5   # frames from the server before the attack

mode, target = sys.argv[1], sys.argv[2]


def exactly(sock, count):
    data = b""
    while len(data) < count:
        more = sock.recv(count - len(data))
        if not more:
            raise EOFError
        data += more
    return data


def frame(sock, sealed):
    head = exactly(sock, 20)
    return head + exactly(sock, struct.unpack_from("<I", head)[0] + (TAG if sealed else 0))


def forged(like):
    """Returns a failure as a frame of this number. Without the key it has invalid tags."""
    _, _, _, job, number = struct.unpack_from("<IHHQI", like)
    payload = wire.failure(6, "forged by a relay")
    return wire.header(len(payload) + TAG, Type.FAILURE, job, number) + bytes(TAG) + payload + bytes(TAG)


def altered(now, before):
    if mode == "inject":
        return forged(now) + now
    if mode == "flip":
        return now[:-1] + bytes([now[-1] ^ 1])
    if mode == "replay":
        return before + now
    return b""  # drop, and swap, which sends the frame after the next one


def pump(source, sink, from_server):
    before = held = b""
    count = 0
    try:
        while True:
            now = frame(source, count >= CLEAR)
            if HANDLE in now:
                print("handles in clear", flush=True)
            out = now
            if from_server and mode != "pass" and count == AFTER:
                out, held = altered(now, before), now if mode == "swap" else b""
                print("did", mode, flush=True)
            elif held:
                out, held = now + held, b""
            if out:
                sink.sendall(out)
            before, count = now, count + 1
    except (OSError, EOFError):
        for sock in (source, sink):
            try:
                sock.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


host, port = target.rsplit(":", 1)
listener = socket.create_server(("127.0.0.1", 0))
signal.alarm(int(sys.argv[3]))
print(f"listening on 127.0.0.1:{listener.getsockname()[1]}", flush=True)
while True:
    hub = listener.accept()[0]
    server = socket.create_connection((host, int(port)))
    threading.Thread(target=pump, args=(hub, server, False), daemon=True).start()
    threading.Thread(target=pump, args=(server, hub, True), daemon=True).start()
