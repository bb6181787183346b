// Fuzzes the receiving end of a TCP connection with one or several sockets. Arbitrary input arrives in pieces of any
// size, for receives of any size. The receiving end must never write outside a buffer, and must report only messages
// that the input contains.
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <vector>

#include "net_plugin/stream/recv_comm.h"

namespace {

using namespace bps::plugin;

struct Feed {
  std::span<const uint8_t> bytes;
  uint8_t next() {
    const uint8_t first = bytes.empty() ? 0 : bytes.front();
    bytes = bytes.subspan(bytes.empty() ? 0 : 1);
    return first;
  }
};

struct Sockets {
  explicit Sockets(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      std::array<int, 2> ends{-1, -1};
      if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) != 0) std::abort();
      peers.emplace_back(ends[1]);
      ours.emplace_back(ends[0]);
    }
  }
  void send(size_t index, const void* data, size_t size) const {
    if (size > 0 && ::send(peers[index % peers.size()].get(), data, size, MSG_NOSIGNAL) < 0) std::abort();
  }
  std::vector<bps::UniqueFd> peers, ours;
};

void oneSocket(Feed feed) {
  Sockets sockets(1);
  stream::RecvComm comm(std::move(sockets.ours));
  const uint8_t framing = feed.next() % 3;
  const bool wellFramed = framing == 0;  // if false, the input has random slices or random bytes
  uint64_t number = 0;
  while (!feed.bytes.empty()) {
    const size_t room = feed.next();
    size_t piece = std::min<size_t>(feed.next(), feed.bytes.size());
    stream::Slice slice{number++, piece, 0, piece};
    if (framing == 1) slice = {feed.next() % 4U, feed.next(), feed.next() % 4U, feed.next()};
    const stream::FrameBytes frame = stream::encodeFrame(slice);
    piece = std::min(piece, feed.bytes.size());
    if (framing < 2) sockets.send(0, frame.data(), stream::frameBytesOf(slice));
    sockets.send(0, feed.bytes.data(), piece);
    feed.bytes = feed.bytes.subspan(piece);
    std::vector<uint8_t> buffer(room);  // has the exact size, so that the sanitizer detects an overrun of one byte
    bps::Result<Request*> request = comm.post(buffer.data(), room);
    if (!request.ok()) return;
    bps::Result<Completion> outcome = comm.test(*std::move(request).value());
    if (!outcome.ok()) return;
    const Completion completion = std::move(outcome).value();
    if (completion.bytes > room) std::abort();
    if (wellFramed && (!completion.done || completion.bytes != piece)) std::abort();
    if (!completion.done) return;  // return, because `buffer` goes out of scope
  }
}

// Sends random bytes, or slices of any message in any order on any socket, or closes a socket.
void severalSockets(Feed feed) {
  Sockets sockets(2 + feed.next() % 3);
  stream::RecvComm comm(std::move(sockets.ours));
  std::vector<std::vector<uint8_t>> buffers;
  std::vector<Request*> requests;
  while (!feed.bytes.empty()) {
    const uint8_t what = feed.next(), index = feed.next();
    if (what % 4 == 0) {
      buffers.emplace_back(feed.next());
      bps::Result<Request*> posted = comm.post(buffers.back().data(), buffers.back().size());
      if (!posted.ok()) return;
      Request* request = std::move(posted).value();
      if (request != nullptr) requests.push_back(request);
      else buffers.pop_back();
    } else if (what % 4 == 1) {
      const stream::Slice slice{feed.next() % 8U, feed.next(), feed.next(), feed.next()};
      const stream::FrameBytes frame = stream::encodeFrame(slice);
      sockets.send(index, frame.data(), stream::frameBytesOf(slice));
    } else if (what == 255) {
      ::shutdown(sockets.peers[index % sockets.peers.size()].get(), SHUT_WR);
      return;
    }
    const size_t piece = what % 4 == 2 ? std::min<size_t>(feed.next(), feed.bytes.size()) : 0;
    sockets.send(index, feed.bytes.data(), piece);
    feed.bytes = feed.bytes.subspan(piece);
    if (!comm.arm().ok() || requests.empty()) continue;
    const size_t room = requests.front()->bytes;
    bps::Result<Completion> outcome = comm.test(*requests.front());
    if (!outcome.ok()) return;
    const Completion completion = std::move(outcome).value();
    if (completion.done && completion.bytes > room) std::abort();
    if (completion.done) requests.erase(requests.begin());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  oneSocket({{data, size}});
  severalSockets({{data, size}});
  return 0;
}
