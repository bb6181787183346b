#include "tools/bps_run/key_file.h"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>

#include "src/base/fd.h"
#include "src/base/format.h"

namespace bps {
namespace {

constexpr const char* kName = "/key";

}  // namespace

Result<KeyFile> makeKeyFile() {
  const char* parent = ::getenv("TMPDIR");
  std::string directory = fmt::format("{}/bps-run-XXXXXX", parent != nullptr && *parent != '\0' ? parent : "/tmp");
  if (::mkdtemp(directory.data()) == nullptr) return systemFailure("cannot make a directory " + directory, errno);
  KeyFile made{directory, directory + kName};
  std::array<char, 32> key;
  const UniqueFd fd(::open(made.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd || ::getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size()) ||
      ::write(fd.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size())) {
    const int why = errno;
    removeKeyDirectory(directory);
    return systemFailure("cannot write the key file " + made.path, why);
  }
  return made;
}

void removeKeyDirectory(const std::string& directory) {
  ::unlink((directory + kName).c_str());
  ::rmdir(directory.c_str());
}

}  // namespace bps
