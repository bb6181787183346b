// Backoff: the sleeps of a thread that polls for an event: 20 us at first, 640 us after 320 sleeps. Threads: one.
#pragma once
#include <algorithm>
#include <chrono>
#include <thread>

namespace bps::nccl {

class Backoff {
 public:
  void pause() {
    const int step = std::min(pauses_++ / 64, 5);
    std::this_thread::sleep_for(std::chrono::microseconds(20 << step));
  }

 private:
  int pauses_ = 0;
};

}  // namespace bps::nccl
