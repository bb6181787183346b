"""Holds TCP connections open that never say a word, and opens every closed one again.

    silent_connections.py HOST:PORT COUNT SECONDS

Half of them come from the same address as everybody else on this machine, half from 100 others of 127.0.1.0/24. Prints
"holding N" once all are connected, or those that the listener's queue has room for: 2 s after the first. A refused
connection is tried again after 20 ms, so the port may open later. At most RATE connections are opened in a second: a machine with few processors is to be kept busy by
waiting, not by connecting. Ends after SECONDS, or on SIGTERM.
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
        self.first = self.told = None

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
        if what == select.EPOLLOUT:  # connected; from now on only its end is of interest
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
            self.tell()
            time.sleep(STEP)

    def tell(self):
        now = time.monotonic()
        if self.connected and not self.first:
            self.first = now
        if self.first and not self.told and (len(self.connected) >= self.count or now > self.first + 2):
            self.told = len(self.connected)
            print("holding", self.told, flush=True)


host, port = sys.argv[1].rsplit(":", 1)
SilentConnections((host, int(port)), int(sys.argv[2])).run(float(sys.argv[3]))
