// Patience: sleeps between looks at something that others bring about: briefly at first.
#pragma once
#include <algorithm>
#include <chrono>
#include <thread>

namespace bps::nccl {

class Patience {
 public:
  void pause() {
    const int step = std::min(rounds_++ / 64, 5);
    std::this_thread::sleep_for(std::chrono::microseconds(20 << step));
  }

 private:
  int rounds_ = 0;
};

}  // namespace bps::nccl
