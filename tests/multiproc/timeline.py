"""Tests of the time line of perf/emulated_cluster on packets and times that are made up."""
import os
import socket
import struct
import sys
import unittest

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "perf"))

from cluster import chunks, timeline  # noqa: E402
from cluster.capture import Recorder  # noqa: E402
from cluster.data_stream import PARTIAL, Parser, Reassembly, crc32c  # noqa: E402

WORKER, SERVER = ("10.77.0.1", 40000), ("10.77.0.2", 50000)
HELLO = b"bpsC" + bytes(4) + b"number 7" + bytes(20)
FUSED = 16


def frame(number, size, part=None):
    """`part`: offset and bytes of a partial slice."""
    first = struct.pack("<II", size | (PARTIAL if part else 0), number)
    second = struct.pack("<II", *part) if part else b""
    out = first + struct.pack("<I", crc32c(first))
    return out + second + struct.pack("<I", crc32c(second, crc32c(first))) if part else out


def header(number, call=None, count=1000, kind=chunks.FLOAT32, fused=0):
    body = struct.pack("<BBH", 5, (call is not None) | (FUSED if fused else 0), number)
    if call is not None:
        body += struct.pack("<QQBBI", call, count, kind, 0, 0)
    if fused:
        body += bytes([fused]) + bytes(3 * fused)
    return body + struct.pack("<I", crc32c(body))


def chunk(number, size, **fields):
    head = header(number, **fields)
    return frame(2 * number, len(head)) + head + frame(2 * number + 1, size) + bytes(size)


def packet(source, target, sequence, data=b"", syn=False):
    """Ethernet, IPv4 and TCP with time stamps."""
    tcp = struct.pack("!HHIIBBHHH", source[1], target[1], sequence % (1 << 32), 0, 8 << 4, 2 if syn else 16, 0, 0, 0)
    tcp += bytes(12) + data
    ip = struct.pack("!BBHHHBBH4s4s", 0x45, 0, 20 + len(tcp), 0, 0, 64, 6, 0, socket.inet_aton(source[0]),
                     socket.inet_aton(target[0]))
    return bytes(12) + b"\x08\x00" + ip + tcp


class Wire:
    """Two NICs, 0 at the worker and 1 at the server, and a Recorder that captures both."""

    def __init__(self):
        self.recorder = Recorder()
        self.now = 0

    def send(self, source, target, sequence, data=b"", syn=False):
        captured = memoryview(packet(source, target, sequence, data, syn))
        self.now += 1000
        sender = 0 if source[0] == WORKER[0] else 1
        self.recorder.packet(sender, True, self.now, captured)
        self.recorder.packet(1 - sender, False, self.now, captured[:100])

    def stream(self, source, target, data, sizes, base=1000):
        """Sends the SYN and then the data in packets of these sizes."""
        self.send(source, target, base - 1, syn=True)
        at = 0
        for size in sizes + [len(data) - sum(sizes)]:
            self.send(source, target, base + at, data[at:at + size])
            at += size

    def carried(self, nic, outgoing):
        """What the packets with payload carry, in the order in which they were captured."""
        result = self.recorder.result(0)
        streams = chunks.Streams(result["flows"])
        out = []
        for _, offset, index, payload, _ in timeline.PACKET.iter_unpack(result["packets"]):
            flow = result["flows"][index]
            if (flow["nic"], flow["outgoing"]) == (nic, outgoing) and payload > 0:
                out.append(chunks.parts(streams.of(flow), offset, payload))
        return out


def push(call, index):
    return chunks.Chunk("push", call, index)


def answer(call, index):
    return chunks.Chunk("answer", call, index)


def total(carried):
    counts = {}
    for each in carried:
        for what, count in each:
            counts[what] = counts.get(what, 0) + count
    return counts


FIRST, LATER, NEXT = chunk(0, 300, call=5), chunk(1, 200), chunk(2, 100, call=6)
PUSHES = HELLO + FIRST + LATER + NEXT


