// Tests the metrics of a rank: the address of each process, the samples of a page, and what stays after a communicator.
#include "src/comm/metrics/rank_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include "src/base/format.h"
#include "src/base/io/socket.h"
#include "tests/unit/control/cluster.h"

namespace bps::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Machine 0 has ranks 0, 1 and 3 in the processes 70, 70 and 71; machine 1 has rank 2.
Roster roster() {
  Roster roster;
  roster.jobId = 0xab;
  roster.ranks = {{"a", "a", 70, 0, 0}, {"a", "a", 70, 0, 1}, {"b", "b", 70, 1, 0}, {"a", "a", 71, 0, 2}};
  roster.machines = {{{0, 1, 3}, 0}, {{2}, 0}};
  roster.servers = {{"server", 0}};
  roster.settings.rails = 1;
  return roster;
}

std::string addressOf(const std::string& setting, uint32_t rank) {
  Result<Address> address = metricsAddress(setting, roster(), rank);
  return address.ok() ? std::move(address).value().text() : address.error().message();
}

TEST(MetricsAddress, EveryProcessOfAMachineHasAPort) {
  EXPECT_EQ(addressOf("127.0.0.1:9400", 0), "127.0.0.1:9400");
  EXPECT_EQ(addressOf("127.0.0.1:9400", 1), "127.0.0.1:9400") << "the process of rank 0";
  EXPECT_EQ(addressOf("127.0.0.1:9400", 3), "127.0.0.1:9401");
  EXPECT_EQ(addressOf("127.0.0.1:9400", 2), "127.0.0.1:9400") << "the first process of another machine";
  EXPECT_EQ(addressOf("[::1]:9400", 3), "[::1]:9401");
  EXPECT_EQ(addressOf("127.0.0.1:0", 3), "127.0.0.1:0");
  EXPECT_THAT(addressOf("127.0.0.1:65535", 3), HasSubstr("65536"));
}

TEST(RankPage, HasTheCallsOfOpenAndEndedCommunicators) {
  RankTotals ended;
  {
    CommCounters counters(roster(), 0);
    counters.calls.begun.add(3);
    counters.calls.completed.add(3);
    counters.network->bytesSent.add(7);
    counters.servers.note({.kind = ServerEvent::Kind::kLost, .server = 0});
    ended.add(counters);
  }
  CommCounters counters(roster(), 0);
  counters.calls.begun.add(4);
  counters.calls.completed.add(1);
  counters.calls.failed.add(1);
  counters.calls.nanoseconds.add(1'500'000'000);
  counters.chunksInFlight = 12;
  counters.setWaits(2, [](size_t machine) { return std::chrono::milliseconds(250 * machine); });
  const std::string page = rankPage({{{0xab, 0, 4, 0}, &counters, true}}, ended);
  for (const char* line :
       {"bps_rank_info{job=\"00000000000000ab\",rank=\"0\",ranks=\"4\",machine=\"0\"} 1",
        "bps_rank_failed_communicators 1", "bps_rank_calls_begun_total 7", "bps_rank_calls_completed_total 4",
        "bps_rank_calls_failed_total 1", "bps_rank_calls_in_flight 2", "bps_rank_chunks_in_flight 12",
        "bps_rank_call_seconds_total 1.5", "bps_rank_sent_bytes_total 7",
        "bps_rank_server_changes_total{change=\"lost\"} 1", "bps_rank_servers{job=\"00000000000000ab\",rank=\"0\"} 1",
        "bps_rank_wait_seconds_total{job=\"00000000000000ab\",rank=\"0\",for_rank=\"2\"} 0.25"})
    EXPECT_THAT(page, HasSubstr(std::string("\n") + line + "\n"));
}

TEST(RankPage, WaitsForManyMachinesAreAddedUp) {
  Roster large;
  for (uint32_t m = 0; m < 100; ++m) {
    large.ranks.push_back({std::to_string(m), "", m, m, 0});
    large.machines.push_back({{m}, 0});
  }
  CommCounters counters(large, 0);
  counters.setWaits(100, [](size_t) { return std::chrono::seconds(1); });
  const std::string page = rankPage({{{1, 0, 100, 0}, &counters, false}}, {});
  EXPECT_THAT(page, HasSubstr("for_rank=\"63\"} 1\n"));
  EXPECT_THAT(page, Not(HasSubstr("for_rank=\"64\"")));
  EXPECT_THAT(page, HasSubstr("for_rank=\"others\"} 36\n"));
}

// True if something listens at the address.
bool listens(const Address& where) {
  const UniqueFd fd(::socket(where.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  return ::connect(fd.get(), where.data(), where.length()) == 0;
}

TEST(RankMetrics, TheFirstCommunicatorStartsTheServerAndTheLastEndsIt) {
  const Address where = freeAddress();
  Env env;
  const auto enter = [&] { return RankMetrics::enter(env, roster(), 0, [] { return Status(); }); };
  EXPECT_EQ(enter(), nullptr) << "BPS_METRICS is unset";
  env.metrics = where.text();
  for (int again = 0; again < 2; ++again) {
    auto first = enter(), second = enter();
    EXPECT_TRUE(listens(where));
    first.reset();
    EXPECT_TRUE(listens(where));
    second.reset();
    EXPECT_FALSE(listens(where));
  }
}

TEST(RankMetrics, APortThatIsTakenCostsTheMetricsOnly) {
  const UniqueFd other = std::move(listenOn(loopback())).value();
  Env env;
  env.metrics = std::move(localAddress(other.get())).value().text();
  const auto member = RankMetrics::enter(env, roster(), 0, [] { return Status(); });
  ASSERT_NE(member, nullptr);
  member->counters().calls.begun.add();
}

}  // namespace
}  // namespace bps::test
