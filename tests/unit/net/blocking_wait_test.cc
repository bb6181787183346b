// Tests blocking waits on a connection. No wake-up may be lost, few may be spurious, and the death of the peer must end
// the wait.
#include <array>
#include <thread>

#include "src/net/waiter.h"
#include "src/service/contribution_receiver.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

constexpr std::chrono::milliseconds kShortWait{30};

bool awake(const Comm& comm, std::chrono::milliseconds most) {
  pollfd state{.fd = comm.waitFd(), .events = POLLIN, .revents = 0};
  return ::poll(&state, 1, static_cast<int>(most.count())) > 0;
}

// Waits for a request as bps threads do, and sleeps whenever arm() allows a sleep. Adds the number of sleeps to
// `sleeps`.
Result<size_t> finishBySleeping(Comm& comm, Request request, size_t& sleeps) {
  const Deadline deadline = Deadline::in(kTestTimeout);
  while (!deadline.passed()) {
    const Completion completion = BPS_TRY(comm.test(request));
    if (completion.done) return completion.bytes;
    if (BPS_TRY(comm.arm())) continue;
    if (!awake(comm, std::chrono::seconds(5))) return Status(Code::kTimeout, "a lost wake-up");
    ++sleeps;
  }
  return Status(Code::kTimeout, "not done in time");
}

class Sleep : public ::testing::TestWithParam<Carrier> {
 protected:
  std::shared_ptr<net::Plugin> plugin_ = loadBpsPlugin(GetParam());
  CommPair pair_ = connectPair(*plugin_);
  size_t sleeps_ = 0;
};

TEST_P(Sleep, ArrivingBytesWakeAReceiver) {
  std::vector<uint8_t> room(10);
  const Request receive = valueOf(pair_.receiver->irecv(room.data(), room.size(), nullptr));
  EXPECT_FALSE(valueOf(pair_.receiver->arm()));
  EXPECT_FALSE(awake(*pair_.receiver, kShortWait)) << "nothing has arrived";
  const std::vector<uint8_t> bytes{1, 2, 3};
  EXPECT_TRUE(finish(*pair_.sender, valueOf(pair_.sender->isend(bytes.data(), bytes.size(), nullptr))).ok());
  EXPECT_TRUE(awake(*pair_.receiver, kTestTimeout));
  EXPECT_EQ(valueOf(finish(*pair_.receiver, receive)), 3U);
}

TEST_P(Sleep, APollingThreadIsWokenOnlyAfterItArms) {
  std::vector<uint8_t> room(10);
  const Request receive = valueOf(pair_.receiver->irecv(room.data(), room.size(), nullptr));
  EXPECT_FALSE(valueOf(pair_.receiver->arm()));
  for (int i = 0; i < 200; ++i) EXPECT_FALSE(valueOf(pair_.receiver->test(receive)).done);
  const std::vector<uint8_t> bytes{1, 2, 3};
  EXPECT_TRUE(finish(*pair_.sender, valueOf(pair_.sender->isend(bytes.data(), bytes.size(), nullptr))).ok());
  if (GetParam() == Carrier::kTcp) {
    EXPECT_FALSE(awake(*pair_.receiver, kShortWait));
  }
  const bool ready = valueOf(pair_.receiver->arm());
  EXPECT_TRUE(ready || awake(*pair_.receiver, kTestTimeout));
  EXPECT_EQ(valueOf(finish(*pair_.receiver, receive)), 3U);
}

TEST_P(Sleep, BytesWithoutAPostedReceiveDoNotWakeTheReceiver) {
  const std::vector<uint8_t> bytes{1, 2, 3};
  EXPECT_TRUE(finish(*pair_.sender, valueOf(pair_.sender->isend(bytes.data(), bytes.size(), nullptr))).ok());
  for (int i = 0; i < 40; ++i) {
    EXPECT_FALSE(valueOf(pair_.receiver->arm()));
    EXPECT_FALSE(awake(*pair_.receiver, std::chrono::milliseconds(0)));
  }
}

TEST_P(Sleep, AnIdleSenderSleeps) {
  EXPECT_FALSE(valueOf(pair_.sender->arm()));
  EXPECT_FALSE(awake(*pair_.sender, kShortWait));
}

TEST_P(Sleep, ABlockedSenderWakesWhenThePeerReads) {
  const std::vector<uint8_t> bytes(size_t{32} << 20);
  std::vector<uint8_t> room(bytes.size());
  const Request send = valueOf(pair_.sender->isend(bytes.data(), bytes.size(), nullptr));
  while (valueOf(pair_.sender->arm())) continue;
  EXPECT_FALSE(awake(*pair_.sender, kShortWait));
  const Request receive = valueOf(pair_.receiver->irecv(room.data(), room.size(), nullptr));
  std::jthread reader([&] { EXPECT_TRUE(finish(*pair_.receiver, receive).ok()); });
  Result<size_t> outcome = finishBySleeping(*pair_.sender, send, sleeps_);
  reader.join();
  EXPECT_TRUE(outcome.ok()) << outcome.error().message();
}