class Streams(unittest.TestCase):
    def test_the_checksum_is_crc32c(self):
        self.assertEqual(crc32c(b"123456789"), 0xE3069283)
        self.assertEqual(crc32c(b"6789", crc32c(b"12345")), 0xE3069283)

    def test_packets_are_named_at_both_ends_even_if_headers_are_split(self):
        for sizes in ([], [40], [1] * 100, [len(HELLO) + 6, 10, 300]):
            wire = Wire()
            wire.stream(WORKER, SERVER, PUSHES, sizes)
            wanted = {"control": len(HELLO), push(5, 0): len(FIRST), push(5, 1): len(LATER), push(6, 0): len(NEXT)}
            self.assertEqual(total(wire.carried(0, True)), wanted)
            self.assertEqual(wire.carried(1, False), wire.carried(0, True))

    def test_a_retransmission_is_named_and_does_not_confuse_the_parser(self):
        wire, begin = Wire(), 36 + len(FIRST)
        wire.send(WORKER, SERVER, 999, syn=True)
        pieces = (0, 50), (0, 50), (150, begin + 10), (20, 200), (begin, begin + 5), (begin + 5, len(PUSHES))
        for start, end in pieces:
            wire.send(WORKER, SERVER, 1000 + start, PUSHES[start:end])
        carried = wire.carried(0, True)
        self.assertEqual(carried[0], [("control", 36), (push(5, 0), 14)])
        self.assertEqual(carried[1], carried[0])
        self.assertEqual(carried[2], [(push(5, 0), begin - 150), (push(5, 1), 10)])
        self.assertEqual(carried[4], [(push(5, 1), 5)])
        self.assertEqual(carried[5], [(push(5, 1), len(LATER) - 5), (push(6, 0), len(NEXT))])

    def test_sequence_numbers_may_wrap(self):
        wire = Wire()
        wire.stream(WORKER, SERVER, PUSHES, [100, 100], base=(1 << 32) - 120)
        self.assertEqual(total(wire.carried(1, False))[push(6, 0)], len(NEXT))

    def test_answers_have_the_calls_of_the_pushes_that_are_answered(self):
        wire = Wire()
        wire.stream(WORKER, SERVER, HELLO + chunk(0, 8, call=4) + chunk(1, 300, call=5) + chunk(2, 200), [])
        wire.stream(SERVER, WORKER, chunk(0, 8) + chunk(1, 300) + chunk(2, 200), [])
        self.assertEqual(list(total(wire.carried(0, True))), ["control", push(4, 0), push(5, 0), push(5, 1)])
        self.assertEqual(list(total(wire.carried(0, False))), [answer(4, 0), answer(5, 0), answer(5, 1)])

    def test_calls_before_the_numbers_start_again_have_no_number(self):
        wire = Wire()
        pushes = b"".join(chunk(index, 8, call=call) for index, call in enumerate((0, 1, 0, 1, 2)))
        wire.stream(WORKER, SERVER, HELLO + pushes, [])
        self.assertEqual(list(total(wire.carried(0, True))), ["control", push(None, 0), push(0, 0), push(1, 0), push(2, 0)])

    def test_a_header_may_list_the_calls_of_a_fused_call(self):
        wire = Wire()
        wire.stream(WORKER, SERVER, HELLO + chunk(0, 8, call=4, fused=64) + chunk(1, 300, call=68), [])
        self.assertEqual(list(total(wire.carried(0, True))), ["control", push(4, 0), push(68, 0)])

    def test_a_control_connection_is_named_control(self):
        wire = Wire()
        wire.stream(WORKER, SERVER, b"\x40\x00 a handshake of the control plane", [7])
        self.assertEqual(wire.carried(0, True), [[("control", 7)], [("control", 28)]])

    def test_a_stream_that_cannot_be_followed_has_no_names_from_there_on(self):
        wire = Wire()
        wire.stream(WORKER, SERVER, HELLO + FIRST + bytes(100), [36])
        self.assertEqual(wire.carried(0, True)[1], [(push(5, 0), len(FIRST)), (None, 100)])
        late = Wire()
        late.send(WORKER, SERVER, 1000, PUSHES)  # the connection began before the capture
        self.assertEqual(late.carried(1, False), [[(None, len(PUSHES))]])

    def test_bytes_that_the_capture_lost_end_the_names(self):
        reassembly = Reassembly()
        reassembly.packet(0, memoryview(HELLO + FIRST))
        for index in range(70):
            reassembly.packet(1000 + (index << 20), memoryview(bytes(1 << 20)))
        self.assertIsNotNone(reassembly.parser.followed)
        self.assertEqual(reassembly.pending, {})

    def test_the_sockets_of_a_connection_share_its_chunks(self):
        head = header(0, call=5)
        wire, other = Wire(), (WORKER[0], 40001)
        wire.stream(WORKER, SERVER, HELLO + frame(0, len(head)) + head + frame(1, 500, (0, 200)) + bytes(200), [])
        wire.stream(other, SERVER, HELLO + frame(1, 500, (200, 300)) + bytes(300) + chunk(1, 8), [])
        self.assertEqual(total(wire.carried(0, True)), {
            "control": 72, push(5, 0): 12 + len(head) + 24 + 200 + 24 + 300, push(5, 1): len(chunk(1, 8))})

    def test_a_corrupt_partial_frame_is_not_followed(self):
        parser = Parser()
        wrong = bytearray(frame(1, 500, (0, 200)))
        wrong[13] ^= 1
        parser.feed(memoryview(HELLO + FIRST + bytes(wrong)))
        self.assertEqual(parser.followed, 36 + len(FIRST))


