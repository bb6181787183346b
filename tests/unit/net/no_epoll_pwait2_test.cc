// Tests blocking waits on kernels and sandboxes that lack the system call epoll_pwait2. A seccomp filter makes
// epoll_pwait2 fail in a child process.
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>

#include "src/net/waiter.h"

namespace bps::test {
namespace {

using std::chrono::microseconds;

bool refuseSystemCall(uint32_t number, uint32_t error) {
  std::array<sock_filter, 4> rules{{
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, number, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | error),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  }};
  const sock_fprog program{static_cast<unsigned short>(rules.size()), rules.data()};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program, 0, 0) == 0;
}

// Runs the test in a child process, where epoll_pwait2 fails with `error`. Returns 0 for success.
int sleepWithout(uint32_t error) {
  Result<Doorbell> bell = Doorbell::create();
  if (!bell.ok()) return 2;
  const Doorbell rung = std::move(bell).value();
  Result<net::Waiter> made = net::Waiter::create(rung);
  if (!made.ok()) return 2;
  net::Waiter waiter = std::move(made).value();
  if (!refuseSystemCall(SYS_epoll_pwait2, error)) return 77;
  const auto start = std::chrono::steady_clock::now();
  std::array<epoll_event, 1> events{};
  Result<size_t> slept = net::waitOnEpoll(waiter.fd(), microseconds(300), events);
  if (!slept.ok() || std::move(slept).value() != 0) return 3;
  if (std::chrono::steady_clock::now() - start < microseconds(300)) return 4;
  rung.ring();
  slept = net::waitOnEpoll(waiter.fd(), std::chrono::hours(1), events);
  if (!slept.ok() || std::move(slept).value() != 1) return 5;
  rung.ring();
  return waiter.wait(std::chrono::hours(1)).ok() ? 0 : 6;
}

class OldKernel : public testing::TestWithParam<uint32_t> {};

TEST_P(OldKernel, SleepsWithoutEpollPwait2) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(sleepWithout(GetParam()));
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << status;
  if (WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp filter here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

INSTANTIATE_TEST_SUITE_P(Refused, OldKernel, testing::Values(ENOSYS, EPERM));

}  // namespace
}  // namespace bps::test
