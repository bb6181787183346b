#include "src/server/status/status_requests.h"

#include <gtest/gtest.h>

#include <thread>

#include "src/server/status/report_text.h"

namespace bps::server::test {
namespace {

// A runner of several threads whose reports the test makes.
class CountingRunner final : public JobRunner {
 public:
  Status open(const JobSpec&, std::shared_ptr<JobEvents>) override { return {}; }
  void connect(uint64_t, std::vector<Blob>) override {}
  void lose(uint64_t, size_t) override {}
  void finish(uint64_t) override {}
  void close(uint64_t) override {}
  ServerLoad load() const override { return {}; }
  size_t report(uint64_t collection, const std::shared_ptr<JobEvents>&) override {
    latest = collection;
    ++collections;
    return threads;
  }
  size_t threads = 2;
  uint64_t latest = 0;
  int collections = 0;
};

JobReport jobOf(uint64_t id) {
  JobReport job;
  job.id = id;
  return job;
}

class StatusRequestsTest : public testing::Test {
 protected:
  void step() { requests_.step(runner_, nullptr); }
  StatusRequests requests_;
  CountingRunner runner_;
};

TEST_F(StatusRequestsTest, AnswersOnceAllThreadsHaveReported) {
  ASSERT_TRUE(requests_.ask(7).ok());
  step();
  EXPECT_FALSE(requests_.take());
  requests_.add(runner_.latest, {jobOf(1), jobOf(2)});
  EXPECT_FALSE(requests_.take());
  requests_.add(runner_.latest, {jobOf(3)});
  const auto answer = requests_.take();
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->sessions, std::vector<uint64_t>{7});
  EXPECT_FALSE(answer->toLog);
  EXPECT_EQ(answer->report.silentThreads, 0U);
  ASSERT_EQ(answer->report.jobs.size(), 3U);
  EXPECT_EQ(answer->report.jobs[2].id, 3U);
  EXPECT_FALSE(requests_.take());
}

TEST_F(StatusRequestsTest, ASessionMayAskAgainOnlyAfterTheAnswer) {
  ASSERT_TRUE(requests_.ask(7).ok());
  EXPECT_FALSE(requests_.ask(7).ok());
  EXPECT_TRUE(requests_.ask(8).ok());
  step();
  EXPECT_FALSE(requests_.ask(7).ok());
  for (size_t i = 0; i < runner_.threads; ++i) requests_.add(runner_.latest, {});
  ASSERT_TRUE(requests_.take());
  EXPECT_TRUE(requests_.ask(7).ok());
}

TEST_F(StatusRequestsTest, FrequentRequestsShareACollection) {
  runner_.threads = 0;
  const Deadline end = Deadline::in(StatusRequests::kMinInterval * 3);
  for (uint64_t session = 1; !end.passed(); ++session) {
    ASSERT_TRUE(requests_.ask(session).ok());
    step();
    const auto answer = requests_.take();
    EXPECT_TRUE(!answer || !answer->sessions.empty());
  }
  EXPECT_GE(runner_.collections, 2);
  EXPECT_LE(runner_.collections, 4);
}

TEST_F(StatusRequestsTest, AThreadThatDoesNotReportIsCountedAfterAWhile) {
  requests_.askForLog();
  step();
  requests_.add(runner_.latest, {jobOf(1)});
  EXPECT_FALSE(requests_.take());
  std::this_thread::sleep_for(StatusRequests::kMaxWait);
  const auto answer = requests_.take();
  ASSERT_TRUE(answer);
  EXPECT_TRUE(answer->toLog);
  EXPECT_EQ(answer->report.silentThreads, 1U);
  EXPECT_EQ(reportLines(answer->report).back(), "1 summation threads do not answer; their jobs are missing here");
  // The late report does not disturb the next collection.
  ASSERT_TRUE(requests_.ask(5).ok());
  const uint64_t before = runner_.latest;
  step();
  requests_.add(before, {jobOf(1)});
  requests_.add(runner_.latest, {});
  EXPECT_FALSE(requests_.take());
  requests_.add(runner_.latest, {});
  ASSERT_TRUE(requests_.take());
}

}  // namespace
}  // namespace bps::server::test
