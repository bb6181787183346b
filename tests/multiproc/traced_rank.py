"""A rank that makes CALLS all-reduces of BYTES, and sleeps before each call: traced_rank.py LIBBPS CALLS BYTES SECONDS [leave]"""
import ctypes
import sys
import time

bps = ctypes.CDLL(sys.argv[1])
calls, size, pause = int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4])
UINT8, SUM = 1, 0


def check(result):
    if result != 0:
        bps.bpsGetLastError.restype = ctypes.c_char_p
        sys.exit(f"bps: {bps.bpsGetLastError(None).decode()}")


comm = ctypes.c_void_p()
check(bps.bpsCommInitFromEnv(ctypes.byref(comm)))
print("started", flush=True)
data = (ctypes.c_uint8 * size)()
for _ in range(calls):
    time.sleep(pause)
    check(bps.bpsAllReduce(data, data, ctypes.c_size_t(size), UINT8, SUM, comm, None))
    check(bps.bpsHostStreamSynchronize(None))
if "leave" not in sys.argv[5:]:  # the process exits without it
    check(bps.bpsCommDestroy(comm))
