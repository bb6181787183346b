// Tests StallDetector. If two members (ranks or servers) cannot reach each other, their heartbeats show it, and
// StallDetector must name both members. StallDetector must never blame a rank that has not made its next call yet.
#include "src/control/hub/stall_detector.h"

#include <gtest/gtest.h>

#include <map>

namespace bps {
namespace {

using std::chrono::seconds;
constexpr uint32_t kServer = 4;

// Four ranks and a server. Ranks 2 and 3 share a machine.
class StallDetectorTest : public ::testing::Test {
 protected:
  StallDetectorTest() : roster_(makeRoster()), stalls_(roster_) {}

  static Roster makeRoster() {
    Roster roster;
    for (uint32_t rank = 0; rank < 4; ++rank)
      roster.ranks.push_back({"id", "host", rank, std::min<uint32_t>(rank, 2), rank == 3 ? 1U : 0U});
    roster.machines = {{{0}, 0}, {{1}, 0}, {{2, 3}, 0}};
    roster.servers = {{"cpu1:7700", 0}};
    roster.settings.timeoutMs = 10000;
    roster.settings.serverTimeoutMs = 30000;
    return roster;
  }
  void heartbeat(uint32_t member, uint64_t begun, uint64_t call = 0, uint32_t waitsFor = Heartbeat::kNobody) {
    stalls_.onHeartbeat(member, {begun, call, waitsFor}, ++sent_);
    reported_[member] = {begun, call, waitsFor};
  }
  // Calls check() for every second of `forSeconds` simulated seconds. Returns the text of the first failure, or "" if
  // there is none.
  std::string found(int forSeconds) {
    for (int i = 0; i < forSeconds; ++i, now_ += seconds(1)) {
      for (uint32_t member = 0; member <= kServer; ++member)
        if (member != silent_) stalls_.onHeartbeat(member, reported_[member], ++sent_);
      const auto stall = stalls_.check(now_);
      if (stall) return stall->failure.message();
    }
    return {};
  }

