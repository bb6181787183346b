// Tests that a ProgressEngine moves every call, on the waiting caller's thread or on the progress thread. The calls are
// fakes that end when the test allows it. The test also sets the clock by which a caller limits its polling.
#include "src/comm/progress/progress_engine.h"

#include <gtest/gtest.h>
#include <sys/epoll.h>

#include <array>
#include <deque>
#include <functional>
#include <thread>

#include "src/base/deadline.h"
#include "src/net/waiter.h"

namespace bps::test {
namespace {

using namespace std::chrono_literals;

std::atomic<int64_t> fakeTime{0};  // nanoseconds
SpinBudget::Clock::time_point fakeNow() {
  return SpinBudget::Clock::time_point(std::chrono::nanoseconds(fakeTime.load()));
}

// Ends calls in order, up to the number that `allowed` gives. A thread must hold the progress lock to use this class,
// except for `allowed`, `event` and the counters.
class FakeWork final : public ProgressWork {
 public:
  std::atomic<uint64_t> allowed{0};  // number of calls that may end
  std::atomic<int> stepsByThread{0}, stepsByOthers{0}, overlaps{0};
  std::atomic<bool> fails{false};
  Doorbell event = std::move(Doorbell::create()).value();
  std::atomic<std::thread::id> progressThread{};

  explicit FakeWork(const Doorbell& bell) {
    watch(event.fd(), EPOLLIN);
    watch(bell.fd(), uint32_t{EPOLLIN} | EPOLLET);
  }
  void add(std::unique_ptr<Collective> call) override { calls_.push_back(std::move(call)); }
  Result<bool> step() override {
    if (inside_.exchange(true)) ++overlaps;
    ++(std::this_thread::get_id() == progressThread.load() ? stepsByThread : stepsByOthers);
    bool moved = false;
    while (!calls_.empty() && completed_ < allowed.load()) {
      calls_.front()->position->complete({});
      calls_.pop_front();
      ++completed_;
      moved = true;
    }
    inside_.store(false);
    if (fails.load()) return Status(Code::kSystem, "the fake fails");
    return moved;
  }
  Status checkStalls() override { return {}; }
  bool quiescent() const override { return calls_.empty(); }
  bool hasCallsInFlight() const override { return !calls_.empty(); }
  uint64_t completed() const override { return completed_; }
  bool arm() override {
    event.clear();
    return completed_ == allowed.load() || calls_.empty();
  }
  void disarm() override {}
  Status collectEvents(std::chrono::microseconds maxSleep) override {
    std::array<epoll_event, 2> events{};
    return net::waitOnEpoll(epoll_.get(), maxSleep, events).status();
  }
  void selectNeeded() override {}
  std::chrono::microseconds maxSleep() override { return 1h; }
  bool needsPolling() const override { return false; }
  int fd() const override { return epoll_.get(); }
  void close() override { closed = true; }
  void failAll(const Status& failure) override {
    for (auto& call : calls_) call->position->complete(failure);
    calls_.clear();
  }
  std::atomic<bool> closed{false};

 private:
  void watch(int fd, uint32_t events) {
    epoll_event watched{};
    watched.events = events;
    EXPECT_EQ(::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &watched), 0);
  }

  UniqueFd epoll_{::epoll_create1(EPOLL_CLOEXEC)};
  std::deque<std::unique_ptr<Collective>> calls_;
  uint64_t completed_ = 0;
  std::atomic<bool> inside_{false};
};

class ProgressEngineTest : public testing::Test {
 protected:
  using Start = ProgressEngine::Start;
  void SetUp() override {
    auto bell = std::make_shared<Doorbell>(std::move(Doorbell::create()).value());
    auto work = std::make_unique<FakeWork>(*bell);
    work_ = work.get();
    engine_ = std::move(ProgressEngine::create(std::move(work), bell, failure_, fakeNow)).value();
    thread_ = std::jthread([this] {
      work_->progressThread = std::this_thread::get_id();
      ended_ = engine_->run();
      engine_->end(ended_.ok() ? Status(Code::kInvalidUsage, "stopped") : ended_.clone());
    });
  }
  void TearDown() override {
    engine_->stop();
    if (thread_.joinable()) thread_.join();
    EXPECT_EQ(work_->overlaps.load(), 0) << "two threads moved calls at the same time";
    EXPECT_TRUE(work_->closed.load());
  }
  void issue(Start start) {
    auto call = std::make_unique<Collective>();
    call->position = stream_->enter({{&buffer_, 1}, {&buffer_, 1}}, engine_);
    ASSERT_TRUE(engine_->submit(call, start));
  }
  void allowOneMore() {
    ++work_->allowed;
    work_->event.ring();
  }
  bool soon(const std::function<bool()>& holds) {
    const Deadline deadline = Deadline::in(5s);
    while (!holds() && !deadline.passed()) std::this_thread::sleep_for(100us);
    return holds();
  }

