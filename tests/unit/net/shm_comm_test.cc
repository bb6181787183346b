// The ends of a connection through shared memory, each against a peer that dies or writes what it likes.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <fstream>

#include "net_plugin/shm/recv_comm.h"
#include "net_plugin/shm/send_comm.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::plugin::shm {
namespace {

using test::kPatience;
using test::randomBytes;
using test::valueOf;
using Clock = std::chrono::steady_clock;

template <class T>
std::string why(const Result<T>& result) {
  return result.ok() ? "no failure" : result.error().message();
}

// A comm of ours and the hands of its peer: the same memory and the other end of the lifeline.
template <class Comm>
struct Bench {
  Bench() {
    std::array<int, 2> both{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both.data()), 0);
    theirs = UniqueFd(both[1]);
    const UniqueFd memory = valueOf(Segment::makeMemory());
    segment.emplace(valueOf(Segment::map(memory.get())));
    comm.emplace(valueOf(Segment::map(memory.get())), UniqueFd(both[0]));
  }
  RingHeader& header() { return *segment->ring().header; }

  UniqueFd theirs;
  std::optional<Segment> segment;
  std::optional<Comm> comm;
};

void append(RingEnd& ring, const Frame& frame, const std::vector<uint8_t>& payload) {
  ring.write(reinterpret_cast<const uint8_t*>(&frame), sizeof frame);
  ring.write(payload.data(), payload.size());
}

std::string whatBecomesOf(const Frame& frame, size_t room) {
  Bench<RecvComm> bench;
  RingEnd writer(bench.segment->ring(), RingEnd::Side::kWriter);
  append(writer, frame, {1, 2, 3});
  [[maybe_unused]] const bool woke = writer.publish();
  std::vector<uint8_t> buffer(room);
  Result<Completion> outcome = bench.comm->test(*valueOf(bench.comm->post(buffer.data(), room)));
  if (!outcome.ok()) return outcome.error().message();
  return std::move(outcome).value().done ? "done" : "pending";
}

TEST(ShmReceiver, FramesAreChecked) {
  EXPECT_EQ(whatBecomesOf({.bytes = 3}, 3), "done");
  EXPECT_EQ(whatBecomesOf({.bytes = 4}, 4), "pending");
  EXPECT_NE(whatBecomesOf({.bytes = 3, .number = 1}, 3).find("corrupt"), std::string::npos);
  EXPECT_NE(whatBecomesOf({.bytes = 3, .magic = 1}, 3).find("corrupt"), std::string::npos);
  const std::string large = whatBecomesOf({.bytes = UINT32_MAX}, 100);
  EXPECT_NE(large.find("4294967295 bytes into a receive of 100"), std::string::npos) << large;
}

TEST(ShmReceiver, AHostilePositionEndsTheConnection) {
  Bench<RecvComm> bench;
  std::array<uint8_t, 8> room{};
  Request* receive = valueOf(bench.comm->post(room.data(), room.size()));
  bench.header().written = UINT64_MAX;
  Result<Completion> outcome = bench.comm->test(*receive);
  EXPECT_NE(why(outcome).find("the ring is corrupt"), std::string::npos) << why(outcome);
}

TEST(ShmSender, AHostilePositionEndsTheConnection) {
  Bench<SendComm> bench;
  std::vector<uint8_t> bytes(2 * Segment::kRingBytes);
  Request* send = valueOf(bench.comm->post(bytes.data(), bytes.size()));
  EXPECT_FALSE(valueOf(bench.comm->test(*send)).done);
  bench.header().read = UINT64_MAX / 2;
  Result<Completion> outcome = bench.comm->test(*send);
  EXPECT_NE(why(outcome).find("the ring is corrupt"), std::string::npos) << why(outcome);
}

bool readable(int fd) {
  pollfd state{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&state, 1, 0) > 0;
}

TEST(ShmReceiver, BellsForNothingDoNotKeepItAwake) {
  Bench<RecvComm> bench;
  std::array<uint8_t, 8> room{};
  valueOf(bench.comm->post(room.data(), room.size()));
  for (int i = 0; i < 40; ++i) EXPECT_EQ(::send(bench.theirs.get(), "!", 1, MSG_NOSIGNAL), 1);
  unsigned rounds = 0;
  do {
    ASSERT_FALSE(valueOf(bench.comm->arm()));
    ASSERT_LT(++rounds, 40U);
  } while (readable(valueOf(bench.comm->waitFd())));
}

