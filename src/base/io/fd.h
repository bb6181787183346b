// UniqueFd: owns one file descriptor. Doorbell: an eventfd by which any thread or process wakes a sleeping one.
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

// Rings are counted by the kernel, so a ring between a check and the sleep that follows is never lost.
// ring() may be called from any thread; everything a thread wrote before ring() is visible to the thread whose
// clear() or poll saw it (the eventfd's read and write order memory through the kernel).
class Doorbell {
 public:
  static Result<Doorbell> create();
  explicit Doorbell(UniqueFd fd) : fd_(std::move(fd)) {}  // adopts an eventfd received from another process

  void ring() const;
  void clear() const;
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace bps
