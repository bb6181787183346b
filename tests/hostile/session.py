"""A control connection of a process that holds the key and sends arbitrary frames.

Hub(address, key_file) passes the handshake as the hub of a job of its own. dial() and accept() do the handshake for any
purpose, from either side. send() seals any frame, receive() opens one.
"""
import hashlib
import hmac
import os
import socket
import struct

import sodium
import wire
from wire import Type

CONNECTING, ACCEPTING = 1, 2


SERVERS = "the summation servers"
RENDEZVOUS = "the rendezvous at BPS_ROOT"


def derived(use, secret):
    return hashlib.blake2b(bytes([len(use)]) + use.encode() + secret, digest_size=32).digest()


def key_from(path, use=SERVERS):
    """Returns the key of a file of random bytes, the only form that these programs use."""
    with open(path, "rb") as file:
        return derived(use, derived("key file", file.read()))


class Session:
    """One end of a connection: frames in clear until seal(), sealed afterwards."""

    def __init__(self, sock, key):
        self.socket, self.key = sock, key
        self.job, self.sent, self.received = 0, 0, 0
        self.transcript = bytes(32)
        self.mine = self.theirs = None
        self.secret = os.urandom(32)
        self.inbox = b""

    def _heard(self, frame):
        self.transcript = hashlib.blake2b(self.transcript + frame, digest_size=32).digest()

    def proof(self, side):
        message = wire.blob("bps control handshake 2") + bytes([side]) + wire.blob(self.transcript)
        return hmac.new(self.key, message, hashlib.sha512).digest()[:32]

    def session_keys(self, their_public):
        """Returns the keys of the connecting and of the accepting side. The transcript ends with the Proof."""
        agreed = sodium.x25519(self.secret, their_public)
        both = hashlib.blake2b(b"bps control session 1" + agreed + self.transcript, key=self.key, digest_size=64).digest()
        return both[:32], both[32:]

    def frame(self, kind, payload=b""):
        """Encodes the next frame."""
        number, self.sent = self.sent, self.sent + 1
        if not self.mine:
            frame = wire.header(len(payload), kind, self.job, number) + payload
            self._heard(frame)
            return frame
        head = wire.header(len(payload) + sodium.TAG, kind, self.job, number)
        tag = sodium.seal(self.mine, struct.pack("<IB7x", number, 0), b"", head)
        return head + tag + sodium.seal(self.mine, struct.pack("<IB7x", number, 1), payload, head)

    def send(self, kind, payload=b""):
        self.socket.sendall(self.frame(kind, payload))

    def _bytes(self, count):
        while len(self.inbox) < count:
            more = self.socket.recv(1 << 16)
            if not more:
                raise EOFError("the peer has closed")
            self.inbox += more
        taken, self.inbox = self.inbox[:count], self.inbox[count:]
        return taken

    def receive(self):
        """Returns (type, payload) of the next frame."""
        head = self._bytes(20)
        length, kind, _, job, number = struct.unpack("<IHHQI", head)
        if self.theirs:
            sodium.unseal(self.theirs, struct.pack("<IB7x", number, 0), self._bytes(sodium.TAG), head)
            return Type(kind), sodium.unseal(self.theirs, struct.pack("<IB7x", number, 1), self._bytes(length), head)
        payload = self._bytes(length)
        self._heard(head + payload)
        if not self.job:
            self.job = job
        return Type(kind), payload

    def expect(self, kind):
        """Returns the payload of the next frame, which must have this type; skips heartbeats."""
        while True:
            came, payload = self.receive()
            if came == kind:
                return payload
            if came != Type.HEARTBEAT:
                raise ConnectionError(f"{came.name} came where {kind.name} was due: {payload[-200:]!r}")


    def dial(self, purpose, address, timeout_ms=10000):
        """Does the connecting side of the handshake; its Hello carries `job`."""
        public = sodium.x25519(self.secret)
        hello = wire.hello(purpose, timeout_ms, os.urandom(32), public, address)
        self.send(Type.HELLO, hello)
        theirs = self.expect(Type.CHALLENGE)[36:68]
        self.send(Type.PROOF, self.proof(CONNECTING))
        expected, (connecting, accepting) = self.proof(ACCEPTING), self.session_keys(theirs)
        if self.expect(Type.WELCOME) != expected:
            raise ConnectionError("the peer does not hold the key")
        self.mine, self.theirs = connecting, accepting

    def accept(self, job=0, timeout_ms=10000):
        """Does the accepting side; its frames carry `job`, or the Hello's job if there is none."""
        theirs = self.expect(Type.HELLO)[44:76]
        self.job = job or self.job
        public = sodium.x25519(self.secret)
        self.send(Type.CHALLENGE, struct.pack("<I", timeout_ms) + os.urandom(32) + public)
        expected = self.proof(CONNECTING)
        if self.expect(Type.PROOF) != expected:
            raise ConnectionError("the peer does not hold the key")
        connecting, accepting = self.session_keys(theirs)
        self.send(Type.WELCOME, self.proof(ACCEPTING))
        self.mine, self.theirs = accepting, connecting


class Hub(Session):
    def __init__(self, address, key_file, timeout_ms=10000):
        host, port = address.rsplit(":", 1)
        super().__init__(socket.create_connection((host, int(port)), 30), key_from(key_file))
        self.job = int.from_bytes(os.urandom(7), "little") | 1
        self.dial(wire.SERVER, address, timeout_ms)
        self.expect(Type.OFFER)

    def open(self, machines, **what):
        """Proposes a job; returns once the server has opened it."""
        self.send(Type.OPEN_JOB, wire.open_job(1, machines, wire.roster(self.job, machines, **what)))
        self.expect(Type.JOB_OPENED)
