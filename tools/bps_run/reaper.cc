#include "tools/bps_run/reaper.h"

#include <fcntl.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <set>
#include <utility>

#include "src/base/format.h"
#include "tools/bps_run/environment.h"

namespace bps {
namespace {

constexpr const char* kKeyName = "/key";

struct KeyFile {
  std::string directory;
  std::string path;
};

// Removes the key file and its directory, if they exist.
void removeKey(const KeyFile& key) {
  ::unlink(key.path.c_str());
  ::rmdir(key.directory.c_str());
}

Result<KeyFile> makeKey() {
  const std::string parent = environmentValue("TMPDIR");
  std::string directory = (parent.empty() ? "/tmp" : parent) + "/bps-run-XXXXXX";
  if (::mkdtemp(directory.data()) == nullptr) return systemFailure("cannot make a directory " + directory, errno);
  KeyFile made{directory, directory + kKeyName};
  std::array<char, 32> key;
  const UniqueFd fd(::open(made.path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600));
  if (!fd || ::getrandom(key.data(), key.size(), 0) != static_cast<ssize_t>(key.size()) ||
      ::write(fd.get(), key.data(), key.size()) != static_cast<ssize_t>(key.size())) {
    const int why = errno;
    removeKey(made);
    return systemFailure("cannot write the key file " + made.path, why);
  }
  return made;
}

void leaveTerminal() {
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(number, SIG_IGN);
}

[[noreturn]] void runReaper(int pipe, const KeyFile& key) {
  leaveTerminal();
  std::set<pid_t> groups;
  pid_t message = 0;
  ssize_t got = 0;
  // A message is smaller than PIPE_BUF, so each write and each read transfers an entire message.
  while ((got = ::read(pipe, &message, sizeof message)) == sizeof message || (got < 0 && errno == EINTR)) {
    if (got < 0) continue;
    if (message > 0) groups.insert(message);
    else groups.erase(-message);
  }
  for (pid_t group : groups) ::kill(-group, SIGKILL);
  if (!key.path.empty()) removeKey(key);
  ::_exit(0);
}

}  // namespace

Result<Reaper> Reaper::start(bool withKey) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return systemFailure("pipe", errno);
  UniqueFd read(ends[0]), write(ends[1]);
  const KeyFile key = withKey ? BPS_TRY(makeKey()) : KeyFile{};
  const pid_t pid = ::fork();
  if (pid == 0) {
    write.reset();
    runReaper(read.get(), key);
  }
  if (pid > 0) return Reaper(pid, std::move(write), key.path);
  const int why = errno;
  if (withKey) removeKey(key);
  return systemFailure("fork", why);
}

Reaper::Reaper(pid_t pid, UniqueFd pipe, std::string keyPath)
    : pid_(pid), pipe_(std::move(pipe)), keyPath_(std::move(keyPath)) {}

Reaper::Reaper(Reaper&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)), pipe_(std::move(other.pipe_)), keyPath_(std::move(other.keyPath_)) {}

Reaper::~Reaper() {
  if (pid_ < 0) return;
  pipe_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Reaper::tell(pid_t message) const {
  [[maybe_unused]] const ssize_t written = ::write(pipe_.get(), &message, sizeof message);
}

}  // namespace bps
