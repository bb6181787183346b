#include "tools/bps_run/warden.h"

#include <fcntl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <set>
#include <utility>

#include "src/base/format.h"
#include "tools/bps_run/key_file.h"

namespace bps {
namespace {

void leaveTerminal() {
  ::setsid();
  const int null = ::open("/dev/null", O_RDWR | O_CLOEXEC);
  for (int fd : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) ::dup2(null, fd);
  for (int number : {SIGINT, SIGTERM, SIGHUP, SIGPIPE}) std::signal(number, SIG_IGN);
}

[[noreturn]] void keepWatch(int pipe, const std::string& directory) {
  leaveTerminal();
  std::set<pid_t> groups;
  pid_t message = 0;
  ssize_t got = 0;
  // A message is written whole: it is smaller than PIPE_BUF.
  while ((got = ::read(pipe, &message, sizeof message)) == sizeof message || (got < 0 && errno == EINTR)) {
    if (got < 0) continue;
    if (message > 0) groups.insert(message);
    else groups.erase(-message);
  }
  for (pid_t group : groups) ::kill(-group, SIGKILL);
  removeKeyDirectory(directory);
  ::_exit(0);
}

}  // namespace

Result<Warden> Warden::start(const std::string& directory) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return systemFailure("pipe", errno);
  UniqueFd read(ends[0]), write(ends[1]);
  const pid_t pid = ::fork();
  if (pid < 0) return systemFailure("fork", errno);
  if (pid == 0) {
    write.reset();
    keepWatch(read.get(), directory);
  }
  return Warden(pid, std::move(write));
}

Warden::Warden(pid_t pid, UniqueFd pipe) : pid_(pid), pipe_(std::move(pipe)) {}

Warden::Warden(Warden&& other) noexcept : pid_(std::exchange(other.pid_, -1)), pipe_(std::move(other.pipe_)) {}

Warden::~Warden() {
  if (pid_ < 0) return;
  pipe_.reset();
  while (::waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

void Warden::tell(pid_t message) const {
  [[maybe_unused]] const ssize_t written = ::write(pipe_.get(), &message, sizeof message);
}

}  // namespace bps
