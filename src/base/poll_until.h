// pollUntil: waits for a condition that nobody signals. Any thread may call it.
#pragma once
#include <algorithm>
#include <chrono>
#include <thread>

#include "src/base/deadline.h"

namespace bps {

// Calls `done` until it returns true or the deadline has passed, with sleeps of 20 us at first and of 1 ms in the end.
template <class Done>
void pollUntil(const Done& done, Deadline deadline) {
  auto pause = std::chrono::microseconds(20);
  while (!done() && !deadline.passed()) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
}

}  // namespace bps
