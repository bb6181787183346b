// tempPath: names of temporary files that no other running test program uses.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <string>

namespace bps::test {

// Returns a path in the folder for temporary files. It differs between processes, because the tests of one program run
// in several processes at the same time.
inline std::string tempPath(const std::string& name) {
  return testing::TempDir() + "bps_" + name + "_" + std::to_string(::getpid());
}

}  // namespace bps::test
