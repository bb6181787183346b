// Fuzzes a shared-memory connection with a peer that changes the shared memory at any time. The local end must never
// write outside its buffers or access memory outside the ring.
#include <sys/socket.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "net_plugin/link/handle_extension.h"
#include "net_plugin/shm/shm_listener.h"
#include "tests/fuzz/states/input.h"

namespace {

using namespace bps::plugin;
using bps::fuzz::Input;

// Changes the shared memory in one way: writes a valid frame, changes a read or write position, or overwrites bytes.
void corruptMemory(const shm::RingMemory& memory, Input& input, uint16_t message) {
  const uint64_t what = input.wide(1);
  if (what >= 128) {  // write a valid frame of any size
    const shm::Frame frame{.bytes = static_cast<uint32_t>(input.wide(2)), .number = message};
    const uint64_t at = memory.header->written;
    if (at % memory.capacity + sizeof frame <= memory.capacity)
      std::memcpy(memory.data + at % memory.capacity, &frame, sizeof frame);
    memory.header->written += sizeof frame + frame.bytes;
    return;
  }
  std::atomic<uint64_t>& position = what % 2 == 0 ? memory.header->written : memory.header->read;
  if (what % 8 < 4) position += input.wide(2);
  else if (what % 8 < 6) position = input.wide(8);
  else memory.header->wakeReader = memory.header->wakeWriter = input.wide(2);
  const std::span<const uint8_t> bytes = input.take(input.wide(1));
  if (!bytes.empty()) std::memcpy(memory.data + input.wide(2) % (memory.capacity - 256), bytes.data(), bytes.size());
}

template <class End>
void exercise(Input input) {
  std::array<int, 2> ends{-1, -1};
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends.data()) != 0) return;
  bps::UniqueFd peer(ends[1]), ours(ends[0]);
  bps::Result<bps::UniqueFd> made = shm::Segment::createMemory();
  if (!made.ok()) return;
  const bps::UniqueFd memory = std::move(made).value();
  bps::Result<shm::Segment> mine = shm::Segment::map(memory.get()), theirs = shm::Segment::map(memory.get());
  if (!mine.ok() || !theirs.ok()) std::abort();
  const shm::Segment other = std::move(theirs).value();
  std::vector<std::vector<uint8_t>> buffers;  // each has the exact size, so that the sanitizer detects overruns
  End comm(std::move(mine).value(), std::move(ours));
  while (!input.empty()) {
    buffers.emplace_back(input.wide(2));
    bps::Result<Request*> posted = comm.post(buffers.back().data(), buffers.back().size());
    if (!posted.ok()) return;
    Request* request = std::move(posted).value();
    if (request == nullptr) return;
    const size_t room = request->bytes;
    corruptMemory(other.ring(), input, static_cast<uint16_t>(buffers.size() - 1));
    bps::Result<bool> ready = comm.arm();
    bps::Result<Completion> outcome = comm.test(*request);
    if (!ready.ok() || !outcome.ok()) return;
    if (std::move(outcome).value().bytes > room) std::abort();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 4096) return 0;
  const std::span<const uint8_t> bytes(data, size);
  link::readShmExtension(bytes);
  if (shm::checkHello(bytes, shm::Token{}).ok() && size < 24) std::abort();
  exercise<shm::RecvComm>({data, size});
  exercise<shm::SendComm>({data, size});
  return 0;
}