// A failed connection may contain unread bytes until the job ends. These bytes must not wake a sleeping thread.
TEST_P(Sleep, AConnectionThatFailedNoLongerWakes) {
  const Doorbell bell = valueOf(Doorbell::create());
  net::Waiter waiter = valueOf(net::Waiter::create(bell));
  ASSERT_TRUE(waiter.add(*pair_.receiver).ok());
  const auto receiver =
      valueOf(ContributionReceiver::create(std::move(pair_.receiver), {.depth = 4, .maxChunkBytes = 4096}));
  const std::vector<uint8_t> nonsense(16, 0xff);
  valueOf(receiver->step(0));
  std::vector<Request> sent;
  for (int i = 0; i < 8; ++i) sent.push_back(valueOf(pair_.sender->isend(nonsense.data(), nonsense.size(), nullptr)));
  const Deadline deadline = Deadline::in(kTestTimeout);
  while (receiver->step(0).ok() && !deadline.passed()) valueOf(pair_.sender->test(sent.front()));
  EXPECT_FALSE(deadline.passed());
  waiter.arm();
  EXPECT_FALSE(waiter.arm()) << "there is something to do";
  std::array<epoll_event, 2> events{};
  EXPECT_EQ(valueOf(net::waitOnEpoll(waiter.fd(), kShortWait, events)), 0U);
}

// The sender and the receiver sleep whenever they can, while messages of different sizes pass. A lost wake-up would
// block both threads.
TEST_P(Sleep, NoWakeUpIsLostAndFewAreSpurious) {
  constexpr unsigned kMessages = 2000;
  const auto sizeOf = [](unsigned i) { return i % 50 == 0 ? size_t{300000} : size_t{i % 700}; };
  std::jthread sender([&] {
    const std::vector<uint8_t> bytes(300000);
    for (unsigned i = 0; i < kMessages; ++i) {
      const Request send = valueOf(pair_.sender->isend(bytes.data(), sizeOf(i), nullptr));
      size_t sleeps = 0;
      Result<size_t> outcome = finishBySleeping(*pair_.sender, send, sleeps);
      ASSERT_TRUE(outcome.ok()) << outcome.error().message();
    }
  });
  std::vector<uint8_t> room(300000);
  for (unsigned i = 0; i < kMessages; ++i) {
    const Request receive = valueOf(pair_.receiver->irecv(room.data(), room.size(), nullptr));
    Result<size_t> outcome = finishBySleeping(*pair_.receiver, receive, sleeps_);
    if (!outcome.ok() || std::move(outcome).value() != sizeOf(i)) {
      ADD_FAILURE() << "message " << i;
      break;
    }
  }
  sender.join();
  EXPECT_LT(sleeps_, 2 * kMessages);
}

TEST_P(Sleep, ALargeMessageCausesFewWakeUps) {
  const size_t size = size_t{16} << 20;
  const std::vector<uint8_t> bytes(size);
  std::vector<uint8_t> room(size);
  const Request receive = valueOf(pair_.receiver->irecv(room.data(), room.size(), nullptr));
  std::jthread sender(
      [&] { EXPECT_TRUE(finish(*pair_.sender, valueOf(pair_.sender->isend(bytes.data(), size, nullptr))).ok()); });
  Result<size_t> outcome = finishBySleeping(*pair_.receiver, receive, sleeps_);
  sender.join();
  EXPECT_TRUE(outcome.ok()) << outcome.error().message();
  EXPECT_LT(sleeps_, size / (size_t{128} << 10));
}

// Calls arm() and sleeps in a loop until arm() fails. Returns the number of iterations.
size_t stepsUntilFailure(Comm& comm) {
  for (size_t rounds = 1; rounds < 1000; ++rounds) {
    Result<bool> ready = comm.arm();
    if (!ready.ok()) {
      EXPECT_EQ(ready.error().code(), Code::kRemote) << ready.error().message();
      return rounds;
    }
    pollfd state{.fd = comm.waitFd(), .events = POLLIN, .revents = 0};
    EXPECT_GT(::poll(&state, 1, 2000), 0) << "it sleeps although the peer is dead";
  }
  return 1000;
}

TEST_P(Sleep, APeerThatDiesWakesAnIdleReceiver) {
  EXPECT_FALSE(valueOf(pair_.receiver->arm()));
  pair_.sender.reset();
  EXPECT_LT(stepsUntilFailure(*pair_.receiver), 20U);
}

TEST_P(Sleep, APeerThatDiesWakesAnIdleSender) {
  EXPECT_FALSE(valueOf(pair_.sender->arm()));
  pair_.receiver.reset();
  EXPECT_LT(stepsUntilFailure(*pair_.sender), 20U);
}

TEST_P(Sleep, APeerThatDiesWakesAWaitingReceiver) {
  std::vector<uint8_t> room(10);
  const Request receive = valueOf(pair_.receiver->irecv(room.data(), room.size(), nullptr));
  EXPECT_FALSE(valueOf(pair_.receiver->arm()));
  std::jthread killer([&] {
    std::this_thread::sleep_for(kShortWait);
    pair_.sender.reset();
  });
  Result<size_t> outcome = finishBySleeping(*pair_.receiver, receive, sleeps_);
  killer.join();
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Code::kRemote) << outcome.error().message();
}

TEST_P(Sleep, ADeadPeersLastMessagesArriveWithoutSpinning) {
  const std::vector<uint8_t> bytes{1, 2, 3};
  EXPECT_TRUE(finish(*pair_.sender, valueOf(pair_.sender->isend(bytes.data(), bytes.size(), nullptr))).ok());
  pair_.sender.reset();
  size_t rounds = 0;
  while (true) {
    ASSERT_FALSE(valueOf(pair_.receiver->arm()));
    if (!awake(*pair_.receiver, kShortWait)) break;
    ASSERT_LT(++rounds, 40U) << "it spins on a hang-up that it cannot handle yet";
  }
  std::vector<uint8_t> room(10);
  const Request receive = valueOf(pair_.receiver->irecv(room.data(), room.size(), nullptr));
  EXPECT_EQ(valueOf(finishBySleeping(*pair_.receiver, receive, sleeps_)), 3U);
  EXPECT_LT(stepsUntilFailure(*pair_.receiver), 40U);
}

BPS_OVER_BOTH(Sleep);

}  // namespace
}  // namespace bps::test
