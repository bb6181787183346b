"""Captures the TCP packets of all NICs, and follows the streams that they carry. A process of its own.

Usage: python3 -m cluster.capture FILE NAMESPACE:INTERFACE... It prints "capturing", and writes FILE after SIGTERM."""
import ctypes
import gc
import os
import pickle
import signal
import socket
import struct
import sys
import time

from cluster.data_stream import Reassembly
from cluster.namespace import in_namespace

ETH_P_ALL, ETH_P_IP, IPPROTO_TCP = 3, 0x800, 6
SOL_PACKET, PACKET_STATISTICS = 263, 6
SO_ATTACH_FILTER, SO_RCVBUFFORCE, SO_TIMESTAMPNS = 26, 33, 35
PACKET_HOST, PACKET_OUTGOING = 0, 4
SHOWN_BYTES = 100  # of an incoming packet: its headers
BUFFER = 256 << 20  # bytes of each socket; only unread packets use it
LARGEST = 1 << 17  # bytes of a packet
PAUSE = 0.01  # seconds; waking up for each packet would need twice the CPU time
BATCH = 64  # packets of one NIC before the next NIC is served
SYN = 2
PACKET = struct.Struct("<qqIHH")  # time in ns, offset in the stream, flow, payload bytes, header bytes

# A program for the kernel's packet filter (BPF): what to load into A or X, how many lines to jump, a constant. It keeps
# outgoing packets, and the headers of incoming ones, if they begin a connection or have a payload.
LOAD_HALF, LOAD_BYTE, LOAD_BYTE_AT_X, LOAD_IP_LENGTH_TO_X = 0x28, 0x30, 0x50, 0xB1
AND, SHIFT_RIGHT, ADD_X, COPY_TO_X, EQUAL, EQUAL_X, BIT_SET, RETURN = 0x54, 0x74, 0x0C, 0x07, 0x15, 0x1D, 0x45, 0x06
PACKET_TYPE = 0xFFFFF004  # offset from which LOAD_BYTE reads the packet's direction
FILTER = ((LOAD_HALF, 0, 0, 12), (EQUAL, 0, 15, ETH_P_IP),
          (LOAD_BYTE, 0, 0, 23), (EQUAL, 0, 13, IPPROTO_TCP),
          (LOAD_IP_LENGTH_TO_X, 0, 0, 14), (LOAD_BYTE_AT_X, 0, 0, 14 + 13), (BIT_SET, 7, 0, SYN),
          (LOAD_BYTE_AT_X, 0, 0, 14 + 12), (AND, 0, 0, 0xF0), (SHIFT_RIGHT, 0, 0, 2), (ADD_X, 0, 0, 0),
          (COPY_TO_X, 0, 0, 0), (LOAD_HALF, 0, 0, 16), (EQUAL_X, 3, 0, 0),
          (LOAD_BYTE, 0, 0, PACKET_TYPE), (EQUAL, 3, 0, PACKET_OUTGOING), (EQUAL, 1, 0, PACKET_HOST),
          (RETURN, 0, 0, 0), (RETURN, 0, 0, SHOWN_BYTES), (RETURN, 0, 0, LARGEST))


class Flow:
    """One direction of one TCP connection, as one NIC sees it."""

    def __init__(self, nic, outgoing, key, base, whole):
        self.nic = nic
        self.outgoing = outgoing
        self.key = key  # addresses and ports, as in the packet
        self.base = base  # sequence number of the first byte
        self.latest = 0  # the largest offset so far
        self.stream = Reassembly() if outgoing and whole else None

    def offset(self, sequence):
        """Sequence numbers have 32 bits, so this finds the offset that is nearest to the latest one."""
        offset = self.latest + (sequence - self.base - self.latest + (1 << 31)) % (1 << 32) - (1 << 31)
        self.latest = max(self.latest, offset)
        return offset

    def result(self):
        parser = self.stream.parser if self.stream else None
        stream = parser and {"connection": parser.connection, "begins": parser.begins, "numbers": parser.numbers,
                             "headers": parser.headers, "end": parser.at, "followed": parser.followed}
        return {"nic": self.nic, "outgoing": self.outgoing, "key": self.key, "base": self.base, "stream": stream}