TEST(ShmSender, WhileNobodySleepsNoBellIsRung) {
  Bench<SendComm> bench;
  std::array<uint8_t, 8> bytes{}, got{};
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(valueOf(bench.comm->test(*valueOf(bench.comm->post(bytes.data(), bytes.size())))).done);
  EXPECT_LT(::recv(bench.theirs.get(), got.data(), got.size(), 0), 0) << "a system call for nothing";
  RingEnd reader(bench.segment->ring(), RingEnd::Side::kReader);
  EXPECT_FALSE(valueOf(reader.sleepFor(200)));
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(valueOf(bench.comm->test(*valueOf(bench.comm->post(bytes.data(), bytes.size())))).done);
  EXPECT_EQ(::recv(bench.theirs.get(), got.data(), got.size(), 0), 1) << "one bell, when there was enough";
}

// Runs `child` in a forked process, which then waits to be killed.
template <class F>
pid_t forked(F&& child) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // should the test end early
  child();
  while (true) ::pause();
}

void killNow(pid_t pid) {
  EXPECT_EQ(::kill(pid, SIGKILL), 0);
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
}

template <class Attempt>
auto persist(Attempt&& attempt) {
  const Deadline deadline = Deadline::in(kPatience);
  auto comm = valueOf(attempt());
  while (!comm && !deadline.passed()) comm = valueOf(attempt());
  return comm;
}

TEST(ShmDeath, AKilledSendersWholeMessagesArriveAndThenTheError) {
  std::shared_ptr<net::Plugin> plugin = test::loadOurs(test::Carrier::kMemory);
  std::unique_ptr<net::Listener> listener = valueOf(plugin->listen(0));
  const std::vector<uint8_t> bytes = randomBytes(100000, 1);
  const pid_t pid = forked([&] {
    std::unique_ptr<net::Connector> connector = plugin->connect(0, listener->handle());
    std::unique_ptr<net::Comm> sender = persist([&] { return connector->connect(); });
    for (const size_t size : {bytes.size(), size_t{1}})
      valueOf(test::finish(*sender, valueOf(sender->isend(bytes.data(), size, nullptr))));
    const std::vector<uint8_t> large(size_t{8} << 20);
    valueOf(sender->test(valueOf(sender->isend(large.data(), large.size(), nullptr))));
    while (true) ::pause();
  });
  std::unique_ptr<net::Comm> receiver = persist([&] { return listener->accept(); });
  std::vector<uint8_t> first(bytes.size()), second(1), third(size_t{8} << 20);
  const net::Request a = valueOf(receiver->irecv(first.data(), first.size(), nullptr));
  EXPECT_EQ(valueOf(test::finish(*receiver, a)), first.size());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  killNow(pid);
  const auto killed = Clock::now();
  const net::Request b = valueOf(receiver->irecv(second.data(), second.size(), nullptr));
  const net::Request c = valueOf(receiver->irecv(third.data(), third.size(), nullptr));
  EXPECT_EQ(valueOf(test::finish(*receiver, b)), 1U);
  Result<size_t> outcome = test::finish(*receiver, c);
  EXPECT_LT(Clock::now() - killed, std::chrono::seconds(1));
  EXPECT_EQ(first, bytes);
  EXPECT_NE(why(outcome).find("in the middle of message 2: process " + std::to_string(pid)), std::string::npos)
      << why(outcome);
}

TEST(ShmDeath, AKilledReceiverFailsTheSender) {
  std::shared_ptr<net::Plugin> plugin = test::loadOurs(test::Carrier::kMemory);
  std::unique_ptr<net::Listener> listener = valueOf(plugin->listen(0));
  const pid_t pid = forked([&] { persist([&] { return listener->accept(); }).release(); });
  std::unique_ptr<net::Connector> connector = plugin->connect(0, listener->handle());
  std::unique_ptr<net::Comm> sender = persist([&] { return connector->connect(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  listener.reset();  // ours; the socket is shared with the child
  const std::vector<uint8_t> large(size_t{8} << 20);
  const net::Request send = valueOf(sender->isend(large.data(), large.size(), nullptr));
  EXPECT_FALSE(valueOf(sender->test(send)).done);
  killNow(pid);
  const auto killed = Clock::now();
  Result<size_t> outcome = test::finish(*sender, send);
  EXPECT_LT(Clock::now() - killed, std::chrono::seconds(1));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Code::kRemote) << why(outcome);
}

size_t mappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:bps-net") != std::string::npos) ++count;
  return count;
}

TEST(ShmDeath, ClosedConnectionsKeepNoMapping) {
  std::shared_ptr<net::Plugin> plugin = test::loadOurs(test::Carrier::kMemory);
  ASSERT_EQ(mappings(), 0U);
  for (int i = 0; i < 1000; ++i) {
    test::Pair pair = test::connectPair(*plugin);
    ASSERT_TRUE(i > 0 || mappings() == 2U) << "this test sees mappings";
  }
  EXPECT_EQ(mappings(), 0U);
}

}  // namespace
}  // namespace bps::plugin::shm
