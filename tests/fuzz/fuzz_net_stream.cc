// A receiving end fed any bytes, in pieces of any size, with receives of any room: it never writes outside the room,
// and a message that it reports is one that the bytes contain.
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "net_plugin/tcp/recv_comm.h"

namespace {

struct Feed {
  std::span<const uint8_t> bytes;
  uint8_t next() {
    const uint8_t first = bytes.empty() ? 0 : bytes.front();
    bytes = bytes.subspan(bytes.empty() ? 0 : 1);
    return first;
  }
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace bps::plugin;
  std::array<int, 2> ends{-1, -1};
  if (size > 4096 || ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) != 0) return 0;
  bps::UniqueFd peer(ends[1]);
  tcp::RecvComm comm{bps::UniqueFd(ends[0])};
  Feed feed{{data, size}};
  const bool wellFramed = feed.next() % 2 == 0;  // else the frames are random as well
  uint64_t number = 0;
  while (!feed.bytes.empty()) {
    const size_t room = feed.next(), piece = std::min<size_t>(feed.next(), feed.bytes.size());
    const tcp::FrameBytes frame = tcp::encodeFrame(piece, number++);
    if (wellFramed && ::send(peer.get(), frame.data(), frame.size(), MSG_NOSIGNAL) < 0) std::abort();
    if (piece > 0 && ::send(peer.get(), feed.bytes.data(), piece, MSG_NOSIGNAL) < 0) std::abort();
    feed.bytes = feed.bytes.subspan(piece);
    std::vector<uint8_t> buffer(room);  // of exactly this size: the sanitizer sees a byte too many
    bps::Result<Request*> request = comm.post(buffer.data(), room);
    if (!request.ok()) return 0;
    bps::Result<Completion> outcome = comm.test(*std::move(request).value());
    if (!outcome.ok()) return 0;
    const Completion completion = std::move(outcome).value();
    if (completion.bytes > room) std::abort();
    if (wellFramed && (!completion.done || completion.bytes != piece)) std::abort();
    if (!completion.done) return 0;  // the buffer goes out of scope
  }
  return 0;
}
