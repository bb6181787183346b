// Backoff: the sleeps of a thread that polls for an event. A sleep takes 20 us at first, and 640 us
// after 320 sleeps. One thread uses a Backoff.
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
