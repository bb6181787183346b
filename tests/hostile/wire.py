"""Encodes the control protocol's messages as src/wire does, and also messages that src/wire never sends."""
import enum
import struct

VERSION = 17
ROSTER_VERSION = 8
MAGIC = 0x00737062
SERVER = 3  # the purpose of a hub's connection to a server
JOIN = 1    # the purpose of a rank's connection to its hub


class Type(enum.IntEnum):
    HELLO = 1
    CHALLENGE = 2
    PROOF = 3
    WELCOME = 4
    REFUSAL = 5
    JOIN = 8
    ROSTER = 9
    OFFER = 10
    OPEN_JOB = 11
    JOB_OPENED = 12
    BEGIN = 13
    CONTROL_OP_INPUT = 14
    CONTROL_OP_RESULT = 15
    HEARTBEAT = 16
    FAILURE = 17
    SUSPECT = 18
    LEFT = 19
    GOODBYE = 20


GATHER, EXCHANGE, BARRIER = 0, 1, 2
MEASURED = (1 << 64) - 1


def blob(value):
    value = value.encode() if isinstance(value, str) else value
    return struct.pack("<I", len(value)) + value


def header(length, kind, job, sequence, version=VERSION):
    return struct.pack("<IHHQI", length, kind, version, job, sequence)


def hello(purpose, timeout_ms, nonce, public, dialled, version=VERSION):
    return struct.pack("<IHBBI", MAGIC, version, purpose, 1, timeout_ms) + nonce + public + blob(dialled)


def refusal(kind, code, text):
    return struct.pack("<Bi", kind, code) + blob(text)


def failure(code, text):
    return struct.pack("<i", code) + blob(text)


def open_job(proposal, endpoint, roster):
    return struct.pack("<II", proposal, endpoint) + blob(roster)


def control_op_result(kind, number, blobs):
    return struct.pack("<BII", kind, number, len(blobs)) + b"".join(blob(b) for b in blobs)


def roster(job, machines, ranks_per_machine=1, rails=0, partition=4 << 20, timeout_ms=10000):
    """Encodes the roster of a job of `machines` equal machines and one server."""
    ranks = machines * ranks_per_machine
    out = [struct.pack("<HQI", ROSTER_VERSION, job, ranks)]
    for rank in range(ranks):
        machine = rank // ranks_per_machine
        out.append(blob(f"id{machine}") + blob("host"))
        out.append(struct.pack("<III", 1, machine, rank % ranks_per_machine) + blob(b"\0"))  # without a standby address
    out.append(struct.pack("<I", machines))
    for machine in range(machines):
        of_machine = range(machine * ranks_per_machine, (machine + 1) * ranks_per_machine)
        out.append(struct.pack(f"<I{ranks_per_machine}Id", ranks_per_machine, *of_machine, 0.0))
    out.append(struct.pack("<I", 1) + blob("server") + struct.pack("<dB", 0.0, 1))
    out.append(struct.pack("<QQQIIBIIIBI", partition, MEASURED, MEASURED, timeout_ms, rails, 0, 2000, 0, 0, 0, 0))
    return b"".join(out)