  const Roster roster_;
  StallDetector stalls_;
  std::map<uint32_t, Heartbeat> reported_;
  uint64_t sent_ = 0;
  uint32_t silent_ = Heartbeat::kNobody;  // the member that sends no heartbeats
  StallDetector::TimePoint now_{seconds(1000)};
};

TEST_F(StallDetectorTest, RankThatHasNotCalledIsNeverBlamed) {
  for (uint32_t rank = 0; rank < 4; ++rank) heartbeat(rank, rank == 1 ? 7 : 8);
  heartbeat(kServer, 0, 7, 1);
  heartbeat(0, 8, 7, kServer);
  EXPECT_EQ(found(3600), "");
}

TEST_F(StallDetectorTest, AMachineHasCalledWhenAllItsRanksHave) {
  for (uint32_t rank = 0; rank < 3; ++rank) heartbeat(rank, 8);
  heartbeat(3, 7);
  heartbeat(kServer, 0, 7, 2);
  EXPECT_EQ(found(3600), "");
  heartbeat(3, 8);
  EXPECT_NE(found(12), "");
}

TEST_F(StallDetectorTest, StallBetweenTwoCallersNamesBothAfterTheTimeOut) {
  for (uint32_t rank = 0; rank < 4; ++rank) heartbeat(rank, 8);
  heartbeat(kServer, 0, 7, 1);
  heartbeat(1, 8, 7, kServer);
  heartbeat(0, 8, 7, kServer);
  EXPECT_EQ(found(10), "");
  const std::string text = found(2);
  EXPECT_NE(text.find("rank 1 (host, pid 1) and server cpu1:7700 cannot reach each other"), std::string::npos) << text;
  EXPECT_NE(text.find("call #7"), std::string::npos) << text;
}

// Rank 1 and server 5 cannot reach each other, so rank 1 sends nothing to server 4 either. Its heartbeats come once a
// second, so the hub learns of the wait of server 4 first.
TEST(StallDetectorOrder, AWaitCountsOnlyWhenTheAwaitedMemberHasReportedItsOwn) {
  Roster roster;
  for (uint32_t rank = 0; rank < 4; ++rank) roster.ranks.push_back({"id", "host", rank, rank, 0});
  roster.machines = {{{0}, 0}, {{1}, 0}, {{2}, 0}, {{3}, 0}};
  roster.servers = {{"cpu1:7700", 0}, {"cpu2:7700", 0}};
  roster.settings.timeoutMs = 10000;
  roster.settings.serverTimeoutMs = 1000;
  StallDetector stalls(roster);
  StallDetector::TimePoint now{seconds(1000)};
  uint64_t sent = 0, ofRank1 = 0;
  std::string text;
  for (int step = 0; step < 40 && text.empty(); ++step, now += std::chrono::milliseconds(80)) {
    if (step % 12 == 0) ++ofRank1;
    const uint32_t wait = step < 12 ? Heartbeat::kNobody : 5U;
    for (const uint32_t rank : {0U, 2U, 3U}) stalls.onHeartbeat(rank, {8, 7, 5}, ++sent);
    stalls.onHeartbeat(1, {8, 7, wait}, ofRank1);
    stalls.onHeartbeat(4, {0, 7, 1}, ++sent);
    stalls.onHeartbeat(5, {0, 7, 1}, ++sent);
    if (const auto stall = stalls.check(now)) text = stall->failure.message();
  }
  EXPECT_NE(text.find("server cpu2:7700 and rank 1 (host, pid 1) cannot reach each other"), std::string::npos) << text;
}

TEST_F(StallDetectorTest, AMemberThatSendsNoHeartbeatsIsNotBlamed) {
  for (uint32_t rank = 0; rank < 4; ++rank) heartbeat(rank, 8);
  heartbeat(kServer, 0, 7, 1);
  silent_ = 1;
  EXPECT_EQ(found(3600), "");
  silent_ = Heartbeat::kNobody;
  EXPECT_EQ(found(10), "") << "the time without heartbeats does not count";
  EXPECT_NE(found(2), "");
}

TEST_F(StallDetectorTest, MissingAnswerNamesTheIdleOwner) {
  for (uint32_t rank = 0; rank < 4; ++rank) heartbeat(rank, 8);
  heartbeat(2, 8, 7, kServer);
  const std::string text = found(12);
  EXPECT_NE(text.find("rank 2 (host, pid 2) and server cpu1:7700"), std::string::npos) << text;
}

TEST_F(StallDetectorTest, OnlyTheEndOfAWaitChainIsNamed) {
  for (uint32_t rank = 0; rank < 4; ++rank) heartbeat(rank, 8);
  heartbeat(0, 8, 7, 1);
  heartbeat(1, 8, 7, kServer);
  const std::string text = found(12);
  EXPECT_NE(text.find("rank 1 (host, pid 1) and server cpu1:7700"), std::string::npos) << text;
}

// Ranks 2 and 3 share a machine, and each drives a rail. Rank 3 gets no answer, so rank 2 gets nothing to send to rank
// 0.
TEST_F(StallDetectorTest, ARankThatWaitsForARankOfItsMachineIsNotBlamed) {
  for (uint32_t rank = 0; rank < 4; ++rank) heartbeat(rank, 8);
  heartbeat(0, 8, 7, 2);
  heartbeat(3, 8, 7, kServer);
  std::string text = found(12);
  EXPECT_NE(text.find("rank 3 (host, pid 3) and server cpu1:7700"), std::string::npos) << text;
  heartbeat(kServer, 0, 7, 2);  // the server also waits, because rank 2 has nothing to send
  text = found(12);
  EXPECT_NE(text.find("rank 3 (host, pid 3) and server cpu1:7700"), std::string::npos) << text;
}

TEST_F(StallDetectorTest, TheWaitOfARankOfTheMachineInALaterCallDoesNotMatter) {
  for (uint32_t rank = 0; rank < 4; ++rank) heartbeat(rank, 9);
  heartbeat(0, 9, 7, 2);
  heartbeat(3, 9, 8, kServer);
  const std::string text = found(12);
  EXPECT_NE(text.find("rank 0 (host, pid 0) and rank 2 (host, pid 2)"), std::string::npos) << text;
}

// Rank 0 has lost an answer of the server in call 7. The server and rank 1 have everything of call 7 and wait in call
// 8, which rank 0 has not begun.
TEST_F(StallDetectorTest, MissingAnswerIsFoundAlthoughItsSenderWaitsInALaterCall) {
  heartbeat(0, 8, 7, kServer);
  for (uint32_t rank = 1; rank < 4; ++rank) heartbeat(rank, 9, 8, kServer);
  heartbeat(kServer, 0, 8, 0);
  const std::string text = found(12);
  EXPECT_NE(text.find("rank 0 (host, pid 0) and server cpu1:7700"), std::string::npos) << text;
  EXPECT_NE(text.find("call #7"), std::string::npos) << text;
}

TEST_F(StallDetectorTest, EndedWaitResetsTheTimer) {
  for (uint32_t rank = 0; rank < 4; ++rank) heartbeat(rank, 9);
  for (uint64_t call = 0; call < 9; ++call) {
    heartbeat(kServer, 0, call, 1);
    EXPECT_EQ(found(9), "");
  }
}

TEST_F(StallDetectorTest, TimeBeforeARestartDoesNotCount) {
  heartbeat(0, 8, 7, 1);
  heartbeat(1, 8);
  EXPECT_EQ(found(9), "");
  stalls_.restart(now_ + seconds(20));
  EXPECT_EQ(found(25), "");
  EXPECT_NE(found(10), "");
}

TEST_F(StallDetectorTest, UnknownMembersAreIgnored) {
  for (uint32_t rank = 0; rank < 4; ++rank) heartbeat(rank, 8);
  heartbeat(0, 8, 7, 1000);
  heartbeat(1, 8, 7, 1);
  EXPECT_EQ(found(100), "");
}

}  // namespace
}  // namespace bps
