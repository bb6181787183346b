#!/usr/bin/env bash
# bps-perf shows which row of a long table it measures, on a terminal only: never in a file.
BUILD=$1; . "$(dirname "$0")/lib.sh"
command -v python3 > /dev/null || skip "no python3"
# The progress line: standard error is a terminal, standard output a file. Then both are files.
cat > "$WORK/terminal.py" << 'PYTHON'
import os, pty, subprocess, sys
master, slave = pty.openpty()
with open(sys.argv[1], "wb") as out:
    process = subprocess.Popen(sys.argv[2:], stdin=subprocess.DEVNULL, stdout=out, stderr=slave)
os.close(slave)
seen = b""
try:
    while data := os.read(master, 4096):
        seen += data
except OSError:
    pass  # the other end is closed
sys.stdout.buffer.write(seen)
sys.exit(process.wait())
PYTHON
sweep=("$BIN/bps-perf" -t 2 -b 256K -e 1M -f 2 -n 500 -N 8 -c 0)
timeout 60 python3 "$WORK/terminal.py" "$WORK/table" "${sweep[@]}" > "$WORK/seen" || fail "bps-perf: $(cat "$WORK/seen")"
grep -qP '\r\x1b\[Kbps-perf: row [0-9]+ of 24: [0-9]+ bytes, float sum, (in|out of) place, [0-9]+ s' "$WORK/seen" ||
  fail "no progress line on a terminal: $(cat -v "$WORK/seen")"
tail -c 4 "$WORK/seen" | grep -qP '\r\x1b\[K$' || fail "the progress line is left: $(cat -v "$WORK/seen")"
grep -q $'\r' "$WORK/table" && fail "the progress line is in the table"
timeout 60 "${sweep[@]}" > "$WORK/table" 2> "$WORK/err" || fail "bps-perf: $(cat "$WORK/err")"
[ ! -s "$WORK/err" ] || fail "bps-perf writes to a file: $(cat -v "$WORK/err")"
