#include "src/comm/metrics/server_tally.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace bps::test {
namespace {

using Kind = ServerEvent::Kind;
using testing::ElementsAre;

// A job with three places: servers 0 and 1 take part, server 2 is absent.
class ServerTallyTest : public testing::Test {
 protected:
  static Roster roster() {
    Roster roster;
    roster.servers = {{"a", 0}, {"b", 0}, {"c", 0, false}};
    return roster;
  }
  void note(Kind kind, uint32_t server) { tally_.note({.kind = kind, .server = server}); }
  void change(Kind what, uint32_t server) {
    note(what, server);
    note(Kind::kAt, server);
    note(Kind::kEnd, server);
  }

  ServerTally tally_{roster()};
};

TEST_F(ServerTallyTest, CountsEveryKindOfChange) {
  EXPECT_EQ(tally_.inUse(), 2U);
  EXPECT_THAT(tally_.counts(), ElementsAre(0, 0, 0, 0));
  note(Kind::kLost, 0);
  EXPECT_EQ(tally_.inUse(), 1U);
  change(Kind::kJoining, 2);
  EXPECT_EQ(tally_.inUse(), 2U);
  change(Kind::kNewRate, 2);
  EXPECT_EQ(tally_.inUse(), 2U);
  change(Kind::kLeaving, 1);
  EXPECT_EQ(tally_.inUse(), 1U);
  EXPECT_THAT(tally_.counts(), ElementsAre(1, 1, 1, 1)) << "lost, joined, left, rate";
}

TEST_F(ServerTallyTest, AChangeCountsWhenItTakesEffect) {
  note(Kind::kJoining, 2);
  note(Kind::kHandles, 2);
  note(Kind::kConnected, 2);
  EXPECT_EQ(tally_.inUse(), 2U);
  note(Kind::kAborted, 2);
  note(Kind::kAt, 2);
  EXPECT_EQ(tally_.inUse(), 2U) << "the change was aborted";
  EXPECT_THAT(tally_.counts(), ElementsAre(0, 0, 0, 0));
}

TEST_F(ServerTallyTest, AServerThatIsLostWhileItLeavesCountsOnce) {
  note(Kind::kLeaving, 1);
  note(Kind::kLost, 1);
  note(Kind::kAt, 1);
  EXPECT_THAT(tally_.counts(), ElementsAre(1, 0, 0, 0));
  change(Kind::kLeaving, 0);
  note(Kind::kLost, 0);
  EXPECT_THAT(tally_.counts(), ElementsAre(1, 0, 1, 0));
  EXPECT_EQ(tally_.inUse(), 0U);
}

TEST_F(ServerTallyTest, AServerThatIsInNoPlaceIsIgnored) {
  note(Kind::kLost, 3);
  EXPECT_EQ(tally_.inUse(), 2U);
}

}  // namespace
}  // namespace bps::test
