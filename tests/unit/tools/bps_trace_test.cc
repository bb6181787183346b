#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "tools/bps_trace/report.h"
#include "tools/bps_trace/timeline.h"

namespace bps::trace {
namespace {

using testing::HasSubstr;
using trace::Stage;

constexpr uint64_t kMicro = 1000, kChunkBytes = 1 << 20;

// Two ranks on two machines, and one server that owns everything. Rank 1's clock is behind by kBehind.
constexpr int64_t kBehind = 5000000;

TracedProcess process(bool server, uint32_t number) {
  TracedProcess made;
  made.path = server ? "t.server" : "t." + std::to_string(number);
  trace::Header& header = made.file.header;
  header.server = server;
  header.number = number;
  header.endpoint = server ? 2 : number;
  header.job = 7;
  header.host = "host";
  header.names = {"rank 0 (a, pid 1)", "rank 1 (b, pid 2)", "server s:1"};
  header.rates = {1e9, 1e9, 1e9};
  header.machines = header.ranks = 2;
  return made;
}

// Rank 1 makes its call `late` microseconds after rank 0. A push and an answer take 100 us each, the sum 10 us.
std::vector<TracedProcess> job(uint64_t calls, uint64_t late) {
  std::vector<TracedProcess> all = {process(false, 0), process(false, 1), process(true, 0)};
  all[1].file.clock = {{0, kBehind, 3}};
  all[2].file.clock = {{0, 0, 4}};
  const auto add = [&](size_t p, Stage stage, uint64_t call, uint64_t micros, uint16_t peer) {
    const auto time = 100000000 + micros * kMicro - (p == 1 ? kBehind : 0);
    all[p].file.events.push_back({time, call, kChunkBytes, static_cast<uint32_t>(call), peer, stage, 0});
  };
  for (uint64_t call = 0; call < calls; ++call) {
    const uint64_t start = call * 1000, sum = start + late + 100, end = sum + 110;
    for (uint16_t rank = 0; rank < 2; ++rank) {
      const uint64_t submitted = start + rank * late;
      add(rank, Stage::kSubmitted, call, submitted, trace::kNoPeer);
      add(rank, Stage::kAdmitted, call, submitted, trace::kNoPeer);
      add(rank, Stage::kChunkAdmitted, call, submitted, 2);
      add(rank, Stage::kPushed, call, submitted + 50, 2);
      add(2, Stage::kArrived, call, submitted + 100, rank);
      add(rank, Stage::kReceived, call, end, 2);
      add(rank, Stage::kRetired, call, end, 2);
      add(rank, Stage::kComplete, call, end, trace::kNoPeer);
    }
    add(2, Stage::kSumBegun, call, sum, 2);
    add(2, Stage::kSummed, call, sum + 10, 2);
  }
  return all;
}

TEST(BpsTrace, CriticalPathHasNoGaps) {
  const TraceSet set = makeTraceSet(job(10, 400)).value();
  const std::vector<Segment> path = criticalPath(JobHistory(set));
  ASSERT_FALSE(path.empty());
  for (size_t i = 1; i < path.size(); ++i) EXPECT_EQ(path[i].from, path[i - 1].until);
  EXPECT_EQ(path.front().from, 1U);
  EXPECT_EQ(path.back().until, set.end);
}

TEST(BpsTrace, ReportNamesTheLateRank) {
  const TraceSet set = makeTraceSet(job(10, 400)).value();
  const std::string text = reportText(JobHistory(set));
  EXPECT_THAT(text, HasSubstr("waiting for rank 1\n"));
  EXPECT_THAT(text, HasSubstr("rank 1 as early as the others: 1."));
  EXPECT_THAT(text, testing::Not(HasSubstr("waiting for rank 0")));
}

TEST(BpsTrace, TimesAreOnTheClockOfRank0) {
  const TraceSet set = makeTraceSet(job(1, 400)).value();
  const JobHistory history(set);
  const TracedCall& call = history.calls().at(0);
  EXPECT_EQ(call.ranks.at(1).submitted - call.ranks.at(0).submitted, 400 * kMicro);
}

TEST(BpsTrace, ReportSaysWhichFilesAreMissing) {
  std::vector<TracedProcess> all = job(3, 0);
  all.pop_back();
  const TraceSet set = makeTraceSet(std::move(all)).value();
  EXPECT_THAT(reportText(JobHistory(set)), HasSubstr("no file of server s:1"));
}

TEST(BpsTrace, FilesOfTwoCommunicatorsAreRefused) {
  std::vector<TracedProcess> all = job(1, 0);
  all[1].file.header.job = 8;
  const auto made = makeTraceSet(std::move(all));
  ASSERT_FALSE(made.ok());
  EXPECT_THAT(made.error().message(), HasSubstr("t.1: is of another communicator"));
}

TEST(BpsTrace, TwoFilesOfOneRankAreRefused) {
  std::vector<TracedProcess> all = {process(false, 0), process(false, 0)};
  EXPECT_FALSE(makeTraceSet(std::move(all)).ok());
}

TEST(BpsTrace, TimelineHasArrowsAndSlicesThatDoNotOverlap) {
  const TraceSet set = makeTraceSet(job(10, 400)).value();
  const Timeline timeline = makeTimeline(JobHistory(set));
  EXPECT_EQ(timeline.arrows.size(), 4U * 10);
  for (const TimelineProcess& each : timeline.processes)
    for (const Track& track : each.tracks)
      for (size_t i = 1; i < track.slices.size(); ++i)
        EXPECT_GE(track.slices[i].from, track.slices[i - 1].until) << track.name;
}

TEST(BpsTrace, ChromeTraceIsJson) {
  const TraceSet set = makeTraceSet(job(2, 400)).value();
  const nlohmann::json json = nlohmann::json::parse(chromeJson(makeTimeline(JobHistory(set))));
  EXPECT_GT(json["traceEvents"].size(), 40U);
}

}  // namespace
}  // namespace bps::trace
