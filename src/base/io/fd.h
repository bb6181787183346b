// UniqueFd: holds a file descriptor and closes it in the destructor. Doorbell: an eventfd that
// wakes a sleeping thread or process.
#pragma once
#include <utility>

#include "src/base/status.h"

namespace bps {

class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    if (this != &other) reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  int get() const { return fd_; }
  explicit operator bool() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

// The kernel keeps the counter, so a ring between a thread's last check and its sleep is not lost.
// Any thread may call ring(). A thread that sees the ring by poll or clear() also sees all writes
// made before ring(), because reads and writes of an eventfd synchronize in the kernel.
class Doorbell {
 public:
  static Result<Doorbell> create();
  explicit Doorbell(UniqueFd fd) : fd_(std::move(fd)) {}  // takes an eventfd that another process has sent

  void ring() const;
  void clear() const;
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace bps
