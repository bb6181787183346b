// Tests each end of a shared-memory connection with a peer that dies or that writes arbitrary data.
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

using test::kTestTimeout;
using test::randomBytes;
using test::valueOf;
using Clock = std::chrono::steady_clock;

template <class T>
std::string errorText(const Result<T>& result) {
  return result.ok() ? "no failure" : result.error().message();
}

// One end of a shared-memory connection, and the resources of its peer: a mapping of the same memory, and the peer's
// end of the liveness socket.
template <class Comm>
struct ShmPair {
  ShmPair() {
    std::array<int, 2> both{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both.data()), 0);
    theirs = UniqueFd(both[1]);
    const UniqueFd memory = valueOf(Segment::createMemory());
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

std::string receiveOutcome(const Frame& frame, size_t room) {
  ShmPair<RecvComm> bench;
  RingEnd writer(bench.segment->ring(), RingEnd::Side::kWriter);
  append(writer, frame, {1, 2, 3});
  [[maybe_unused]] const bool woke = writer.publish();
  std::vector<uint8_t> buffer(room);
  Result<Completion> outcome = bench.comm->test(*valueOf(bench.comm->post(buffer.data(), room)));
  if (!outcome.ok()) return outcome.error().message();
  return std::move(outcome).value().done ? "done" : "pending";
}

TEST(ShmReceiver, FramesAreChecked) {
  EXPECT_EQ(receiveOutcome({.bytes = 3}, 3), "done");
  EXPECT_EQ(receiveOutcome({.bytes = 4}, 4), "pending");
  EXPECT_NE(receiveOutcome({.bytes = 3, .number = 1}, 3).find("corrupt"), std::string::npos);
  EXPECT_NE(receiveOutcome({.bytes = 3, .magic = 1}, 3).find("corrupt"), std::string::npos);
  const std::string large = receiveOutcome({.bytes = UINT32_MAX}, 100);
  EXPECT_NE(large.find("4294967295 bytes into a receive of 100"), std::string::npos) << large;
}

TEST(ShmReceiver, AnInvalidPositionEndsTheConnection) {
  ShmPair<RecvComm> bench;
  std::array<uint8_t, 8> room{};
  Request* receive = valueOf(bench.comm->post(room.data(), room.size()));
  bench.header().written = UINT64_MAX;
  Result<Completion> outcome = bench.comm->test(*receive);
  EXPECT_NE(errorText(outcome).find("the ring is corrupt"), std::string::npos) << errorText(outcome);
}

TEST(ShmSender, AnInvalidPositionEndsTheConnection) {
  ShmPair<SendComm> bench;
  std::vector<uint8_t> bytes(2 * Segment::kRingBytes);
  Request* send = valueOf(bench.comm->post(bytes.data(), bytes.size()));
  EXPECT_FALSE(valueOf(bench.comm->test(*send)).done);
  bench.header().read = UINT64_MAX / 2;
  Result<Completion> outcome = bench.comm->test(*send);
  EXPECT_NE(errorText(outcome).find("the ring is corrupt"), std::string::npos) << errorText(outcome);
}

bool readable(int fd) {
  pollfd state{.fd = fd, .events = POLLIN, .revents = 0};
  return ::poll(&state, 1, 0) > 0;
}

TEST(ShmReceiver, SpuriousDoorbellsDoNotKeepItAwake) {
  ShmPair<RecvComm> bench;
  std::array<uint8_t, 8> room{};
  valueOf(bench.comm->post(room.data(), room.size()));
  for (int i = 0; i < 40; ++i) EXPECT_EQ(::send(bench.theirs.get(), "!", 1, MSG_NOSIGNAL), 1);
  unsigned rounds = 0;
  do {
    ASSERT_FALSE(valueOf(bench.comm->arm()));
    ASSERT_LT(++rounds, 40U);
  } while (readable(valueOf(bench.comm->waitFd())));
}

TEST(ShmSender, RingsNoDoorbellWhileNobodySleeps) {
  ShmPair<SendComm> bench;
  std::array<uint8_t, 8> bytes{}, got{};
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(valueOf(bench.comm->test(*valueOf(bench.comm->post(bytes.data(), bytes.size())))).done);
  EXPECT_LT(::recv(bench.theirs.get(), got.data(), got.size(), 0), 0) << "an unnecessary system call";
  RingEnd reader(bench.segment->ring(), RingEnd::Side::kReader);
  EXPECT_FALSE(valueOf(reader.requestWake(200)));
  for (int i = 0; i < 10; ++i)
    EXPECT_TRUE(valueOf(bench.comm->test(*valueOf(bench.comm->post(bytes.data(), bytes.size())))).done);
  EXPECT_EQ(::recv(bench.theirs.get(), got.data(), got.size(), 0), 1) << "one wake-up once enough bytes are there";
}

// Forks a process that runs `child` and then waits until it is killed. Returns the process id.
template <class F>
pid_t forkChild(F&& child) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // kills the child if the test ends early
  child();
  while (true) ::pause();
}

