#include "src/base/io/fd.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "src/base/format.h"

namespace bps {

void UniqueFd::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

Result<Doorbell> Doorbell::create() {
  UniqueFd fd(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!fd) return systemFailure("eventfd", errno);
  return Doorbell(std::move(fd));
}

void Doorbell::ring() const {
  const uint64_t one = 1;
  // The write fails only if the counter is full. In that case a wake-up is already pending.
  [[maybe_unused]] const ssize_t written = ::write(fd_.get(), &one, sizeof one);
}

void Doorbell::clear() const {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t got = ::read(fd_.get(), &count, sizeof count);
}

}  // namespace bps
