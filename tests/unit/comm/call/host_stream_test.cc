#include "src/comm/call/host_stream.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <thread>

namespace bps {
namespace {

class FakeStreamWorker final : public StreamWorker {
 public:
  void wake() override { ++wakes; }
  void progressFor(const StreamEntry&) override {}
  int wakes = 0;
};

std::shared_ptr<StreamWorker> worker() { return std::make_shared<FakeStreamWorker>(); }

BufferRange range(const std::array<char, 64>& memory, size_t from, size_t bytes) { return {&memory[from], bytes}; }

TEST(HostStream, CallsWaitOnlyForTheirDependencies) {
  auto stream = HostStream::create();
  const std::array<char, 64> memory{};
  const auto first = stream->enter({range(memory, 0, 8), range(memory, 8, 8)}, worker());
  const auto apart = stream->enter({range(memory, 16, 8), range(memory, 24, 8)}, worker());
  const auto readsResult = stream->enter({range(memory, 8, 8), range(memory, 32, 8)}, worker());
  const auto writesInput = stream->enter({range(memory, 40, 8), range(memory, 4, 4)}, worker());
  const auto bothRead = stream->enter({range(memory, 0, 8), range(memory, 48, 8)}, worker());
  EXPECT_TRUE(first->mayStart());
  EXPECT_TRUE(apart->mayStart());
  EXPECT_FALSE(readsResult->mayStart());
  EXPECT_FALSE(writesInput->mayStart());
  EXPECT_FALSE(bothRead->mayStart()) << "what it reads is written by an earlier call";
  stream->complete(*first, Status());
  EXPECT_TRUE(readsResult->mayStart());
  EXPECT_TRUE(writesInput->mayStart());
  for (const auto& entry : {apart, readsResult, writesInput, bothRead}) stream->complete(*entry, Status());
  EXPECT_TRUE(stream->idle());
  HostStream::destroy(stream.get());
}

TEST(HostStream, FusedCallsWaitOnlyForConflictsOfTheirParts) {
  auto stream = HostStream::create();
  const std::array<char, 64> memory{};
  const auto one = worker();
  const auto between = stream->enter({range(memory, 16, 4), range(memory, 20, 4)}, one);
  const auto fused = stream->enterFused({{range(memory, 0, 8), range(memory, 8, 8)},  // on both sides of `between`
                                         {range(memory, 32, 8), range(memory, 40, 8)}},
                                        one);
  const auto later = stream->enter({range(memory, 24, 4), range(memory, 28, 4)}, one);
  const auto reads = stream->enter({range(memory, 44, 4), range(memory, 60, 4)}, one);
  const auto second =
      stream->enterFused({{range(memory, 24, 4), range(memory, 50, 4)}, {range(memory, 0, 4), {}}}, one);
  const auto third = stream->enterFused({{range(memory, 8, 4), range(memory, 54, 2)}, {range(memory, 0, 4), {}}}, one);
  EXPECT_TRUE(fused->mayStart());
  EXPECT_TRUE(later->mayStart());
  EXPECT_FALSE(reads->mayStart());
  EXPECT_TRUE(second->mayStart());
  EXPECT_FALSE(third->mayStart());
  // A fused call does not cover the memory between its parts.
  const auto again = stream->enter({range(memory, 20, 4), range(memory, 36, 4)}, one);
  stream->complete(*fused, Status());
  EXPECT_FALSE(again->mayStart()) << "reads what the call in between writes";
  for (const auto& entry : {between, later, reads, second, third, again}) stream->complete(*entry, Status());
  EXPECT_TRUE(stream->idle());
  HostStream::destroy(stream.get());
}

// A forked child drops its parent's calls, because it has no threads to run them and must not use the parent's
// connections.
TEST(HostStream, ForkedChildDropsItsParentsCalls) {
  auto stream = HostStream::create();
  const std::array<char, 64> memory{};
  const auto pending = stream->enter({range(memory, 0, 8), range(memory, 8, 8)}, worker());
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(5);
    const auto own = stream->enter({range(memory, 0, 8), range(memory, 8, 8)}, worker());
    const bool free = own->mayStart();
    stream->complete(*own, Status());
    ::_exit(free && stream->synchronize().ok() && stream->idle() ? 0 : 1);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  EXPECT_FALSE(stream->idle());
  stream->complete(*pending, Status());
  EXPECT_TRUE(stream->synchronize().ok());
  HostStream::destroy(stream.get());
}

// A call must not wait for all calls before it, because then thousands of calls would take seconds.
TEST(HostStream, CallsOnTheSameBuffersWaitForTheLastOfThem) {
  auto stream = HostStream::create();
  const std::array<char, 64> memory{};
  const auto one = worker(), other = worker();
  const auto reads = stream->enter({range(memory, 0, 32), range(memory, 40, 8)}, one);
  const auto a = stream->enter({range(memory, 0, 16), range(memory, 0, 16)}, one);
  const auto b = stream->enter({range(memory, 0, 16), range(memory, 0, 16)}, one);
  const auto c = stream->enter({range(memory, 4, 8), range(memory, 4, 8)}, one);
  EXPECT_EQ(b->dependencies.size(), 1U);
  EXPECT_EQ(c->dependencies.size(), 1U);
  const auto out = stream->enter({range(memory, 48, 8), range(memory, 56, 8)}, one);
  const auto again = stream->enter({range(memory, 48, 8), range(memory, 56, 8)}, one);
  const auto writesInput = stream->enter({range(memory, 0, 8), range(memory, 48, 8)}, one);
  EXPECT_EQ(again->dependencies, std::vector{out});
  EXPECT_EQ(writesInput->dependencies, (std::vector{again, out, c, b})) << "both that read it; b stands for a";
  for (const auto& entry : {out, again, writesInput}) stream->complete(*entry, Status());
  const auto wider = stream->enter({range(memory, 0, 20), range(memory, 0, 20)}, one);
  EXPECT_EQ(wider->dependencies.size(), 4U) << "none of those before it writes all of it";
  const auto ofOther = stream->enter({range(memory, 0, 20), range(memory, 0, 20)}, other);
  EXPECT_EQ(ofOther->dependencies.size(), 5U) << "a call of another worker may end early";
  for (const auto& entry : {reads, a, b, c}) {
    EXPECT_FALSE(wider->mayStart());
    stream->complete(*entry, Status());
  }
  EXPECT_TRUE(wider->mayStart());
  EXPECT_FALSE(ofOther->mayStart());
  for (const auto& entry : {wider, ofOther}) stream->complete(*entry, Status());
  HostStream::destroy(stream.get());
}

TEST(HostStream, SynchronizeReturnsTheFirstFailureOnce) {
  auto stream = HostStream::create();
  const std::array<char, 64> memory{};
  const auto a = stream->enter({range(memory, 0, 8), range(memory, 8, 8)}, worker());
  const auto b = stream->enter({range(memory, 16, 8), range(memory, 24, 8)}, worker());
  std::jthread other([&] {
    stream->complete(*a, Status(Code::kRemote, "first"));
    stream->complete(*b, Status(Code::kInternal, "second"));
  });
  const Status outcome = stream->synchronize();
  other.join();
  EXPECT_EQ(outcome.code(), Code::kRemote);
  EXPECT_STREQ(outcome.message(), "first");
  EXPECT_TRUE(stream->synchronize().ok());
  HostStream::destroy(stream.get());
}

TEST(HostStream, SynchronizeReturnsTheThreadsOwnFailure) {
  auto stream = HostStream::create();
  const std::array<char, 64> memory{};
  const auto mine = stream->enter({range(memory, 0, 8), range(memory, 8, 8)}, worker());
  std::shared_ptr<StreamEntry> others;
  std::atomic<bool> failed{false};
  Status otherOutcome, again;
  std::jthread other([&] {
    others = stream->enter({range(memory, 16, 8), range(memory, 24, 8)}, worker());
    stream->complete(*mine, Status(Code::kRemote, "mine"));
    stream->complete(*others, Status(Code::kInternal, "the other's"));
    failed = true;
    failed.notify_one();
    failed.wait(true);  // waits until the main thread has synchronized
    otherOutcome = stream->synchronize();
    again = stream->synchronize();
  });
  failed.wait(false);
  EXPECT_STREQ(stream->synchronize().message(), "mine");
  EXPECT_TRUE(stream->synchronize().ok());
  failed = false;
  failed.notify_one();
  other.join();
  EXPECT_STREQ(otherOutcome.message(), "the other's");
  EXPECT_TRUE(again.ok());
  HostStream::destroy(stream.get());
}

// A thread that has made no calls itself receives a failure that no other thread has received yet.
TEST(HostStream, ThreadWithoutCallsGetsTheUnreportedFailure) {
  auto stream = HostStream::create();
  const std::array<char, 64> memory{};
  std::jthread([&] {
    const auto call = stream->enter({range(memory, 0, 8), range(memory, 8, 8)}, worker());
    stream->complete(*call, Status(Code::kRemote, "lost"));
  }).join();
  EXPECT_STREQ(stream->synchronize().message(), "lost");
  EXPECT_TRUE(stream->synchronize().ok());
  HostStream::destroy(stream.get());
}

TEST(HostStream, EventIsCompleteWithTheCallsBeforeIt) {
  auto stream = HostStream::create();
  const std::array<char, 64> memory{};
  const auto enter = [&](size_t at) { return stream->enter({range(memory, at, 8), range(memory, at, 8)}, worker()); };
  const uint64_t atStart = stream->recordEvent();
  const auto a = enter(0), b = enter(8);
  const uint64_t event = stream->recordEvent();
  const auto later = enter(16);
  EXPECT_TRUE(stream->outcomeOf(atStart).has_value());
  stream->complete(*b, Status());
  EXPECT_FALSE(stream->outcomeOf(event).has_value());
  std::jthread other([&] { stream->complete(*a, Status()); });
  EXPECT_TRUE(stream->synchronize(event).ok());
  other.join();
  EXPECT_TRUE(stream->outcomeOf(event).has_value());
  EXPECT_FALSE(stream->idle());
  stream->complete(*later, Status());
  HostStream::destroy(stream.get());
}

// The calls end in another order than they entered the stream.
TEST(HostStream, EventsBehindAFailedCallFailUntilTheStreamIsSynchronized) {
  auto stream = HostStream::create();
  const std::array<char, 64> memory{};
  const auto enter = [&](size_t at) { return stream->enter({range(memory, at, 8), range(memory, at, 8)}, worker()); };
  const auto good = enter(0);
  const uint64_t beforeFailure = stream->recordEvent();
  const auto first = enter(8), second = enter(16);
  const uint64_t behindFailure = stream->recordEvent();
  stream->complete(*second, Status(Code::kInternal, "second"));
  stream->complete(*first, Status(Code::kRemote, "first"));
  stream->complete(*good, Status());
  EXPECT_TRUE(stream->synchronize(beforeFailure).ok());
  EXPECT_STREQ(stream->synchronize(behindFailure).message(), "first");
  EXPECT_STREQ(stream->synchronize(stream->recordEvent()).message(), "first");
  EXPECT_FALSE(stream->synchronize().ok());
  EXPECT_TRUE(stream->synchronize(behindFailure).ok());
  HostStream::destroy(stream.get());
}

TEST(HostStream, CallsOfAnotherStreamDoNotWait) {
  auto one = HostStream::create(), two = HostStream::create();
  const std::array<char, 64> memory{};
  const auto a = one->enter({range(memory, 0, 8), range(memory, 8, 8)}, worker());
  const auto b = two->enter({range(memory, 8, 8), range(memory, 0, 8)}, worker());
  EXPECT_TRUE(b->mayStart());
  one->complete(*a, Status());
  two->complete(*b, Status());
  HostStream::destroy(one.get());
  HostStream::destroy(two.get());
}

TEST(HostStream, FindReturnsOnlyExistingStreams) {
  const auto stream = HostStream::create();
  EXPECT_EQ(HostStream::find(stream.get()), stream);
  HostStream::destroy(stream.get());
  EXPECT_EQ(HostStream::find(stream.get()), nullptr);
  EXPECT_NE(HostStream::find(nullptr), nullptr) << "the default stream";
}

}  // namespace
}  // namespace bps
