// Two communicators of the same ranks, of which one has a higher priority. All ranks share the priority board of this
// process, and a test can hold it as an urgent communicator would.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <thread>

#include "src/base/format.h"
#include "src/comm/priority/priority_board.h"
#include "tests/support/cluster.h"
#include "tests/support/data.h"

namespace bps::test {
namespace {

using namespace std::chrono_literals;
using Clock = PriorityBoard::Clock;

constexpr size_t kLarge = 8U << 20;  // bytes

// A call on data whose sum differs from element to element.
struct Call {
  std::vector<uint32_t> send, sum;
  std::shared_ptr<HostStream> stream = HostStream::create();
  size_t ranks = 0;

  void prepare(const Communicator& comm, size_t bytes) {
    ranks = comm.nRanks();
    send.resize(bytes / 4);
    sum.assign(bytes / 4, 0);
    for (size_t i = 0; i < send.size(); ++i) send[i] = (comm.rank() + 1) * static_cast<uint32_t>(i * 2654435761U);
  }
  Status issue(Communicator& comm) {
    return comm.allReduce({send.data(), sum.data(), sum.size(), DataType::kUint32, CallOp::kSum, {}, nullptr, stream});
  }
  Status begin(Communicator& comm, size_t bytes) {
    prepare(comm, bytes);
    return issue(comm);
  }
  Status end() {
    BPS_TRY(stream->synchronize());
    HostStream::destroy(stream.get());
    const auto weights = static_cast<uint32_t>(ranks * (ranks + 1) / 2);
    for (size_t i = 0; i < sum.size(); ++i)
      if (sum[i] != weights * static_cast<uint32_t>(i * 2654435761U)) return {Code::kInternal, "wrong sum"};
    return {};
  }
};

Result<std::unique_ptr<Communicator>> splitUrgent(Communicator& comm) {
  const auto membership = BPS_TRY(comm.split(0, static_cast<int>(comm.rank())));
  auto urgent = BPS_TRY(Communicator::create(comm.env(), *membership));
  BPS_TRY(urgent->start());
  urgent->setPriority(1);
  return urgent;
}

// Withholds calls with priority 0, as if urgent calls moved data all the time.
constexpr int kHeld = 3;
void holdBoard() {
  PriorityBoard::ofProcess().setInUse();
  PriorityBoard::ofProcess().hold(kHeld, Clock::now() + 1h);
}
void releaseBoard() { PriorityBoard::ofProcess().release(kHeld); }

// Releases the board once so many ranks have called this function. The board belongs to the process, so a rank that
// released it earlier would also release the calls of ranks that have not looked at theirs yet.
Status releaseTogether(std::atomic<size_t>& ready, size_t ranks) {
  ++ready;
  for (const auto end = Clock::now() + 30s; ready < ranks; std::this_thread::sleep_for(1ms))
    if (Clock::now() > end) return {Code::kTimeout, "another rank is not ready"};
  releaseBoard();
  return {};
}

// All ranks call this function. Calls are withheld when it returns.
Status holdFrom(Communicator& comm) {
  BPS_TRY(comm.allGather({}));
  if (comm.rank() == 0) holdBoard();
  return comm.allGather({}).status();
}

struct Shape {
  size_t ranks, servers, perMachine;
};

class Priority : public testing::TestWithParam<Shape> {
 protected:
  std::string run(const Body& body, Job job = {}) {
    const Shape shape = GetParam();
    servers_.emplace(shape.servers);
    job.ranks = shape.ranks;
    job.ranksPerMachine = shape.perMachine;
    job.servers = servers_->list();
    std::string failed = failures(runRanks(job, body));
    releaseBoard();
    return failed;
  }
  std::optional<Servers> servers_;
};

// The urgent call has more rounds than the withheld one, so it would end later if it were withheld too.
TEST_P(Priority, AnUrgentCallDoesNotWaitForWithheldCalls) {
  std::atomic<size_t> issued{0}, overtaken{0}, ended{0};
  const size_t ranks = GetParam().ranks;
  Job job;
  job.env.partitionBytes.value = 8192;
  EXPECT_EQ(run(
                [&](Communicator& comm) -> Status {
                  const auto urgent = BPS_TRY(splitUrgent(comm));
                  urgent->setPriority(PriorityBoard::kMaxPriority);
                  BPS_TRY(holdFrom(comm));
                  Call withheld, first;
                  BPS_TRY(withheld.begin(comm, kLarge / 8));
                  ++issued;
                  while (issued < ranks) std::this_thread::sleep_for(1ms);
                  BPS_TRY(first.begin(*urgent, kLarge / 4));
                  BPS_TRY(first.end());
                  if (!withheld.stream->idle()) ++overtaken;
                  ++ended;
                  while (ended < ranks) std::this_thread::sleep_for(1ms);
                  releaseBoard();
                  BPS_TRY(withheld.end());
                  return urgent->finalize();
                },
                job),
            "");
  EXPECT_EQ(overtaken, ranks);
}

// Small calls take the exchange path or the path of a single owner.
TEST_P(Priority, WithheldCallsOfEveryPathEndWithTheSameSums) {
  Job job;
  job.env.exchangeBytes.value = 64;
  job.env.singleOwnerBytes.value = 4096;
  EXPECT_EQ(run(
                [](Communicator& comm) -> Status {
                  BPS_TRY(holdFrom(comm));
                  for (const size_t bytes : {4UL, 64UL, 4096UL, 40960UL}) {
                    Call call;
                    BPS_TRY(call.begin(comm, bytes));
                    BPS_TRY(call.end());
                  }
                  return {};
                },
                job),
            "");
}

// The large calls have so many rounds that they would exceed the test's time limit if they were withheld throughout.
TEST_P(Priority, RanksMayMakeTheCallsOfTwoCommunicatorsInAnyOrder) {
  Job job;
  job.env.partitionBytes.value = 8192;
  EXPECT_EQ(run(
                [](Communicator& comm) -> Status {
                  const auto urgent = BPS_TRY(splitUrgent(comm));
                  for (int turn = 0; turn < 3; ++turn) {
                    Call large, first;
                    large.prepare(comm, kLarge);
                    first.prepare(comm, 1U << 20);
                    BPS_TRY(large.issue(comm));
                    if (comm.rank() % 2 == 0) {  // waits for the urgent call, which the other ranks make later
                      BPS_TRY(first.issue(*urgent));
                      BPS_TRY(first.end());
                      BPS_TRY(large.end());
                    } else {
                      BPS_TRY(large.end());
                      BPS_TRY(first.issue(*urgent));
                      BPS_TRY(first.end());
                    }
                  }
                  return urgent->finalize();
                },
                job),
            "");
}

// Carries out calls, and returns whether they hold back calls with lower priorities. On a busy machine, this thread may
// not run while one call is in flight.
Result<bool> holdsBack(Communicator& comm, int lower) {
  bool held = false;
  for (int turn = 0; turn < 5; ++turn) {
    Call call;
    BPS_TRY(call.begin(comm, kLarge));
    while (!call.stream->idle()) held = PriorityBoard::ofProcess().heldBack(lower, Clock::now()) || held;
    BPS_TRY(call.end());
  }
  return held;
}

// The leader of each machine uses the network. All ranks share the board, so the first communicator with a priority has
// ended its calls on all ranks before the second one begins.
TEST_P(Priority, ACallHoldsBackLowerPrioritiesAndAChildHasThePriorityOfItsParent) {
  EXPECT_EQ(run([](Communicator& comm) -> Status {
              const auto urgent = BPS_TRY(splitUrgent(comm)), child = BPS_TRY(splitUrgent(comm));
              const bool unheld = BPS_TRY(holdsBack(comm, 0));
              BPS_TRY(comm.allGather({}));
              const bool held = BPS_TRY(holdsBack(*urgent, 0));
              BPS_TRY(comm.allGather({}));
              child->linkToParent(comm, "part");
              comm.setPriority(2);
              BPS_TRY(comm.allGather({}));
              const bool byChild = BPS_TRY(holdsBack(*child, 1));
              BPS_TRY(comm.allGather({}));
              if (unheld || !held || !byChild)
                return failure(Code::kInternal, "held back: {} {} {}", unheld, held, byChild);
              BPS_TRY(child->finalize());
              return urgent->finalize();
            }),
            "");
}

TEST_P(Priority, PrioritiesMayChangeWhileCallsAreInFlight) {
  EXPECT_EQ(run([](Communicator& comm) -> Status {
              const auto other = BPS_TRY(splitUrgent(comm));
              std::atomic<bool> stop{false};
              std::jthread changes([&] {
                for (int i = 0; !stop; ++i) {
                  (i % 2 == 0 ? comm : *other).setPriority(i % (PriorityBoard::kMaxPriority + 1));
                  std::this_thread::sleep_for(200us);
                }
              });
              Status outcome = [&]() -> Status {
                for (int turn = 0; turn < 10; ++turn) {
                  Call one, two;
                  one.prepare(comm, kLarge / 4);
                  two.prepare(comm, kLarge / 4);
                  BPS_TRY(one.issue(comm));
                  BPS_TRY(two.issue(*other));
                  BPS_TRY(two.end());
                  BPS_TRY(one.end());
                }
                return {};
              }();
              stop = true;
              changes.join();
              BPS_TRY(std::move(outcome));
              return other->finalize();
            }),
            "");
}

// Rank 0 does not make the urgent call, so this call is in flight when it fails.
TEST_P(Priority, CallsGoOnAfterAnUrgentCommunicatorHasFailed) {
  Job job;
  job.env.partitionBytes.value = 8192;
  EXPECT_EQ(run(
                [](Communicator& comm) -> Status {
                  const auto urgent = BPS_TRY(splitUrgent(comm));
                  Call large, first;
                  large.prepare(comm, 2 * kLarge);
                  first.prepare(comm, kLarge);
                  BPS_TRY(large.issue(comm));
                  if (comm.rank() == 0) {
                    std::this_thread::sleep_for(5ms);
                    urgent->abort();
                  } else if (first.issue(*urgent).ok() && first.stream->synchronize().ok()) {
                    return {Code::kInternal, "the call without rank 0 has not failed"};
                  }
                  return large.end();
                },
                job),
            "");
}

INSTANTIATE_TEST_SUITE_P(Shapes, Priority,
                         testing::Values(Shape{2, 0, 1}, Shape{3, 0, 1}, Shape{3, 2, 1}, Shape{4, 1, 2}),
                         [](const auto& shape) {
                           return "n" + std::to_string(shape.param.ranks) + "k" + std::to_string(shape.param.servers) +
                                  "m" + std::to_string(shape.param.perMachine);
                         });

// No event wakes a thread when the calls with a higher priority have ended. The thread that looks after a withheld call
// is the calling thread or the progress thread.
TEST(PriorityWakeUp, AWithheldCallGoesOnSoonAfterTheHigherPriorityEnds) {
  const auto turn = [](Communicator& comm, size_t bytes, bool waits) -> Result<Clock::duration> {
    Call call;
    BPS_TRY(holdFrom(comm));
    std::atomic<Clock::rep> released{0};
    std::jthread release([&] {
      std::this_thread::sleep_for(100ms);
      released = Clock::now().time_since_epoch().count();
      if (comm.rank() == 0) releaseBoard();
    });
    Status issued = call.begin(comm, bytes);
    while (issued.ok() && !waits && !call.stream->idle()) std::this_thread::sleep_for(100us);
    if (issued.ok()) issued = call.end();
    const auto ended = Clock::now().time_since_epoch().count();
    release.join();
    BPS_TRY(std::move(issued));
    return Clock::duration(ended - released);
  };
  EXPECT_EQ(failures(runRanks(Job(),
                              [&](Communicator& comm) -> Status {
                                for (const size_t bytes : {1024UL, 1UL << 20})
                                  for (const bool waits : {false, true}) {
                                    std::vector<Clock::duration> late;
                                    for (int i = 0; i < 7; ++i) late.push_back(BPS_TRY(turn(comm, bytes, waits)));
                                    std::sort(late.begin(), late.end());
                                    if (comm.rank() == 0 && late[3] > 100ms)
                                      return {Code::kInternal, "the call went on late"};
                                  }
                                return {};
                              })),
            "");
}

// Rank 1 is not withheld, so it waits for rank 0 longer than the hub waits for a member without connection.
TEST(PriorityTimeouts, AWithheldRankIsNotTakenForUnreachable) {
  const Servers servers(1);
  Job job;
  job.ranks = 3;
  job.servers = servers.list();
  job.env.timeout.value = 0.8;
  job.env.serverTimeout.value = 0.5;
  job.env.partitionBytes.value = 8192;  // more rounds than start while the call is withheld
  std::atomic<size_t> ready = 0;
  EXPECT_EQ(failures(runRanks(job,
                              [&](Communicator& comm) -> Status {
                                comm.setPriority(comm.rank() == 0 ? 0 : PriorityBoard::kMaxPriority);
                                BPS_TRY(holdFrom(comm));
                                Call large;
                                BPS_TRY(large.begin(comm, 2 * kLarge));
                                std::this_thread::sleep_for(4s);
                                if (large.stream->idle()) return {Code::kInternal, "the call was not withheld"};
                                if (!comm.latestServerLoss().empty()) return {Code::kInternal, comm.latestServerLoss()};
                                BPS_TRY(releaseTogether(ready, job.ranks));
                                return large.end();
                              })),
            "");
}

TEST(PriorityServers, AServerMayLeaveOrBeLostWhileCallsAreWithheld) {
  Servers servers(3);
  Job job;
  job.ranks = 3;
  job.servers = servers.list();
  std::atomic<size_t> ready = 0;
  EXPECT_EQ(failures(runRanks(job,
                              [&](Communicator& comm) -> Status {
                                Call calls[3];
                                BPS_TRY(holdFrom(comm));
                                for (Call* call : {&calls[0], &calls[1]}) BPS_TRY(call->begin(comm, kLarge));
                                if (comm.rank() == 0) {
                                  servers.drain(0);
                                  servers.stop(1);
                                }
                                for (int turn = 0; turn < 500 && comm.latestServerLoss().empty(); ++turn)
                                  std::this_thread::sleep_for(10ms);
                                if (comm.latestServerLoss().empty()) return {Code::kInternal, "no server was lost"};
                                BPS_TRY(calls[2].begin(comm, kLarge));
                                std::this_thread::sleep_for(300ms);
                                if (calls[2].stream->idle()) return {Code::kInternal, "the call was not withheld"};
                                BPS_TRY(releaseTogether(ready, job.ranks));
                                for (Call& call : calls) BPS_TRY(call.end());
                                return {};
                              })),
            "");
}

}  // namespace
}  // namespace bps::test
