#include "tools/net_plugin_check/bench/raw_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

namespace bps::check {
namespace {

// The other side's file, by way of /proc.
Result<UniqueFd> shareFile(Side& side, size_t bytes) {
  if (!side.sends()) {
    UniqueFd file(::memfd_create("net-plugin-check", MFD_CLOEXEC));
    if (!file || ::ftruncate(file.get(), static_cast<off_t>(bytes)) != 0) return systemFailure("memfd_create", errno);
    const std::string path = fmt::format("/proc/{}/fd/{}", ::getpid(), file.get());
    BPS_TRY(side.tell({reinterpret_cast<const uint8_t*>(path.data()), path.size()}));
    BPS_TRY(side.hear());  // it has been opened
    return file;
  }
  const Blob told = BPS_TRY(side.hear());
  const std::string path(told.begin(), told.end());
  UniqueFd file(::open(path.c_str(), O_RDWR | O_CLOEXEC));
  if (!file) return systemFailure(path, errno);
  BPS_TRY(side.tell());
  return file;
}

}  // namespace

Result<RawMemory> RawMemory::create(Side& side, size_t bytes) {
  const size_t all = kHeaderBytes + bytes;
  const UniqueFd file = BPS_TRY(shareFile(side, all));
  void* base = ::mmap(nullptr, all, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, file.get(), 0);
  if (base == MAP_FAILED) return systemFailure("mmap", errno);
  return RawMemory(static_cast<uint8_t*>(base), all);
}

RawMemory::~RawMemory() {
  if (base_ != nullptr) ::munmap(base_, bytes_);
}

Status RawMemory::awaitTurn(Side& side, uint32_t turn) {
  const Deadline deadline = side.patience();
  for (unsigned rounds = 1; this->turn().load(std::memory_order_acquire) != turn; ++rounds) {
    if (rounds % 256 == 0) std::this_thread::yield();
    if (rounds % 65536 == 0 && deadline.passed()) return {Code::kTimeout, "the other side's turn does not end"};
  }
  return {};
}

void RawMemory::passTurn(uint32_t turn) { this->turn().store(turn, std::memory_order_release); }

}  // namespace bps::check
