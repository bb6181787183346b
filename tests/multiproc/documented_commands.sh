#!/usr/bin/env bash
# The commands of the documents: every block of commands is parsed, and its programs, options and variables exist. The
# blocks that this machine can run are run, page by page, in a network of its own. document_blocks.py describes the
# comments in the pages that say how. Usage: documented_commands.sh BUILD [PAGE...]
BUILD=$1; . "$(dirname "$0")/lib.sh"
shift
unset BPS_SOCKET_IFNAME NCCL_IB_DISABLE BPS_TIMEOUT BPS_KEY_FILE
command -v python3 > /dev/null || skip "no python3"
helper=$(realpath "$(dirname "$0")")/documented_commands.py
tree=$(realpath "$(dirname "$0")/../..")
private=(unshare --net --mount --pid --fork --kill-child --mount-proc)
[ "$(id -u)" = 0 ] || private=(unshare --user --map-root-user "${private[@]:1}")
# The commands of a page run in namespaces of their own, so that they may use fixed ports, and leave nothing behind.
if "${private[@]}" sh -c 'ip link set lo up && ip link add link0 type veth peer name link1 && mount --bind /etc/hosts /etc/hosts' \
    > "$WORK/unshare" 2>&1; then
  private+=(env UNSHARED=1)
else
  private=()
fi

# refuses ERROR TEXT: a page with this text fails, and the error is printed.
refuses() {
  rm -rf "$WORK/pages" "$WORK/run"
  mkdir -p "$WORK/pages/docs"
  cp "$tree/docs/environment.md" "$WORK/pages/docs"
  cp "$tree/Makefile" "$WORK/pages"
  printf '%b' "$2" > "$WORK/pages/page.md"
  BPS_TEST_BLOCK_SECONDS=2 timeout 60 "${private[@]}" "$helper" "$WORK/pages" "$BUILD" "$WORK/run" page.md > "$WORK/out" 2>&1 &&
    fail "this page passes: $2"
  grep -q -- "$1" "$WORK/out" || fail "no line \"$1\" for the page $2: $(cat "$WORK/out")"
}
refuses 'page.md:1: bps-perf has no option --sizes' '```sh\nbps-run -n 2 -- bps-perf -b 8 --sizes 8\n```\n'
refuses 'page.md:2: bps-topo plan has no option --svgs' '<!-- a comment -->\nSay `bps-topo plan --svgs x`.\n'
refuses 'page.md:2: bps-topo has no option --workers' '<!-- test: several machines -->\n```sh\nsudo bps-topo --workers 4\n```\n'
refuses 'page.md:1: there is no program bps-look' '```sh\nmpirun -n 2 bps-look\n```\n'
refuses 'page.md:1: there is no variable BPS_SERVER$' '```sh\nexport BPS_SERVER=a:1\n```\n'
refuses 'page.md:1: there is no perf/nothing' '```sh\nperf/nothing -n 2\n```\n'
refuses 'page.md:1: make has no target everything' '```sh\nmake everything\n```\n'
refuses 'page.md:1: bash cannot parse: (true' '```sh\n(true\n```\n'
refuses 'page.md:1: a block in ""' '```\ntrue\n```\n'
refuses 'page.md:3: an indented block' 'Say:\n\n    true\n'
refuses 'page.md:1: a command in a block of text' '```text\nbps-topo show --json\n```\n'
refuses 'page.md:1: the block does not end' '```sh\ntrue\n'
refuses 'test: sometimes --> is none of' '<!-- test: sometimes -->\n```sh\ntrue\n```\n'
refuses 'page.md:2: the comment .* is above no block' '<!-- test: root -->\nText\n'
if [ ${#private[@]} -gt 0 ]; then
  refuses 'page.md:1: status 1 of: false' '```sh\ntrue\nfalse\ntrue\n```\n'
  refuses 'page.md:1: status 3 of: (exit 3) && true' '```sh\n(exit 3) && true\ntrue\n```\n'
  refuses 'page.md:5: has not ended after 2 s' '```sh\ntrue\n```\n\n```sh\nsleep 60\n```\n'
  refuses 'page.md:2: status ended of: bps-server --key-file none' '<!-- test: on cpu1 -->\n```sh\nbps-server --key-file none\n```\n'
fi

timeout 200 "${private[@]}" "$helper" "$tree" "$BUILD" "$WORK/all" "$@" || fail "status $?"
[ ${#private[@]} -gt 0 ] || skip "the commands were checked but not run: $(tail -n 1 "$WORK/unshare")"
