"""Measures the goodput of one plain TCP stream, from which the ideal times are computed."""
import select
import socket
import statistics
import time

from cluster.namespace import in_namespace
from cluster.network import GOODPUT

BLOCK = 1 << 18
WARM_SECONDS = 0.5  # covers TCP slow start on links without latency, and the shapers' first bucket
SLOW_START_ROUND_TRIPS = 20
WINDOWS = 5
WINDOW_SECONDS = 0.4
PINGS, PING_SECONDS = 100, 1.0  # limits of the measurement of the round-trip time
STREAMS, ENOUGH = 3, 0.995  # at most STREAMS streams, until one reaches this fraction of what frames allow


def connect(network, sender, receiver):
    with in_namespace(network.host(receiver[0])):
        listener = socket.create_server((network.address(*receiver), 0))
    with listener:
        with in_namespace(network.host(sender[0])):
            sending = socket.create_connection(listener.getsockname(), 10, (network.address(*sender), 0))
        receiving = listener.accept()[0]
    return sending, receiving


def goodput(network, sender, receiver):
    """Bytes per second from one (host, link) to another: the median of some windows of one long stream."""
    sending, receiving = connect(network, sender, receiver)
    block, room = bytes(BLOCK), bytearray(BLOCK)
    rates = []
    with sending, receiving:
        sending.setblocking(False)
        receiving.setblocking(False)
        begin, count = time.monotonic(), 0
        length = WARM_SECONDS + SLOW_START_ROUND_TRIPS * network.added_round_trip()
        while len(rates) <= WINDOWS:
            readable, writable, _ = select.select([receiving], [sending], [], 5)
            if not readable and not writable:
                raise TimeoutError("the plain TCP stream makes no progress")
            if readable:
                count += receiving.recv_into(room)
                now = time.monotonic()
                if now - begin >= length:
                    rates.append(count / (now - begin))
                    begin, count, length = now, 0, WINDOW_SECONDS
            if writable:
                sending.send(block)
    return statistics.median(rates[1:])


def round_trip(network):
    """Seconds from one host to another and back: the median for a byte on a TCP connection."""
    near, far = connect(network, (0, 0), (1, 0))
    seconds = []
    with near, far:
        for end in (near, far):
            end.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            end.settimeout(10)
        begin = time.monotonic()
        while len(seconds) < PINGS and (len(seconds) < 5 or time.monotonic() - begin < PING_SECONDS):
            sent = time.monotonic()
            for sender, receiver in ((near, far), (far, near)):
                sender.send(b"p")
                receiver.recv(1)
            seconds.append(time.monotonic() - sent)
    return statistics.median(seconds)


def best(network, sender, receiver, rate):
    """The best of a few streams: a disturbed stream would make the ideal time too long."""
    reached = 0
    for _ in range(STREAMS):
        reached = max(reached, goodput(network, sender, receiver))
        if reached >= ENOUGH * GOODPUT * rate / 8:
            break
    return reached


def goodputs(network):
    """The goodput of each different rate, measured from a link with this rate to one that is at least as fast."""
    found = {}
    for host, rates in enumerate(network.links):
        for link, rate in enumerate(rates):
            if rate not in found:
                fastest = max(network.others(host), key=lambda end: network.links[end[0]][end[1]])
                found[rate] = best(network, (host, link), fastest, rate)
    return found
