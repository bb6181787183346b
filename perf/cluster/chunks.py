"""Names the chunks that a captured stream carries: 'push call 5 chunk 12', 'answer call 5 chunk 12'."""
from bisect import bisect_left, bisect_right
from collections import namedtuple

FLOAT32 = 7  # type of bps-perf's timed calls; its barriers use another type

Chunk = namedtuple("Chunk", "kind call index")  # `index` counts the chunks of this call on this connection


class Direction:
    """One direction of a data connection: the streams of all its sockets."""

    def __init__(self, ends):
        self.ends = ends  # addresses of the sender and of the receiver
        self.headers = {}
        self.chunks = {}

    def is_push(self):
        """The first chunk of a push connection begins a call. An answer never does."""
        return bool(self.headers) and self.headers[min(self.headers)][0]

    def name_pushes(self):
        """The calls that measure the network at the start have numbers of their own, so they get no number here."""
        firsts = [number for number in sorted(self.headers) if self.headers[number][0]]
        started = [self.headers[number][1] for number in firsts]
        timed = max((firsts[i] for i in range(1, len(firsts)) if started[i] < started[i - 1]), default=0)
        call, index = None, 0
        for number in sorted(self.headers):
            first, called, _, _ = self.headers[number]
            call, index = (called if number >= timed else None, 0) if first else (call, index + 1)
            self.chunks[number] = Chunk("push", call, index)

    def name_answers(self, push):
        """Answers have no call numbers. They follow in the order of the pushes."""
        answered = [chunk for _, chunk in sorted(push.chunks.items())] if push else []
        for number in sorted(self.headers):
            chunk = answered[number] if number < len(answered) else Chunk("", None, number)
            self.chunks[number] = chunk._replace(kind="answer")


def opposite(key):
    return key[0][4:] + key[0][:4], key[1][2:] + key[1][:2]


class Streams:
    """All streams of a capture. `flows`: as in the capture's result."""

    def __init__(self, flows):
        self.streams = {(flow["key"], flow["base"]): flow["stream"] for flow in flows if flow["stream"]}
        self.directions = {}
        self.connect(self.streams)
        self.name()

    def connect(self, streams):
        """Groups the streams into directions. The side that accepts sends no hello, so the opposite stream's counts."""
        ordered = {}
        for key, base in streams:
            ordered.setdefault(key, []).append(streams[key, base])
        for key, sockets in ordered.items():
            others = ordered.get(opposite(key), [])
            for index, stream in enumerate(sockets):
                other = others[index] if index < len(others) else None
                number = stream["connection"] or (other["connection"] if other else None)
                stream["direction"] = None
                if number is not None and stream["begins"]:
                    direction = self.directions.setdefault((number, key[0]), Direction(key[0]))
                    direction.headers.update(stream["headers"])
                    stream["direction"] = direction

    def name(self):
        """A push connection's answers use the same connection, or else the next one between the same addresses."""
        pushes = {place: direction for place, direction in self.directions.items() if direction.is_push()}
        for push in pushes.values():
            push.name_pushes()
        free = dict(pushes)
        answers = [place for place in self.directions if place not in pushes]
        same = [(number, ends) for number, ends in answers if (number, ends[4:] + ends[:4]) in free]
        for number, ends in same + [place for place in answers if place not in same]:
            wanted = ends[4:] + ends[:4]
            match = (number, wanted)
            if match not in free:
                match = next((place for place in free if place[1] == wanted), None)
            self.directions[number, ends].name_answers(free.pop(match, None))

    def calls(self, size):
        """The numbers of the calls of bps-perf that all-reduce this many bytes."""
        return sorted({direction.chunks[number].call for direction in self.directions.values()
                       for number, header in direction.headers.items()
                       if header[0] and header[3] == FLOAT32 and 4 * header[2] == size
                       and direction.chunks[number].call is not None})

    def of(self, flow):
        return self.streams.get((flow["key"], flow["base"]))


def parts(stream, offset, length):
    """The chunks that a packet carries: (Chunk, bytes). Instead of a Chunk, 'control', or None if it is unknown."""
    if stream and not stream["begins"]:
        return [("control", length)]
    if stream is None or stream["direction"] is None:
        return [(None, length)]
    begins, numbers, chunks = stream["begins"], stream["numbers"], stream["direction"].chunks
    end = stream["followed"] if stream["followed"] is not None else stream["end"]
    found, at = [], offset
    while at < offset + length:
        index = bisect_right(begins, at) - 1
        stop = min(offset + length, begins[index + 1] if index + 1 < len(begins) else max(end, at + 1))
        if at >= end:
            chunk, stop = None, offset + length
        else:
            chunk = chunks.get(numbers[index] // 2) if index >= 0 else "control"
        if found and found[-1][0] == chunk:
            found[-1] = (chunk, found[-1][1] + stop - at)
        else:
            found.append((chunk, stop - at))
        at = stop
    return found


def span(stream, calls):
    """The offsets at which these calls begin and end in the stream, or None. `calls`: the first and the last number."""
    if stream is None or not stream["begins"] or stream["direction"] is None:
        return None
    named = stream["direction"].chunks
    inside = [number for number, chunk in named.items()
              if chunk.call is not None and calls[0] <= chunk.call <= calls[-1]]
    if not inside:
        return None
    low, high = 2 * min(inside), 2 * max(inside) + 1
    numbers, begins = stream["numbers"], stream["begins"]
    first, behind = bisect_left(numbers, low), bisect_right(numbers, high)
    if first == behind:
        return None
    return begins[first], begins[behind] if behind < len(begins) else stream["end"]
