// Tests the parts of the hub that do no network I/O: the rank table, the table of control operations, and the list of
// servers.
#include <fstream>

#include "src/control/hub/control_op_table.h"
#include "src/control/hub/rank_table.h"
#include "src/control/pause_detector.h"
#include "src/control/servers/server_list.h"
#include "tests/support/temp_path.h"
#include "tests/unit/control/cluster.h"

namespace bps::test {
namespace {

Join joinOf(uint32_t rank, uint32_t nRanks, const std::string& host, double rate = 0) {
  return {rank, nRanks, 0, 100 + rank, 1, host, host + ".name", rate};
}

TEST(RankTable, MakesTheRosterOfJoinedRanks) {
  RankTable table(joinOf(0, 4, "b", 7));
  EXPECT_FALSE(table.hasSeveralMachines());
  EXPECT_TRUE(table.admit(joinOf(3, 4, "b", 8)).ok());
  EXPECT_FALSE(table.hasSeveralMachines());
  EXPECT_EQ(table.missing(), "2 of 4 ranks missing: 1-2");
  EXPECT_TRUE(table.admit(joinOf(2, 4, "a", 9)).ok());
  EXPECT_TRUE(table.hasSeveralMachines());
  EXPECT_FALSE(table.complete());
  EXPECT_TRUE(table.admit(joinOf(1, 4, "a", 10)).ok());
  ASSERT_TRUE(table.complete());
  const Roster roster = table.roster(5, {1, 2, 3, 4});
  EXPECT_TRUE(decodeRoster(encode(roster)).ok());
  ASSERT_EQ(roster.machines.size(), 2U);
  EXPECT_EQ(roster.machines[0].ranks, (std::vector<uint32_t>{0, 3}));
  EXPECT_EQ(roster.machines[0].bytesPerSecond, 7) << "the leader's rate is used";
  EXPECT_EQ(roster.machines[1].bytesPerSecond, 10);
}

TEST(RankTable, RefusesInconsistentRanks) {
  RankTable table(joinOf(0, 2, "a"));
  EXPECT_STREQ(table.admit(joinOf(2, 2, "a")).message(), "rank 2 is out of range: the communicator has 2 ranks");
  EXPECT_STREQ(table.admit(joinOf(0, 2, "b")).message(), "rank 0 is taken by rank 0 (a.name, pid 100)");
  const Status odd = table.admit(joinOf(1, 3, "b"));
  EXPECT_STREQ(
      odd.message(),
      "ranks disagree about the number of ranks: rank 0 (a.name, pid 100) says 2, rank 1 (b.name, pid 101) says 3");
  EXPECT_TRUE(RankTable::isDisagreement(odd));
  EXPECT_FALSE(table.complete());
}

TEST(RankTable, RefusesARankThatShrinksDifferently) {
  const auto shrinking = [](uint32_t rank, const std::string& group, uint32_t nRanks = 3) {
    Join join = joinOf(rank, nRanks, "a");
    join.group = group;
    return join;
  };
  RankTable table(shrinking(0, "0, 3"), {"rank 1 (x)", "rank 2 (y)", "rank 4 (z)"});
  const Status refusal = table.admit(shrinking(1, "0", 4));
  EXPECT_STREQ(refusal.message(),
               "ranks shrink differently: rank 0 (a.name, pid 100) excludes 0, 3, rank 1 (a.name, pid 101) excludes 0");
  EXPECT_FALSE(RankTable::isDisagreement(refusal)) << "only that rank fails, and it may try again";
  EXPECT_EQ(table.missing(), "2 of 3 ranks missing: rank 2 (y), rank 4 (z)");
  EXPECT_TRUE(table.admit(shrinking(1, "0, 3")).ok());
  EXPECT_EQ(table.missing(), "1 of 3 ranks missing: rank 4 (z)");
}

// Returns a roster with one server and three ranks on two machines. Ranks 0 and 2 are on the first machine.
Roster roster() {
  RankTable table(joinOf(0, 3, "a"));
  EXPECT_TRUE(table.admit(joinOf(1, 3, "b")).ok());
  EXPECT_TRUE(table.admit(joinOf(2, 3, "a")).ok());
  Roster made = table.roster(1, {1, 1, 1, 1000});
  made.servers.push_back({"s:1", 0});
  return made;
}

TEST(ControlOpTable, GathersInRankOrder) {
  ControlOpTable ops(roster());
  for (size_t rank : {2, 0, 1}) {
    EXPECT_FALSE(ops.complete(ControlOp::kGather));
    EXPECT_TRUE(ops.add(rank, {ControlOp::kGather, 0, 0, {{static_cast<uint8_t>(rank)}}}).ok());
  }
  ASSERT_TRUE(ops.complete(ControlOp::kGather));
  EXPECT_EQ(ops.resultFor(ControlOp::kGather, 1).blobs, (std::vector<Blob>{{0}, {1}, {2}}));
  ops.finish(ControlOp::kGather);
  EXPECT_FALSE(ops.complete(ControlOp::kGather));
  EXPECT_FALSE(ops.add(0, {ControlOp::kGather, 0, 0, {{}}}).ok()) << "number 1 is due";
}

TEST(ControlOpTable, OnlyTheFirstExchangeIncludesServers) {
  ControlOpTable ops(roster());
  const auto input = [](uint8_t from, uint32_t number) {
    return ControlOpInput{ControlOp::kExchange, number, 0, {{from, 0}, {from, 1}, {from, 2}}};
  };
  EXPECT_FALSE(ops.add(2, input(0, 0)).ok()) << "not a leader";
  for (size_t participant : {0, 1, 3}) {
    EXPECT_FALSE(ops.complete(ControlOp::kExchange));
    EXPECT_TRUE(ops.add(participant, input(participant == 3 ? 2 : static_cast<uint8_t>(participant), 0)).ok());
  }
  ASSERT_TRUE(ops.complete(ControlOp::kExchange));
  EXPECT_EQ(ops.resultFor(ControlOp::kExchange, 3).blobs, (std::vector<Blob>{{0, 2}, {1, 2}, {2, 2}}));
  EXPECT_EQ(ops.resultFor(ControlOp::kExchange, 1).blobs, (std::vector<Blob>{{0, 1}, {1, 1}, {2, 1}}));
  ops.finish(ControlOp::kExchange);
  EXPECT_FALSE(ops.add(3, input(2, 1)).ok());
  EXPECT_TRUE(ops.add(0, input(0, 1)).ok());
  EXPECT_TRUE(ops.add(1, input(1, 1)).ok());
  ASSERT_TRUE(ops.complete(ControlOp::kExchange));
  EXPECT_EQ(ops.resultFor(ControlOp::kExchange, 0).blobs, (std::vector<Blob>{{0, 0}, {1, 0}, {}}));
}

TEST(ControlOpTable, RefusesUnexpectedInput) {
  ControlOpTable ops(roster());
  EXPECT_FALSE(ops.add(3, {ControlOp::kGather, 0, 0, {{}}}).ok()) << "a server";
  EXPECT_FALSE(ops.add(0, {ControlOp::kGather, 0, 0, {}}).ok());
  EXPECT_FALSE(ops.add(0, {ControlOp::kExchange, 0, 0, {{}, {}}}).ok());
  EXPECT_FALSE(ops.add(0, {ControlOp::kBarrier, 0, 0, {{}}}).ok());
  EXPECT_FALSE(ops.add(0, {ControlOp::kBarrier, 1, 0, {}}).ok());
  EXPECT_TRUE(ops.add(0, {ControlOp::kBarrier, 0, 0, {}}).ok());
  EXPECT_FALSE(ops.add(0, {ControlOp::kBarrier, 0, 0, {}}).ok()) << "twice";
}

// Rank 1 is too late for two splits of the communicator, and in time for the third split.
TEST(ControlOpTable, CancelledSplitLetsTheNextOneStart) {
  ControlOpTable ops(roster());
  const auto input = [](uint32_t number) { return ControlOpInput{ControlOp::kSplit, number, 1, {{7}}}; };
  for (uint32_t number : {0U, 1U}) {
    for (size_t rank : {0, 2}) {
      EXPECT_FALSE(ops.isTooLate(rank, input(number)));
      ASSERT_TRUE(ops.add(rank, input(number)).ok());
    }
    while (!ops.splitTimeoutText()) std::this_thread::yield();
    EXPECT_FALSE(ops.timeoutText()) << "nothing else ends";
    EXPECT_EQ(ops.cancelSplit(), (std::vector<size_t>{0, 2}));
    EXPECT_FALSE(ops.splitTimeoutText());
  }
  EXPECT_TRUE(ops.isTooLate(1, input(0)));
  EXPECT_FALSE(ops.isTooLate(1, input(0))) << "once each";
  EXPECT_TRUE(ops.isTooLate(1, input(1)));
  for (size_t rank : {0, 1, 2}) {
    EXPECT_FALSE(ops.isTooLate(rank, input(2)));
    ASSERT_TRUE(ops.add(rank, input(2)).ok());
  }
  ASSERT_TRUE(ops.complete(ControlOp::kSplit));
  EXPECT_EQ(ops.resultFor(ControlOp::kSplit, 1).blobs, (std::vector<Blob>{{7}, {7}, {7}}));
  ops.finish(ControlOp::kSplit);
  EXPECT_FALSE(ops.add(1, input(2)).ok());
  EXPECT_FALSE(ops.isTooLate(3, input(0))) << "a server is no participant";
  EXPECT_TRUE(ops.add(0, {ControlOp::kGather, 0, 0, {{}}}).ok()) << "gathers are numbered separately";
}

TEST(ControlOpTable, ALostRankDoesNotBeginAnOperation) {
  ControlOpTable ops(roster());
  ops.rankLost(2);
  EXPECT_FALSE(ops.missingInputText(1)) << "rank 1 may leave";
  ASSERT_TRUE(ops.add(0, {ControlOp::kGather, 0, 0, {{}}}).ok());
  EXPECT_TRUE(ops.missingInputText(1));
  EXPECT_FALSE(ops.missingInputText(2));
  ASSERT_TRUE(ops.add(1, {ControlOp::kGather, 0, 0, {{}}}).ok());
  EXPECT_TRUE(ops.complete(ControlOp::kGather));
}

TEST(ControlOpTable, NamesMissingRanksAndWaitingTime) {
  ControlOpTable ops(roster());
  EXPECT_FALSE(ops.timeoutText());
  EXPECT_FALSE(ops.missingInputText(1));
  ASSERT_TRUE(ops.add(0, {ControlOp::kBarrier, 0, 20, {}}).ok());
  ASSERT_TRUE(ops.add(2, {ControlOp::kBarrier, 0, 0, {}}).ok());
  EXPECT_TRUE(ops.missingInputText(1));
  EXPECT_TRUE(ops.missingInputText(3));
  EXPECT_FALSE(ops.missingInputText(2));
  while (!ops.deadline().passed()) std::this_thread::sleep_for(1ms);
  const std::string text = ops.timeoutText().value_or("");
  EXPECT_TRUE(text.starts_with("barrier: 2 of 4 participants missing: rank 1 (b.name, pid 101), server s:1; waited 0"))
      << text;
  EXPECT_TRUE(text.ends_with(" s, the timeout of rank 0 (a.name, pid 100)")) << text;
}

std::string namesOf(const std::string& servers) {
  Result<std::vector<std::string>> names = serverNames(servers);
  if (!names.ok()) return names.error().message();
  std::string joined;
  for (const std::string& name : std::move(names).value()) joined += "<" + name + ">";
  return joined;
}

TEST(ServerList, ReadsListsAndFiles) {
  EXPECT_EQ(namesOf(""), "");
  EXPECT_EQ(namesOf(" a:1, b ,[::1]:3,"), "<a:1><b><[::1]:3>");
  const std::string path = tempPath("servers");
  std::ofstream(path) << "# our servers\ncpu1:7700  # the first\n\n  cpu2\r\ncpu3:1,cpu4:2\n";
  EXPECT_EQ(namesOf("@" + path), "<cpu1:7700><cpu2><cpu3:1><cpu4:2>");
  EXPECT_EQ(namesOf("@/no/such/file"), "BPS_SERVERS=@/no/such/file: cannot read the file: No such file or directory");
}

TEST(ServerList, NamesBadAndDuplicateEntries) {
  EXPECT_EQ(namesOf("a:1,b:2,a:1"), "BPS_SERVERS: a:1 is listed twice");
  EXPECT_EQ(namesOf("a,b,a:7700"), "BPS_SERVERS: a:7700 is listed twice");
  EXPECT_EQ(namesOf("a:banana"), "BPS_SERVERS: \"a:banana\" is not host:port: the port is not a number up to 65535");
}

TEST(PauseDetector, ReportsAPauseForHalfTheTimeOut) {
  PauseDetector pause(10'000);
  auto now = Deadline::Clock::now();
  for (int i = 0; i < 3; ++i) pause.update(now += 1s);
  EXPECT_EQ(pause.text(), "");
  pause.update(now += 12'300ms);
  EXPECT_EQ(pause.text(), "was stopped for 12.3 s");
  for (int i = 0; i < 4; ++i) pause.update(now += 1s);
  EXPECT_EQ(pause.text(), "was stopped for 12.3 s");
  pause.update(now += 1s);
  EXPECT_EQ(pause.text(), "");
}

}  // namespace
}  // namespace bps::test
