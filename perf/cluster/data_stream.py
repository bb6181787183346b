"""Follows one direction of a TCP connection of bps: bytes become frames, and frames become chunks.

The formats are those of net_plugin/tcp/wire.h (hello), net_plugin/stream/frame.h and src/wire/data_header.h. On a data
connection message 2i is the header of chunk i, and message 2i + 1 is its payload. Several sockets may carry the
messages of one connection, so each Parser collects what its own socket carries."""
import struct
from array import array

HELLO, HELLO_BYTES = b"bpsC", 36
FRAME_BYTES, SLICE_FRAME_BYTES = 12, 24
PARTIAL = 1 << 31
FIRST, SCALAR, PAYLOAD_CHECKSUM, FUSED = 1, 2, 8, 16  # flags of a data header
LEAST_HEADER, MOST_HEADER = 8, 227  # bytes
CALL_BYTES, FUSED_ENTRY_BYTES = 22, 3
MOST_PENDING = 64 << 20  # bytes that wait for an earlier byte; if there are more, the capture lost the earlier byte


def crc_table():
    table = []
    for value in range(256):
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


CRC = crc_table()


def crc32c(data, before=0):
    crc = before ^ 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ CRC[(crc ^ byte) & 0xFF]
    return crc ^ 0xFFFFFFFF


class NotFollowed(Exception):
    """The bytes do not have the format of a data connection."""


def decode_header(data):
    """(first, call, count, type) of a data header; call, count and type are None if it is short."""
    if not LEAST_HEADER <= len(data) <= MOST_HEADER or crc32c(data[:-4]) != int.from_bytes(data[-4:], "little"):
        raise NotFollowed
    flags = data[1]
    wanted = LEAST_HEADER + (CALL_BYTES if flags & FIRST else 0) + (8 if flags & SCALAR else 0) + (
        4 if flags & PAYLOAD_CHECKSUM else 0)
    if flags & FUSED and len(data) > 4 + CALL_BYTES:
        wanted += 1 + data[4 + CALL_BYTES] * FUSED_ENTRY_BYTES
    if len(data) != wanted:
        raise NotFollowed
    call = struct.unpack_from("<QQB", data, 4) if flags & FIRST else (None, None, None)
    return (bool(flags & FIRST), *call)


class Parser:
    """Takes the bytes of one direction of one socket in order."""

    def __init__(self):
        self.connection = None  # number of the connection, from the hello; only the connecting side sends a hello
        self.begins = array("q")  # offsets at which the slices' frames begin
        self.numbers = array("q")  # message numbers of these slices
        self.headers = {}  # for chunk numbers, the decoded headers
        self.at = 0  # offset of the next byte
        self.followed = None  # offset up to which the bytes were understood, once they no longer are
        self.held, self.wanted, self.skipped = bytearray(), FRAME_BYTES, 0
        self.take = self.take_frame

    def feed(self, data):
        """`data`: the next bytes, as a memoryview."""
        while len(data) > 0 and self.followed is None:
            if self.skipped > 0:
                step = min(self.skipped, len(data))
                self.skipped -= step
            else:
                step = min(self.wanted - len(self.held), len(data))
                self.held += data[:step]
            self.at += step
            data = data[step:]
            if self.skipped == 0 and len(self.held) == self.wanted:
                self.try_take()

    def try_take(self):
        try:
            self.take(bytes(self.held))
        except NotFollowed:
            self.give_up()

    def give_up(self):
        self.followed = self.begins.pop() if self.begins else 0
        del self.numbers[len(self.begins):]

    def want(self, count, take):
        self.wanted, self.take = count, take

    def next(self, count, take):
        self.held.clear()
        self.want(count, take)

    def take_frame(self, held):
        if held.startswith(HELLO) and self.connection is None and not self.begins:
            return self.want(HELLO_BYTES, self.take_hello)
        size, number, checksum = struct.unpack_from("<III", held)
        if not self.begins or len(held) == FRAME_BYTES:
            self.begins.append(self.at - FRAME_BYTES)
            self.numbers.append(number)
        if crc32c(held[:8]) != checksum:
            raise NotFollowed
        if size & PARTIAL and len(held) == FRAME_BYTES:
            return self.want(SLICE_FRAME_BYTES, self.take_frame)
        if size & PARTIAL:
            size, checksum = struct.unpack_from("<4xII", held, FRAME_BYTES)
            if crc32c(held[FRAME_BYTES:FRAME_BYTES + 8], crc32c(held[:8])) != checksum:
                raise NotFollowed
        if number % 2 == 1:
            self.skipped = size
            return self.next(FRAME_BYTES, self.take_frame)
        if not LEAST_HEADER <= size <= MOST_HEADER:
            raise NotFollowed
        return self.next(size, self.take_header)

    def take_hello(self, held):
        self.connection = held[8:16]
        self.next(FRAME_BYTES, self.take_frame)

    def take_header(self, held):
        self.headers[self.numbers[-1] // 2] = decode_header(held)
        self.next(FRAME_BYTES, self.take_frame)


class Reassembly:
    """Brings the payload of TCP packets into order, without what is sent twice, and feeds it to a Parser."""

    def __init__(self):
        self.parser = Parser()
        self.next = 0
        self.pending = {}  # by offset
        self.pending_bytes = 0

    def packet(self, offset, data):
        """`offset`: of the first byte in the stream."""
        if self.parser.followed is not None:
            return
        if offset > self.next:
            self.keep(offset, data)
            return
        self.feed(offset, data)
        while self.pending and min(self.pending) <= self.next:
            early = min(self.pending)
            data = self.pending.pop(early)
            self.pending_bytes -= len(data)
            self.feed(early, memoryview(data))

    def keep(self, offset, data):
        if len(data) > len(self.pending.get(offset, b"")):
            self.pending_bytes += len(data) - len(self.pending.get(offset, b""))
            self.pending[offset] = bytes(data)
        if self.pending_bytes > MOST_PENDING:
            self.pending.clear()
            self.parser.give_up()

    def feed(self, offset, data):
        new = data[self.next - offset:]
        self.next += len(new)
        self.parser.feed(new)
