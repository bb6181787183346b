#include "tools/net_plugin_check/bench/plain_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace bps::check {
namespace {

// Shares a file between the sides. The receiving side creates the file, and the sending side opens
// it through /proc.
Result<UniqueFd> shareFile(Side& side, size_t bytes) {
  if (!side.sends()) {
    UniqueFd file(::memfd_create("net-plugin-check", MFD_CLOEXEC));
    if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return systemFailure("memfd_create", errno);
    const std::string path = fmt::format("/proc/{}/fd/{}", ::getpid(), file.get());
    BPS_TRY(side.sendToPeer({reinterpret_cast<const uint8_t*>(path.data()), path.size()}));
    BPS_TRY(side.receiveFromPeer());  // waits until the sending side has opened the file
    return file;
  }
  const Blob told = BPS_TRY(side.receiveFromPeer());
  const std::string path(told.begin(), told.end());
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) return systemFailure(path, errno);
  BPS_TRY(side.sendToPeer());
  return file;
}

}  // namespace

Result<PlainMemory> PlainMemory::create(Side& side, size_t bytes) {
  const size_t all = kHeaderBytes + bytes;
  const UniqueFd file = BPS_TRY(shareFile(side, all));
  void* base = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (base == MAP_FAILED) return systemFailure("mmap", errno);
  return PlainMemory(static_cast<uint8_t*>(base), all);
}

PlainMemory::~PlainMemory() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

Status PlainMemory::waitForToken(Side& side, uint32_t token) {
  const Deadline deadline = side.makeDeadline();
  for (unsigned rounds = 1; this->token().load(std::memory_order_acquire) != token; ++rounds) {
    if (rounds % 256 == 0) std::this_thread::yield();
    if (rounds % 65536 == 0 && deadline.passed()) return {Code::kTimeout, "the other side does not pass the token"};
  }
  return {};
}

void PlainMemory::passToken(uint32_t token) { this->token().store(token, std::memory_order_release); }

}  // namespace bps::check