class Gaps(unittest.TestCase):
    def line(self, *packets):
        """`packets`: time in ms and what it carries. Each one takes 1 ms: 1434 + 66 bytes at 12 Mbit/s."""
        line = timeline.Line(12e6)
        for milliseconds, what in packets:
            line.add(timeline.Packet(milliseconds * 1e-3, 0, 0, 1434, 66), [(what, 1434)], "server0")
        return line

    def rounded(self, intervals):
        return [(round(each.start * 1e3, 6), round(each.end * 1e3, 6)) for each in intervals]

    def test_packets_that_pass_early_are_laid_end_to_end(self):
        line = self.line((0, push(1, 0)), (0.2, push(1, 1)), (2.5, push(1, 2)), (3.5, push(1, 2)))
        self.assertEqual(self.rounded(line.busy), [(0, 1), (1, 2), (2.5, 4.5)])
        self.assertEqual(line.busy[2].bytes, 2 * 1434)

    def test_a_packet_with_two_chunks_is_divided_by_their_bytes(self):
        line = timeline.Line(12e6)
        line.add(timeline.Packet(0, 0, 0, 1434, 66), [(push(1, 0), 478), (push(1, 1), 956)], "server0")
        self.assertEqual(self.rounded(line.busy), [(0, 0.333333), (0.333333, 1)])

    def test_a_large_segment_has_the_headers_of_all_its_frames(self):
        self.assertEqual(timeline.wire_bytes(timeline.Packet(0, 0, 0, 3 * 1448, 66)), 3 * 1514)
        self.assertEqual(timeline.wire_bytes(timeline.Packet(0, 0, 0, 3 * 1448 + 1, 66)), 3 * 1514 + 67)

    def test_idle_times_name_the_next_chunk(self):
        line = self.line((1, push(1, 0)), (2.05, push(1, 1)), (4.05, "control"), (6, push(2, 0)))
        idle = timeline.gaps(line.busy, 0, 9e-3)
        self.assertEqual(self.rounded(idle), [(0, 1), (3.05, 4.05), (5.05, 6), (7, 9)])  # not the gap of 0.05 ms
        self.assertEqual([each.busy and each.busy.chunk for each in idle], [push(1, 0), push(2, 0), push(2, 0), None])
        self.assertEqual(timeline.name(idle[1].busy, "send"), "push call 2 chunk 0 to server0")

    def test_a_window_cuts_the_intervals(self):
        line = self.line((0, push(1, 0)), (3, push(1, 1)))
        self.assertEqual(self.rounded(line.within(0.5e-3, 3.5e-3)), [(0.5, 1), (3, 3.5)])


class Whole(unittest.TestCase):
    def test_only_the_last_timed_calls_are_shown(self):
        wire, begun = Wire(), {}
        timed = b"".join(chunk(call, 1400, call=call) for call in range(6))
        wire.stream(WORKER, SERVER, HELLO + timed + chunk(6, 8, call=6, count=8, kind=8), [])
        names = {socket.inet_aton(WORKER[0]): "worker0", socket.inet_aton(SERVER[0]): "server0"}
        whole = timeline.Timeline(wire.recorder.result(0), names, [12e6, 12e6], 4000)
        self.assertEqual(whole.calls, [3, 4])  # call 5 checks the result
        events = whole.events([("worker0", "eth0"), ("server0", "eth0")])
        for event in events:
            begun.setdefault(event["name"], event)
        self.assertEqual(begun["push call 4 chunk 0 to server0"]["pid"], 1)
        self.assertEqual(begun["push call 4 chunk 0 from worker0"]["pid"], 2)
        self.assertTrue(all(line.startswith(("worker0 ", "server0 ")) for line in whole.summary(
            [("worker0", "eth0"), ("server0", "eth0")])))

    def test_too_many_events_are_cut_at_the_beginning(self):
        events = [{"ts": 5}, {"ph": "M"}, {"ts": 3}, {"ts": 4}]
        before, timeline.MOST_EVENTS = timeline.MOST_EVENTS, 3
        self.assertEqual(timeline.bounded(events), ([{"ph": "M"}, {"ts": 4}, {"ts": 5}], 1))
        timeline.MOST_EVENTS = before


if __name__ == "__main__":
    unittest.main()