class Recorder:
    def __init__(self):
        self.flows = []
        self.current = {}  # the flow of each NIC, direction, and addresses with ports
        self.packets = bytearray()

    def packet(self, nic, outgoing, nanoseconds, frame):
        """`frame`: the captured bytes from the Ethernet header on, as a memoryview."""
        ip_bytes = (frame[14] & 15) * 4
        tcp = 14 + ip_bytes
        total, = struct.unpack_from("!H", frame, 16)
        key = (bytes(frame[26:34]), bytes(frame[tcp:tcp + 4]))
        sequence, = struct.unpack_from("!I", frame, tcp + 4)
        headers = ip_bytes + (frame[tcp + 12] >> 4) * 4
        payload = total - headers
        index, flow = self.flow(nic, outgoing, key, sequence, frame[tcp + 13] & SYN)
        offset = flow.offset(sequence)
        if payload > 0 and flow.stream:
            flow.stream.packet(offset, frame[14 + headers:14 + total])
        self.packets += PACKET.pack(nanoseconds, offset, index, payload, 14 + headers)

    def flow(self, nic, outgoing, key, sequence, syn):
        known = self.current.get((nic, outgoing, key))
        base = sequence + 1 & 0xFFFFFFFF if syn else sequence
        if known is None or (syn and self.flows[known].base != base):
            known = self.current[nic, outgoing, key] = len(self.flows)
            self.flows.append(Flow(nic, outgoing, key, base, bool(syn)))
        return known, self.flows[known]

    def result(self, lost):
        return {"flows": [flow.result() for flow in self.flows], "packets": bytes(self.packets), "lost": lost}


def packet_socket(namespace, interface):
    """All packets of this interface from now on. Without a filter the kernel would copy whole incoming packets too."""
    with in_namespace(namespace):
        opened = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, 0)
    program = ctypes.create_string_buffer(b"".join(struct.pack("HBBI", *line) for line in FILTER))
    opened.setsockopt(socket.SOL_SOCKET, SO_ATTACH_FILTER, struct.pack("HL", len(FILTER), ctypes.addressof(program)))
    opened.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
    opened.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
    opened.setblocking(False)
    opened.bind((interface, ETH_P_ALL))
    return opened


def drain(nic, opened, room, recorder):
    """Reads at most BATCH packets. Returns how many it has read."""
    for count in range(BATCH):
        try:
            length, ancillary, _, address = opened.recvmsg_into([room], 64)
        except BlockingIOError:
            return count
        seconds, nanoseconds = struct.unpack_from("ll", ancillary[0][2])
        recorder.packet(nic, address[2] == PACKET_OUTGOING, seconds * 10**9 + nanoseconds, room[:length])
    return BATCH


def capture(ends, stopped):
    """Records until `stopped` is not empty and all packets are read."""
    recorder, room = Recorder(), memoryview(bytearray(LARGEST))
    sockets = [packet_socket(*end.rsplit(":", 1)) for end in ends]
    print("capturing", flush=True)
    while True:
        last = bool(stopped)
        while sum([drain(nic, opened, room, recorder) for nic, opened in enumerate(sockets)]) > 0:
            pass
        if last:
            break
        time.sleep(PAUSE)
    lost = sum(struct.unpack("II", each.getsockopt(SOL_PACKET, PACKET_STATISTICS, 8))[1] for each in sockets)
    return recorder.result(lost)


def main():
    stopped = []
    signal.signal(signal.SIGTERM, lambda number, frame: stopped.append(number))
    gc.disable()
    os.nice(10)  # the kernel keeps the packets meanwhile, so the capture need not delay what it observes
    result = capture(sys.argv[2:], stopped)
    with open(sys.argv[1], "wb") as file:
        pickle.dump(result, file, pickle.HIGHEST_PROTOCOL)


if __name__ == "__main__":
    main()
