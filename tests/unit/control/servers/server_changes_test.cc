// Tests how servers join and leave a running communicator.
#include "tests/unit/control/servers/server_changes_fixture.h"

namespace bps::test {
namespace {

TEST_F(ServerChangesTest, AServerThatWasAbsentAtTheStartJoins) {
  start({1});
  EXPECT_EQ(cluster_->plane(0).roster().presentServers(), 1U);
  run(0);
  const ServerEvent joining = expectEvent(Event::kJoining, 0);
  EXPECT_EQ(joining.text, addresses_[0].text());
  replyAll(Reply::kHandles);
  for (size_t rank = 0; rank < kRanks; ++rank) {
    const ServerEvent event = (*cluster_)[rank].failures.waitForChange();
    EXPECT_EQ(event.kind, Event::kHandles);
    EXPECT_EQ(event.handles, FakeRunner::handle(kRanks, rank)) << "the server's handles for this machine";
  }
  const std::vector<FakeRunner::Job> jobs = runner(0).jobs();
  ASSERT_EQ(jobs.size(), 1U);
  EXPECT_EQ(jobs[0].spec.endpoint, kRanks);
  EXPECT_EQ(jobs[0].spec.roster.presentServers(), 2U);
  connectAll(0);
  completeChange(0);
  EXPECT_EQ(runner(0).jobs()[0].received, (std::vector<Blob>{{0, 9}, {1, 9}, {2, 9}, {}, {}}));
  expectFine();
  servers_[0].reset();
  expectLost(0);
  cluster_->leave();
}

TEST_F(ServerChangesTest, AServerIsNotDialedAgainWhileItJoins) {
  timeout_ = 4;
  start({1});
  testing::internal::CaptureStderr();
  run(0);
  expectEvent(Event::kJoining, 0);
  replyAll(Reply::kHandles);
  expectEvent(Event::kHandles, 0);
  expectNoEvent(.7);
  connectAll(0);
  completeChange(0);
  cluster_->leave();
  const std::string log = testing::internal::GetCapturedStderr();
  EXPECT_EQ(log.find("refused"), std::string::npos) << log;
}

TEST_F(ServerChangesTest, AServerThatIsLostMayComeBack) {
  start({0, 1});
  servers_[1].reset();
  expectLost(1);
  run(1);
  expectJoins(1);
  cluster_->leave();
}

TEST_F(ServerChangesTest, OneChangeAtATime) {
  timeout_ = 4;
  start({});
  run(0);
  expectEvent(Event::kJoining, 0);
  run(1);
  expectNoEvent(1.2);
  completeJoin(0);
  expectJoins(1);
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, AServerThatDrainsLeavesAndItsEndIsNoLoss) {
  start({0, 1});
  servers_[0]->drain();
  expectLeaves(0);
  servers_[0].reset();
  expectNoEvent(.3);
  expectFine();
  run(0);
  expectJoins(0);
  expectNoEvent(.3);
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, AllServersMayLeave) {
  start({0, 1});
  servers_[0]->drain();
  servers_[1]->drain();
  const ServerEvent first = (*cluster_)[0].failures.waitForChange();
  ASSERT_EQ(first.kind, Event::kLeaving);
  for (size_t rank = 1; rank < kRanks; ++rank)
    EXPECT_EQ((*cluster_)[rank].failures.waitForChange().server, first.server);
  change_ = first.change;
  completeChange(first.server);
  expectLeaves(1 - first.server);
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, TheFileAddsAndRemovesServers) {
  start({0, 1}, true);
  run(2);
  write(list({0, 1, 2}));
  EXPECT_EQ(expectEvent(Event::kJoining, 2).text, addresses_[2].text());
  completeJoin(2);
  write(list({1, 2}));
  expectLeaves(0);
  expectFine();
  write("");
  expectLeaves(1);
  expectLeaves(2);
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, AServerOfTheFileTakesThePlaceOfOneThatLeaves) {
  start({0, 1}, true);
  write(list({0, 1, 2}));
  run(2);
  expectEvent(Event::kJoining, 2);
  completeJoin(2);
  const Address fourth = freeAddress();
  const TestServer another(localEnv(timeout_), fourth);
  write(list({0, 2}) + "," + fourth.text());
  expectLeaves(1);
  EXPECT_EQ(expectEvent(Event::kJoining, 1).text, fourth.text());
  completeJoin(1);
  for (const size_t rank : {0U, 2U}) EXPECT_EQ(cluster_->plane(rank).roster().serverName(1), fourth.text());
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, AServerThatIsRemovedWhileItJoinsKeepsItsPlaceUntilItHasLeft) {
  timeout_ = 6;
  start({0}, true);
  run(1);
  expectEvent(Event::kJoining, 1);
  write(list({0, 2}));
  run(2);
  std::this_thread::sleep_for(1200ms);
  completeJoin(1);
  while (true) {  // the third place is free, so server 2 may join before server 1 leaves
    const ServerEvent event = (*cluster_)[1].failures.waitForChange();
    change_ = event.change;
    for (const size_t rank : {0U, 2U}) EXPECT_EQ((*cluster_)[rank].failures.waitForChange().kind, event.kind);
    if (event.kind == Event::kLeaving) {
      EXPECT_EQ(event.server, 1U);
      completeChange(1);
      break;
    }
    ASSERT_EQ(event.kind, Event::kJoining);
    EXPECT_EQ(event.server, 2U);
    completeJoin(2);
  }
  EXPECT_TRUE(runner(1).waitFinishing());
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, AFailedJoinIsTriedAgainAfterOneSecondAndThenAfterTwo) {
  start({1});
  run(0);
  auto failed = Deadline::Clock::now();
  for (int attempt = 0; attempt < 3; ++attempt) {
    expectEvent(Event::kJoining, 0);
    EXPECT_GE(Deadline::Clock::now() - failed, attempt * 1000ms);
    reply(0, Reply::kHandles);
    failed = Deadline::Clock::now();
    reply(2, Reply::kFailed, 0, "no route to the server");
    EXPECT_EQ(expectEvent(Event::kAborted, 0).text, "no route to the server");
    EXPECT_TRUE(runner(0).waitEmpty()) << "the server ends its part";
  }
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, AServerThatDiesWhileItJoinsOnlyEndsTheChange) {
  start({1});
  run(0, &FakeRunner::neverConnect);
  expectEvent(Event::kJoining, 0);
  replyAll(Reply::kHandles);
  expectEvent(Event::kHandles, 0);
  replyAll(Reply::kConnected);
  expectNoEvent(.2);
  servers_[0].reset();
  expectEvent(Event::kAborted, 0);
  run(0);
  expectEvent(Event::kJoining, 0);
  servers_[0].reset();
  expectEvent(Event::kAborted, 0);
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, AServerThatNeverOpensTheJobDisturbsNobody) {
  start({1});
  run(0, &FakeRunner::neverListen);
  expectNoEvent(2.5);
  EXPECT_TRUE(runner(0).opened() > 0);
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, ARankThatDoesNotReplyInTimeIsNamedAndTheChangeEnds) {
  start({1});
  run(0);
  expectEvent(Event::kJoining, 0);
  replyAll(Reply::kHandles);
  expectEvent(Event::kHandles, 0);
  connectAll(0);
  reply(0, Reply::kReady, 1);
  reply(2, Reply::kReady, 1);
  const ServerEvent aborted = expectEvent(Event::kAborted, 0);
  EXPECT_EQ(aborted.text, "no reply in time from " + cluster_->plane(0).roster().rankName(1));
  reply(1, Reply::kReady, 1);  // the reply crosses with kAborted
  expectJoins(0);
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, AServerIsLostWhileItLeaves) {
  start({0, 1});
  servers_[0]->drain();
  expectEvent(Event::kLeaving, 0);
  reply(0, Reply::kReady, 1);
  servers_[0].reset();
  EXPECT_EQ(expectEvent(Event::kAborted, 0).text, "it is lost");
  expectLost(0);
  servers_[1]->drain();
  expectLeaves(1);
  cluster_->leave();
}

TEST_F(ServerChangesTest, AServerIsLostAfterItsChangeHasTakenEffect) {
  start({0});
  run(1);
  expectEvent(Event::kJoining, 1);
  replyAll(Reply::kHandles);
  expectEvent(Event::kHandles, 1);
  connectAll(1);
  replyAll(Reply::kReady);
  expectEvent(Event::kAt, 1);
  reply(0, Reply::kDone);
  servers_[1].reset();
  expectLost(1);
  reply(1, Reply::kDone);
  reply(2, Reply::kDone);
  expectEvent(Event::kEnd, 1);
  servers_[0]->drain();
  expectLeaves(0);
  cluster_->leave();
}

}  // namespace
}  // namespace bps::test
