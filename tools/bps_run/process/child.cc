#include "tools/bps_run/process/child.h"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstdlib>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr int kCannotRun = 126, kNotFound = 127;

struct Pipe {
  UniqueFd read, write;
};

// `ours` is the index of bps-run's end, which never blocks: 0 for reading and 1 for writing.
Result<Pipe> makePipe(size_t ours) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return systemFailure("pipe", errno);
  ::fcntl(ends[ours], F_SETFL, O_NONBLOCK);
  return Pipe{UniqueFd(ends[0]), UniqueFd(ends[1])};
}

std::vector<char*> pointers(const std::vector<std::string>& texts) {
  std::vector<char*> out;
  out.reserve(texts.size() + 1);
  for (const std::string& text : texts) out.push_back(const_cast<char*>(text.c_str()));
  out.push_back(nullptr);
  return out;
}

void resetSignals() {
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  std::signal(SIGPIPE, SIG_DFL);
}

// Runs in the new process. The function never returns.
[[noreturn]] void execChild(const ChildSpec& spec, pid_t parent, int input, int output, int error) {
  ::setpgid(0, 0);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (::getppid() != parent) ::_exit(kCannotRun);  // the parent process died before this process called prctl
  resetSignals();
  const UniqueFd null(::open("/dev/null", O_RDONLY));
  ::dup2(input >= 0 ? input : null.get(), STDIN_FILENO);
  if (output >= 0) ::dup2(output, STDOUT_FILENO);
  if (error >= 0) ::dup2(error, STDERR_FILENO);
  const std::vector<char*> arguments = pointers(spec.argv);
  const std::vector<char*> environment = pointers(spec.environment);
  ::execvpe(arguments[0], arguments.data(), environment.data());
  const int why = errno;
  std::perror(arguments[0]);
  ::_exit(why == ENOENT ? kNotFound : kCannotRun);
}

}  // namespace

Result<Child> Child::start(const ChildSpec& spec) {
  Pipe input, output, error;
  if (!spec.input.empty()) input = BPS_TRY(makePipe(1));
  if (spec.pipes) {
    output = BPS_TRY(makePipe(0));
    error = BPS_TRY(makePipe(0));
  }
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return systemFailure("cannot start " + spec.argv[0], errno);
  if (pid == 0) execChild(spec, parent, input.read.get(), output.write.get(), error.write.get());
  ::setpgid(pid, pid);  // both processes call setpgid, so the group exists whichever process continues first
  Child child(pid, std::move(output.read), std::move(error.read));
  child.input_ = std::move(input.write);
  child.unsent_ = spec.input;
  child.feed();
  return child;
}

void Child::feed() {
  while (!unsent_.empty() && input_) {
    const ssize_t sent = ::write(input_.get(), unsent_.data(), unsent_.size());
    if (sent < 0) {
      if (errno != EAGAIN && errno != EINTR) unsent_.clear();  // the child has closed its input: it is about to end
      return;
    }
    unsent_.erase(0, static_cast<size_t>(sent));
  }
}

Child::Child(Child&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      output_(std::move(other.output_)),
      error_(std::move(other.error_)),
      input_(std::move(other.input_)),
      unsent_(std::move(other.unsent_)) {}

Child::~Child() {
  if (pid_ < 0) return;
  signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void Child::signal(int number) {
  if (input_ && number != SIGKILL) input_.reset();
  else if (pid_ > 0) ::kill(-pid_, number);
}

std::optional<ExitInfo> Child::reap() {
  if (pid_ < 0) return {};
  siginfo_t info{};
  if (::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid == 0) return {};
  signal(SIGKILL);  // must precede waitpid: the zombie keeps the system from reusing the group's number
  ::waitpid(pid_, nullptr, 0);
  pid_ = -1;
  if (info.si_code == CLD_EXITED) return ExitInfo{info.si_status, false};
  return ExitInfo{128 + info.si_status, true};
}

}  // namespace bps
