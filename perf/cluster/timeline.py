"""The time line of all NICs: which chunk each one carried when, when it was idle, and for which chunk it waited."""
import json
import math
import os
import pickle
import signal
import sys
from collections import namedtuple

from cluster import chunks
from cluster.capture import PACKET
from cluster.network import HEADERS, MTU
from cluster.processes import Failure, Processes, wait
from cluster.session import note

CALLS = 2  # the last timed calls; the check of the results follows them
LEAST_IDLE = 1e-4  # seconds; shorter gaps are not shown
MOST_EVENTS = 200000  # about 30 MB
START_SECONDS, END_SECONDS = 30, 300

Packet = namedtuple("Packet", "seconds offset flow payload headers")
# A NIC carries `bytes` of one chunk from `start` to `end`, in seconds.
Busy = namedtuple("Busy", "start end chunk peer bytes")
Idle = namedtuple("Idle", "start end busy")  # `busy` ends the gap, or None


def wire_bytes(packet):
    """A captured packet may be a large segment, which a NIC sends as several frames with headers of their own."""
    room = MTU + 14 - packet.headers
    return packet.payload + packet.headers * max(1, math.ceil(packet.payload / room))


class Line:
    """One direction of one NIC. Adds packets in the order of time."""

    def __init__(self, rate):
        self.bytes_per_second = rate / 8
        self.end = 0.0
        self.busy = []

    def add(self, packet, carried, peer):
        """`carried`: the packet's (chunk, bytes).

        The shaper lets a packet pass at once and makes the next packet wait. So a packet occupies the line from its
        time stamp, or from the end of the previous packet if this is later."""
        begin = max(packet.seconds, self.end)
        seconds = wire_bytes(packet) / self.bytes_per_second
        self.end = begin + seconds
        for chunk, count in carried:
            end = begin + seconds * count / packet.payload
            self.extend(Busy(begin, end, chunk, peer, count))
            begin = end

    def extend(self, new):
        """Joins the new interval with the last one if both carry the same chunk without a gap."""
        last = self.busy[-1] if self.busy else None
        if last and new.start <= last.end and (last.chunk, last.peer) == (new.chunk, new.peer):
            self.busy[-1] = last._replace(end=new.end, bytes=last.bytes + new.bytes)
        else:
            self.busy.append(new)

    def within(self, begin, end):
        """The intervals, cut to this window."""
        return [busy._replace(start=max(busy.start, begin), end=min(busy.end, end)) for busy in self.busy
                if busy.end > begin and busy.start < end]


def gaps(busy, begin, end):
    """The idle times between busy intervals, each with the next interval that carries a chunk."""
    found, at = [], begin
    for index, each in enumerate(busy):
        if each.start - at > LEAST_IDLE:
            found.append(Idle(at, each.start, next((b for b in busy[index:] if is_chunk(b.chunk)), None)))
        at = max(at, each.end)
    if end - at > LEAST_IDLE:
        found.append(Idle(at, end, None))
    return found


def is_chunk(chunk):
    return isinstance(chunk, chunks.Chunk)


def name(busy, way):
    """'push call 5 chunk 12 to server0'."""
    peer = f"{'to' if way == 'send' else 'from'} {busy.peer}"
    if not is_chunk(busy.chunk):
        return f"{busy.chunk} {peer}" if busy.chunk else peer
    call = "" if busy.chunk.call is None else f" call {busy.chunk.call}"
    return f"{busy.chunk.kind}{call} chunk {busy.chunk.index} {peer}"


