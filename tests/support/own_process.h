// What this process uses, for tests that nothing leaks.
#pragma once
#include <cstddef>
#include <filesystem>
#include <iterator>

namespace bps::test {

// The count contains the descriptor with which the function itself reads the directory.
inline size_t openDescriptors() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/fd"), {}));
}

inline size_t runningThreads() {
  return static_cast<size_t>(std::distance(std::filesystem::directory_iterator("/proc/self/task"), {}));
}

}  // namespace bps::test
