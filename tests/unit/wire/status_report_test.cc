#include "src/wire/status_report.h"

#include <gtest/gtest.h>

#include <limits>

namespace bps::test {
namespace {

JobReport jobOf(uint64_t id) {
  JobReport job{id, "serving", "rank 0 (a, pid 1)", 2, 4, 1.5, 0.5, 4096, {}, {}, 3};
  job.calls.push_back({"all-reduce #7 of 1000 float32, sum", 7, 4000, 1});
  job.lanes.push_back({"rank 1 (b, pid 2)", 1, 2, 1});
  return job;
}

TEST(StatusReport, ArrivesAsItWasSent) {
  const StatusReport sent{2, {jobOf(1), jobOf(2)}};
  Result<StatusReport> got = decode<StatusReport>(encode(sent));
  ASSERT_TRUE(got.ok()) << got.error().message();
  const StatusReport report = std::move(got).value();
  EXPECT_EQ(report.silentThreads, 2U);
  ASSERT_EQ(report.jobs.size(), 2U);
  const JobReport& job = report.jobs[1];
  EXPECT_EQ(job.id, 2U);
  EXPECT_EQ(job.state, "serving");
  EXPECT_EQ(job.hub, "rank 0 (a, pid 1)");
  EXPECT_EQ(job.machines, 2U);
  EXPECT_EQ(job.ranks, 4U);
  EXPECT_EQ(job.ageSeconds, 1.5);
  EXPECT_EQ(job.idleSeconds, 0.5);
  EXPECT_EQ(job.bytesSummed, 4096U);
  EXPECT_EQ(job.lanesLeftOut, 3U);
  ASSERT_EQ(job.calls.size(), 1U);
  EXPECT_EQ(job.calls[0].text, "all-reduce #7 of 1000 float32, sum");
  EXPECT_EQ(job.calls[0].number, 7U);
  EXPECT_EQ(job.calls[0].bytes, 4000U);
  EXPECT_EQ(job.calls[0].rail, 1U);
  ASSERT_EQ(job.lanes.size(), 1U);
  EXPECT_EQ(job.lanes[0].peer, "rank 1 (b, pid 2)");
  EXPECT_EQ(job.lanes[0].rail, 1U);
  EXPECT_EQ(job.lanes[0].missing, 2U);
  EXPECT_EQ(job.lanes[0].unsent, 1U);
  EXPECT_EQ(encode(report), encode(sent));
}

TEST(StatusReport, TruncatedAndLengthenedReportsAreRejected) {
  Blob bytes = encode(StatusReport{0, {jobOf(1)}});
  for (size_t length = 0; length < bytes.size(); ++length)
    EXPECT_FALSE(decode<StatusReport>(std::span(bytes).first(length)).ok()) << length;
  bytes.push_back(0);
  EXPECT_FALSE(decode<StatusReport>(bytes).ok());
}

TEST(StatusReport, CountsThatDoNotFitAreRejectedBeforeMemoryIsAllocated) {
  for (const uint32_t count : {2U, 1000U, 0x7fffffffU, 0xffffffffU}) {
    const Blob bytes = WireWriter().put(uint32_t{0}).put(count).putRaw(Blob(60)).bytes();
    EXPECT_FALSE(decode<StatusReport>(bytes).ok()) << count;
  }
}

TEST(StatusReport, ListsAboveTheLimitAreRejected) {
  constexpr size_t kEmptyJobBytes = 60;  // a job whose fields are all 0
  for (const uint32_t more : {0U, 1U}) {
    const auto jobs = static_cast<uint32_t>(StatusReport::kMaxJobs) + more;
    const Blob bytes = WireWriter().put(uint32_t{0}).put(jobs).putRaw(Blob(jobs * kEmptyJobBytes)).bytes();
    EXPECT_EQ(decode<StatusReport>(bytes).ok(), more == 0);
  }
}

TEST(StatusReport, NumbersThatAreNoTimesAreRejected) {
  for (const double bad : {-1.0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()}) {
    StatusReport report{0, {jobOf(1)}};
    report.jobs[0].ageSeconds = bad;
    EXPECT_FALSE(decode<StatusReport>(encode(report)).ok());
  }
}

TEST(StatusReport, ListsAndTextsAreLimited) {
  StatusReport report;
  report.jobs.resize(StatusReport::kMaxJobs + 10);
  for (JobReport& job : report.jobs) {
    job.hub.assign(100'000, 'x');
    job.calls.assign(JobReport::kMaxCalls + 5, {std::string(10'000, 'y'), 1, 1, 0});
    job.lanes.assign(JobReport::kMaxLanes + 5, {std::string(10'000, 'z'), 0, 1, 1});
  }
  const Blob bytes = encode(report);
  EXPECT_LT(bytes.size(), size_t{6} << 20);
  Result<StatusReport> decoded = decode<StatusReport>(bytes);
  ASSERT_TRUE(decoded.ok()) << decoded.error().message();
  const StatusReport got = std::move(decoded).value();
  EXPECT_EQ(got.jobs.size(), StatusReport::kMaxJobs);
  EXPECT_EQ(got.jobs[0].calls.size(), JobReport::kMaxCalls);
  EXPECT_EQ(got.jobs[0].lanes.size(), JobReport::kMaxLanes);
  EXPECT_EQ(got.jobs[0].hub.size(), 200U);
}

}  // namespace
}  // namespace bps::test