class Timeline:
    """`captured`: the capture's result. `names`: for addresses, the hosts. `rates`: the bit/s of each captured NIC."""

    def __init__(self, captured, names, rates, size):
        self.flows = captured["flows"]
        self.streams = chunks.Streams(self.flows)
        self.names = names
        self.lines = {(nic, way): Line(rate) for nic, rate in enumerate(rates) for way in ("send", "receive")}
        self.calls = self.streams.calls(size)[-1 - CALLS:-1]
        # Seconds since the first packet: a float of seconds since 1970 resolves only 0.24 us.
        packets = list(PACKET.iter_unpack(captured["packets"]))
        self.packets = [Packet((time - packets[0][0]) * 1e-9, *rest) for time, *rest in packets]
        self.window = self.find_window()
        self.fill()

    def find_window(self):
        """From the first to the last packet that carries a chunk of these calls."""
        if not self.calls:
            raise Failure("timeline: the captured packets contain no timed call")
        spans = [chunks.span(self.streams.of(flow), self.calls) for flow in self.flows]
        times = [packet.seconds for packet in self.packets if packet.payload and spans[packet.flow]
                 and packet.offset < spans[packet.flow][1] and packet.offset + packet.payload > spans[packet.flow][0]]
        return min(times), max(times)

    def fill(self):
        begin, end = self.window
        last = end
        for packet in sorted(self.packets, key=lambda packet: packet.seconds):
            if packet.payload == 0 or not begin - 1 <= packet.seconds <= end:
                continue
            flow = self.flows[packet.flow]
            sender, receiver = flow["key"][0][:4], flow["key"][0][4:]
            line = self.lines[flow["nic"], "send" if flow["outgoing"] else "receive"]
            peer = self.names.get(receiver if flow["outgoing"] else sender, "unknown")
            carried = chunks.parts(self.streams.of(flow), packet.offset, packet.payload)
            line.add(packet, carried, peer)
            last = max(last, line.end)
        self.window = begin, last

    def events(self, nics):
        """`nics`: the host and the interface of each NIC. The events of the Chrome trace format, in microseconds."""
        begin, end = self.window
        hosts = list(dict.fromkeys(host for host, _ in nics))
        found = [{"ph": "M", "name": "process_name", "pid": pid + 1, "args": {"name": host}}
                 for pid, host in enumerate(hosts)]
        for (nic, way), line in self.lines.items():
            host, interface = nics[nic]
            place = {"pid": hosts.index(host) + 1, "tid": 2 * nic + (1 if way == "send" else 2)}
            found.append({"ph": "M", "name": "thread_name", **place, "args": {"name": f"NIC {interface} {way}"}})
            busy = line.within(begin, end)
            for each in busy:
                kind = each.chunk.kind if is_chunk(each.chunk) else each.chunk or "unknown"
                found.append(self.event(name(each, way), kind, each, place, {"bytes": each.bytes}))
            for idle in gaps(busy, begin, end):
                waits = name(idle.busy, way) if idle.busy else "nothing more"
                found.append(self.event("idle", "idle", idle, place, {"waits for": waits}))
        return found

    def event(self, text, kind, interval, place, arguments):
        return {"ph": "X", "name": text, "cat": kind, "ts": round((interval.start - self.window[0]) * 1e6, 3),
                "dur": round((interval.end - interval.start) * 1e6, 3), **place, "args": arguments}

    def summary(self, nics):
        """One line for each direction of each NIC."""
        begin, end = self.window
        alone = len({host for host, _ in nics}) == len(nics)
        for (nic, way), line in self.lines.items():
            host, interface = nics[nic]
            busy = line.within(begin, end)
            idle = gaps(busy, begin, end)
            text = (f"{host}{'' if alone else ' ' + interface} {way}: "
                    f"busy {percent(busy, end - begin)}, "
                    f"idle {percent(idle, end - begin)} in {len(idle)} gaps")
            if idle:
                longest = max(idle, key=lambda gap: gap.end - gap.start)
                before = f"before {name(longest.busy, way)}" if longest.busy else "at the end"
                text += f", longest {1e3 * (longest.end - longest.start):.1f} ms {before}"
            yield text


def percent(intervals, seconds):
    return f"{100 * sum(each.end - each.start for each in intervals) / seconds:.1f} %"


def bounded(events):
    """The last events in time, if there are too many, and how many there are fewer."""
    excess = max(0, len(events) - MOST_EVENTS)
    order = sorted(events, key=lambda event: event.get("ts", -1))  # the names of hosts and NICs have no time
    names = sum("ts" not in event for event in order)
    return order[:names] + order[names + excess:], excess


class Recorder:
    """Captures while a measurement runs, then writes the time line. Use it with `with`."""

    def __init__(self, options, network, folder, servers):
        hosts = [f"worker{i}" for i in range(options.workers)] + [f"server{i}" for i in range(servers)]
        ends = [(host, link) for host in range(len(hosts)) for link in range(len(network.links[host]))]
        self.nics = [(hosts[host], f"eth{link}") for host, link in ends]
        self.names = {bytes(map(int, network.address(*end).split("."))): hosts[end[0]] for end in ends}
        self.rates = [network.links[host][link] for host, link in ends]
        self.places = [f"{network.host(host)}:eth{link}" for host, link in ends]
        self.inside = network.host(0)  # a process in a namespace is ended together with it
        self.file = os.path.join(folder, "packets")
        self.processes = Processes(folder)

    def __enter__(self):
        perf = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
        words = [sys.executable, "-B", "-m", "cluster.capture", self.file, *self.places]
        self.child = self.processes.start("capture", self.inside, words, {**os.environ, "PYTHONPATH": perf})
        try:
            self.wait_until_ready()
        except BaseException:
            self.processes.end()
            raise
        return self

    def wait_until_ready(self):
        for _ in range(START_SECONDS * 50):
            with open(self.child.out) as file:
                if "capturing" in file.read():
                    return
            if wait([self.child], 0.02):
                break
        raise Failure("timeline: the capture of packets does not start", self.child.output_tail())

    def __exit__(self, kind, value, trace):
        try:
            if kind is None:
                self.child.signal(signal.SIGTERM)
                if not wait([self.child], END_SECONDS) or self.child.status() != 0:
                    raise Failure("timeline: the capture of packets failed", self.child.output_tail())
        finally:
            self.processes.end()

    def write(self, path, size):
        with open(self.file, "rb") as file:
            captured = pickle.load(file)
        timeline = Timeline(captured, self.names, self.rates, size)
        events, excess = bounded(timeline.events(self.nics))
        with open(path, "w") as file:
            json.dump({"displayTimeUnit": "ms", "traceEvents": events}, file, separators=(",", ":"))
        begin, end = timeline.window
        note(f"timeline: {path} has {len(events)} events of the calls {' and '.join(map(str, timeline.calls))}, "
             f"{1e3 * (end - begin):.1f} ms")
        for line in timeline.summary(self.nics):
            note("timeline: " + line)
        if excess:
            note(f"timeline: the first {excess} events are not in the file, because it would be too large")
        if captured["lost"]:
            note(f"timeline: the capture lost {captured['lost']} packets, so idle times may be wrong")
