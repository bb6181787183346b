"""Holds silent TCP connections open, and reopens every closed one.

    silent_connections.py HOST:PORT COUNT SECONDS

Half of the connections come from the machine's usual address, half from 100 addresses of 127.0.1.0/24. Prints "holding N"
once all are connected, or 2 s after the first one, because the listener's queue may be full. Retries a refused
connection after 20 ms, so the port may open later. Opens at most RATE connections per second: connecting must not keep
the few processors of a small machine busy. Ends after SECONDS, or on SIGTERM.
"""
import select
import socket
import sys
import time

RATE = 2000
STEP = 0.02


class SilentConnections:
    def __init__(self, target, count):
        self.target, self.count = target, count
        self.poll = select.epoll()
        self.sockets, self.connected = {}, set()
        self.opened = 0
        self.first = self.reported = None

    def open_one(self):
        s = socket.socket()
        s.setblocking(False)
        self.opened += 1
        if self.opened % 2:
            s.bind((f"127.0.1.{1 + self.opened // 2 % 100}", 0))
        try:
            s.connect(self.target)
        except BlockingIOError:
            pass
        except OSError:
            s.close()
            return
        self.sockets[s.fileno()] = s
        self.poll.register(s.fileno(), select.EPOLLIN | select.EPOLLOUT | select.EPOLLONESHOT)

    def event(self, fd, what):
        if what == select.EPOLLOUT:  # connected; from now on only its end matters
            self.connected.add(fd)
            self.poll.modify(fd, select.EPOLLIN | select.EPOLLONESHOT)
            return
        self.poll.unregister(fd)
        self.connected.discard(fd)
        self.sockets.pop(fd).close()

    def run(self, seconds):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            for _ in range(min(self.count - len(self.sockets), int(RATE * STEP))):
                self.open_one()
            for fd, what in self.poll.poll(STEP, 4096):
                self.event(fd, what)
            self.report()
            time.sleep(STEP)

    def report(self):
        now = time.monotonic()
        if self.connected and not self.first:
            self.first = now
        if self.first and not self.reported and (len(self.connected) >= self.count or now > self.first + 2):
            self.reported = len(self.connected)
            print("holding", self.reported, flush=True)


host, port = sys.argv[1].rsplit(":", 1)
SilentConnections((host, int(port)), int(sys.argv[2])).run(float(sys.argv[3]))