  FirstError failure_;
  FakeWork* work_ = nullptr;
  std::shared_ptr<ProgressEngine> engine_;
  std::shared_ptr<HostStream> stream_ = HostStream::create();
  uint8_t buffer_ = 0;
  Status ended_;
  std::jthread thread_;
};

TEST_F(ProgressEngineTest, ProgressThreadCompletesCallsWithoutWaiter) {
  for (const Start start : {Start::kByProgressThread, Start::kByWaitingCaller, Start::kHere}) {
    issue(start);
    EXPECT_FALSE(engine_->drained());
    allowOneMore();
    EXPECT_TRUE(soon([&] { return engine_->drained() && stream_->idle(); })) << static_cast<int>(start);
  }
}

TEST_F(ProgressEngineTest, IssuingThreadStartsASmallCall) {
  ++work_->allowed;
  issue(Start::kHere);
  EXPECT_TRUE(stream_->idle());
  EXPECT_GT(work_->stepsByOthers.load(), 0);
}

TEST_F(ProgressEngineTest, WaitingCallerMovesItsCall) {
  issue(Start::kHere);
  const int inlineSteps = work_->stepsByOthers.load();
  int before = 0;
  std::jthread allow([&] {
    EXPECT_TRUE(soon([&] { return work_->stepsByOthers.load() > inlineSteps; })) << "the caller does not poll";
    before = work_->stepsByThread.load();
    EXPECT_TRUE(soon([&] { return work_->stepsByOthers.load() > 100; }));
    ++work_->allowed;
  });
  EXPECT_TRUE(stream_->synchronize().ok());
  allow.join();
  EXPECT_LE(work_->stepsByThread.load(), before + 4);
}

TEST_F(ProgressEngineTest, CallerWithoutSpinBudgetSleepsAndCompletesItsCall) {
  issue(Start::kHere);
  int stepsByThread = 0;
  std::jthread allow([&] {
    EXPECT_TRUE(soon([&] { return work_->stepsByOthers.load() > 100; }));
    fakeTime += std::chrono::nanoseconds(1s).count();  // makes the caller stop polling
    std::this_thread::sleep_for(20ms);
    const int polled = work_->stepsByOthers.load();
    std::this_thread::sleep_for(20ms);
    EXPECT_EQ(work_->stepsByOthers.load(), polled);
    stepsByThread = work_->stepsByThread.load();
    allowOneMore();
  });
  EXPECT_TRUE(stream_->synchronize().ok());
  EXPECT_LE(work_->stepsByThread.load(), stepsByThread + 1) << "the event wakes the progress thread";
  allow.join();
}

TEST_F(ProgressEngineTest, ASleepingCallerMovesTheCallsOfOtherThreads) {
  issue(Start::kHere);
  std::jthread other([&] {
    EXPECT_TRUE(soon([&] { return work_->stepsByOthers.load() > 100; }));
    fakeTime += std::chrono::nanoseconds(1s).count();  // makes the caller stop polling
    std::this_thread::sleep_for(20ms);
    const std::shared_ptr<HostStream> own = HostStream::create();
    uint8_t buffer = 0;
    auto call = std::make_unique<Collective>();
    call->position = own->enter({{&buffer, 1}, {&buffer, 1}}, engine_);
    const int steps = work_->stepsByOthers.load();
    EXPECT_TRUE(engine_->submit(call, Start::kHere));
    EXPECT_TRUE(soon([&] { return work_->stepsByOthers.load() > steps; })) << "the caller has not taken the call";
    work_->allowed += 2;
    work_->event.ring();
    EXPECT_TRUE(own->synchronize().ok());
  });
  EXPECT_TRUE(stream_->synchronize().ok());
  other.join();
}

TEST_F(ProgressEngineTest, StoppingWakesASleepingCaller) {
  issue(Start::kHere);
  std::jthread stopper([&] {
    EXPECT_TRUE(soon([&] { return work_->stepsByOthers.load() > 100; }));
    fakeTime += std::chrono::nanoseconds(1s).count();  // makes the caller stop polling
    std::this_thread::sleep_for(20ms);
    engine_->stop();
  });
  const auto start = Deadline::Clock::now();
  EXPECT_EQ(stream_->synchronize().message(), std::string("stopped"));
  EXPECT_LT(Deadline::Clock::now() - start, 5s);
  stopper.join();
}

TEST_F(ProgressEngineTest, ProgressThreadFindsAnAbandonedCallWithinMilliseconds) {
  for (int i = 0; i < 100; ++i) {  // the caller waits right after each call
    ++work_->allowed;
    issue(Start::kHere);
    EXPECT_TRUE(stream_->synchronize().ok());
    issue(Start::kHere);
    ++work_->allowed;
    EXPECT_TRUE(stream_->synchronize().ok());
  }
  const int steps = work_->stepsByThread.load();
  issue(Start::kHere);  // no caller waits for this call
  EXPECT_TRUE(soon([&] { return work_->stepsByThread.load() > steps; })) << "the progress thread has not taken it over";
  allowOneMore();
  EXPECT_TRUE(soon([&] { return engine_->drained() && stream_->idle(); }));
}

TEST_F(ProgressEngineTest, LargeCallsOfACallerThatWaitsAtOnceWakeNoThread) {
  const auto call = [&] {
    issue(Start::kByWaitingCaller);
    ++work_->allowed;
    EXPECT_TRUE(stream_->synchronize().ok());
  };
  const auto wakesForEachCall = [&] {
    for (int i = 0; i < 50; ++i) call();  // the engine now leaves calls to their callers
    std::this_thread::sleep_for(5ms);
    call();
    const int before = work_->stepsByThread.load();
    const auto start = Deadline::Clock::now();
    for (int i = 0; i < 50; ++i) call();
    const auto checks = (Deadline::Clock::now() - start) / 1ms;  // the progress thread may check once per millisecond
    return work_->stepsByThread.load() >= before + 20 + 2 * checks;
  };
  // On a busy machine this thread may be late to wait for a call, and the progress thread then takes over for a while.
  bool wakes = true;
  for (int attempt = 0; attempt < 10 && wakes; ++attempt) wakes = wakesForEachCall();
  EXPECT_FALSE(wakes) << "the progress thread wakes for each call";
  issue(Start::kByWaitingCaller);  // no caller waits for this call
  allowOneMore();
  EXPECT_TRUE(soon([&] { return engine_->drained() && stream_->idle(); })) << "the progress thread never takes it over";
}

TEST_F(ProgressEngineTest, ErrorOnACallersThreadEndsAllCalls) {
  issue(Start::kByProgressThread);
  work_->fails = true;
  EXPECT_EQ(stream_->synchronize().message(), std::string("the fake fails"));
  EXPECT_TRUE(soon([&] { return engine_->hasEnded(); }));
  EXPECT_TRUE(engine_->endedWithCalls());
}

TEST_F(ProgressEngineTest, CallsWithAndWithoutWaitersAllEnd) {
  constexpr int kThreads = 4, kCalls = 500;
  std::vector<std::jthread> callers;
  work_->allowed = UINT64_MAX;
  for (int t = 0; t < kThreads; ++t)
    callers.emplace_back([this, t] {
      const std::shared_ptr<HostStream> own = HostStream::create();
      uint8_t buffer = 0;
      for (int i = 0; i < kCalls; ++i) {
        auto call = std::make_unique<Collective>();
        call->position = own->enter({{&buffer, 1}, {&buffer, 1}}, engine_);
        ASSERT_TRUE(engine_->submit(call, static_cast<Start>((i + t) % 3)));
        if (i % 4 != t) {
          ASSERT_TRUE(own->synchronize().ok());
        }
      }
      ASSERT_TRUE(own->synchronize().ok());
    });
  for (std::jthread& caller : callers) caller.join();
  EXPECT_TRUE(soon([&] { return engine_->drained(); }));
}

}  // namespace
}  // namespace bps::test
