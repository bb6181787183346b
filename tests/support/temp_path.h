// tempPath: names of temporary files that no other running test program uses.
#pragma once
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <stdexcept>
#include <string>

namespace bps::test {

// A folder of this process, which is removed with all its files when the process exits.
class TempFolder {
 public:
  TempFolder() : path_(testing::TempDir() + "bps_test_XXXXXX") {
    if (::mkdtemp(path_.data()) == nullptr) throw std::runtime_error("cannot make the folder " + path_);
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    if (::getpid() == owner_) std::filesystem::remove_all(path_, ignored);  // not in a child process
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  const pid_t owner_ = ::getpid();
};

// Returns a path in the folder. The tests of one program run in several processes at the same time.
inline std::string tempPath(const std::string& name) {
  static const TempFolder folder;
  return folder.path() + "/" + name;
}

}  // namespace bps::test