void killAndReap(pid_t pid) {
  EXPECT_EQ(::kill(pid, SIGKILL), 0);
  EXPECT_EQ(::waitpid(pid, nullptr, 0), pid);
}

template <class Attempt>
auto retry(Attempt&& attempt) {
  const Deadline deadline = Deadline::in(kTestTimeout);
  auto comm = valueOf(attempt());
  while (!comm && !deadline.passed()) comm = valueOf(attempt());
  return comm;
}

TEST(ShmPeerDeath, CompleteMessagesOfAKilledSenderArriveBeforeTheError) {
  std::shared_ptr<net::Plugin> plugin = test::loadBpsPlugin(test::Carrier::kMemory);
  std::unique_ptr<net::Listener> listener = valueOf(plugin->listen(0));
  const std::vector<uint8_t> bytes = randomBytes(100000, 1);
  const pid_t pid = forkChild([&] {
    std::unique_ptr<net::Connector> connector = plugin->connect(0, listener->handle());
    std::unique_ptr<net::Comm> sender = retry([&] { return connector->connect(); });
    for (const size_t size : {bytes.size(), size_t{1}})
      valueOf(test::finish(*sender, valueOf(sender->isend(bytes.data(), size, nullptr))));
    const std::vector<uint8_t> large(size_t{8} << 20);
    valueOf(sender->test(valueOf(sender->isend(large.data(), large.size(), nullptr))));
    while (true) ::pause();
  });
  std::unique_ptr<net::Comm> receiver = retry([&] { return listener->accept(); });
  std::vector<uint8_t> first(bytes.size()), second(1), third(size_t{8} << 20);
  const net::Request a = valueOf(receiver->irecv(first.data(), first.size(), nullptr));
  EXPECT_EQ(valueOf(test::finish(*receiver, a)), first.size());
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  killAndReap(pid);
  const auto killed = Clock::now();
  const net::Request b = valueOf(receiver->irecv(second.data(), second.size(), nullptr));
  const net::Request c = valueOf(receiver->irecv(third.data(), third.size(), nullptr));
  EXPECT_EQ(valueOf(test::finish(*receiver, b)), 1U);
  Result<size_t> outcome = test::finish(*receiver, c);
  EXPECT_LT(Clock::now() - killed, std::chrono::seconds(1));
  EXPECT_EQ(first, bytes);
  EXPECT_NE(errorText(outcome).find("in the middle of message 2: process " + std::to_string(pid)), std::string::npos)
      << errorText(outcome);
}

TEST(ShmPeerDeath, KilledReceiverFailsTheSender) {
  std::shared_ptr<net::Plugin> plugin = test::loadBpsPlugin(test::Carrier::kMemory);
  std::unique_ptr<net::Listener> listener = valueOf(plugin->listen(0));
  const pid_t pid = forkChild([&] { retry([&] { return listener->accept(); }).release(); });
  std::unique_ptr<net::Connector> connector = plugin->connect(0, listener->handle());
  std::unique_ptr<net::Comm> sender = retry([&] { return connector->connect(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  listener.reset();  // closes only this process's copy of the socket
  const std::vector<uint8_t> large(size_t{8} << 20);
  const net::Request send = valueOf(sender->isend(large.data(), large.size(), nullptr));
  EXPECT_FALSE(valueOf(sender->test(send)).done);
  killAndReap(pid);
  const auto killed = Clock::now();
  Result<size_t> outcome = test::finish(*sender, send);
  EXPECT_LT(Clock::now() - killed, std::chrono::seconds(1));
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Code::kRemote) << errorText(outcome);
}

size_t countMappings() {
  std::ifstream maps("/proc/self/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);)
    if (line.find("memfd:bps-net") != std::string::npos) ++count;
  return count;
}

TEST(ShmPeerDeath, ClosedConnectionsKeepNoMapping) {
  std::shared_ptr<net::Plugin> plugin = test::loadBpsPlugin(test::Carrier::kMemory);
  ASSERT_EQ(countMappings(), 0U);
  for (int i = 0; i < 1000; ++i) {
    test::CommPair pair = test::connectPair(*plugin);
    ASSERT_TRUE(i > 0 || countMappings() == 2U) << "this test sees mappings";
  }
  EXPECT_EQ(countMappings(), 0U);
}

}  // namespace
}  // namespace bps::plugin::shm
