// Tests what ends a change of the servers of a running communicator, and who is blamed.
#include "tests/unit/control/servers/server_changes_fixture.h"

namespace bps::test {
namespace {

TEST_F(ServerChangesTest, ARankThatLeavesEndsAChangeAndNoneBeginsAfterwards) {
  start({1});
  run(0);
  expectEvent(Event::kJoining, 0);
  replyAll(Reply::kHandles);
  expectEvent(Event::kHandles, 0);
  reply(0, Reply::kConnected);
  cluster_->plane(2).leave(soon());
  for (size_t rank = 0; rank < 2; ++rank) {
    const ServerEvent event = (*cluster_)[rank].failures.waitForChange();
    EXPECT_EQ(event.kind, Event::kAborted);
    EXPECT_EQ(event.text, cluster_->plane(0).roster().rankName(2) + " has left");
  }
  EXPECT_TRUE(runner(0).waitEmpty());
  servers_[1]->drain();
  EXPECT_EQ((*cluster_)[0].failures.waitForChange(2).kind, Event::kLost) << "no event";
}

TEST_F(ServerChangesTest, ARankThatLeavesIsNotAwaitedAfterTheChangeHasTakenEffect) {
  start({0});
  servers_[0]->drain();
  expectEvent(Event::kLeaving, 0);
  replyAll(Reply::kReady);
  expectEvent(Event::kAt, 0);
  reply(0, Reply::kDone);
  reply(1, Reply::kDone);
  cluster_->plane(2).leave(soon());
  for (size_t rank = 0; rank < 2; ++rank) EXPECT_EQ((*cluster_)[rank].failures.waitForChange().kind, Event::kEnd);
  EXPECT_TRUE(runner(0).waitFinishing());
}

// A rank that is ready begins no call until it learns how the change ends.
TEST_F(ServerChangesTest, TheHubEndsAChangeBeforeItLeaves) {
  start({0});
  servers_[0]->drain();
  expectEvent(Event::kLeaving, 0);
  replyAll(Reply::kReady);
  expectEvent(Event::kAt, 0);
  replyAll(Reply::kDone);
  expectEvent(Event::kEnd, 0);
  run(1);
  expectEvent(Event::kJoining, 1);
  replyAll(Reply::kHandles);
  expectEvent(Event::kHandles, 1);
  connectAll(1);
  reply(1, Reply::kReady, 1);
  std::jthread hub([&] { cluster_->plane(0).leave(soon()); });
  const ServerEvent event = (*cluster_)[1].failures.waitForChange();
  EXPECT_EQ(event.kind, Event::kAborted);
  EXPECT_NE(event.text.find("rank 0"), std::string::npos) << event.text;
  for (size_t rank = 1; rank < kRanks; ++rank) cluster_->plane(rank).leave(soon());
  hub.join();
}

TEST_F(ServerChangesTest, AServerThatSaysGoodbyeWhileItLeavesDoesNotEndTheHub) {
  start({0, 1});
  servers_[0]->drain();
  expectEvent(Event::kLeaving, 0);
  replyAll(Reply::kReady);
  expectEvent(Event::kAt, 0);
  runner(0).jobs()[0].events->ended(cluster_->plane(0).roster().jobId);
  EXPECT_TRUE(runner(0).waitEmpty());
  expectLost(0);
  replyAll(Reply::kDone);
  expectEvent(Event::kEnd, 0);
  servers_[1]->drain();
  expectLeaves(1);
  cluster_->leave();
}

// A server ends its part if its data connections break. The ranks that still use it must learn this.
TEST_F(ServerChangesTest, AServerThatSaysGoodbyeIsLostAndMayComeBack) {
  start({0, 1});
  runner(0).jobs()[0].events->ended(cluster_->plane(0).roster().jobId);
  expectLost(0);
  expectJoins(0);
  cluster_->leave();
}

TEST_F(ServerChangesTest, RepliesToAnEarlierChangeAreIgnored) {
  start({1});
  for (size_t rank = 0; rank < kRanks; ++rank) reply(rank, Reply::kDone);  // change 0
  run(0);
  expectEvent(Event::kJoining, 0);
  reply(0, Reply::kFailed, 0, "no memory");
  reply(1, Reply::kFailed, 0, "no memory");
  expectEvent(Event::kAborted, 0);
  for (const Reply kind : {Reply::kHandles, Reply::kConnected, Reply::kReady, Reply::kDone, Reply::kFailed})
    reply(2, kind);
  expectJoins(0);
  for (const Reply kind : {Reply::kHandles, Reply::kConnected, Reply::kReady, Reply::kDone, Reply::kFailed})
    reply(2, kind);
  cluster_->each([](uint32_t, ControlPlane& plane) { EXPECT_TRUE(plane.barrier(soon()).ok()); });
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, AReplyToAChangeThatDoesNotExistIsBlamed) {
  start({1});
  change_ = 1;
  reply(2, Reply::kHandles);
  expectBlamed();
}

TEST_F(ServerChangesTest, ASecondReplyIsBlamed) {
  start({1});
  run(0);
  expectEvent(Event::kJoining, 0);
  reply(2, Reply::kHandles);
  reply(2, Reply::kHandles);
  expectBlamed();
}

TEST_F(ServerChangesTest, AReplyToAnotherStepIsBlamed) {
  start({1});
  run(0);
  expectEvent(Event::kJoining, 0);
  reply(2, Reply::kReady);
  expectBlamed();
}

// The ranks that are connected go on with their calls until the last one is.
TEST_F(ServerChangesTest, NoRankStopsBeforeAllAreConnected) {
  start({1});
  run(0);
  expectEvent(Event::kJoining, 0);
  replyAll(Reply::kHandles);
  expectEvent(Event::kHandles, 0);
  reply(0, Reply::kConnected);
  reply(1, Reply::kConnected);
  expectNoEvent(.3);
  reply(2, Reply::kConnected);
  expectEvent(Event::kConnected, 0);
  completeChange(0);
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, HandlesThatAreTooLongAreBlamed) {
  start({1});
  run(0);
  expectEvent(Event::kJoining, 0);
  cluster_->plane(2).reply({Reply::kHandles, change_, 0, Blob(kMaxItemBytes + 1), {}});
  expectBlamed();
}

// Otherwise a rank could make the hub begin the same change again and again.
TEST_F(ServerChangesTest, ARankThatCannotLetAServerLeaveIsBlamed) {
  start({0});
  servers_[0]->drain();
  expectEvent(Event::kLeaving, 0);
  reply(2, Reply::kFailed, 0, "no");
  expectBlamed();
}

TEST_F(ServerChangesTest, AFailureAfterTheChangeHasTakenEffectIsBlamed) {
  start({1});
  run(0);
  expectEvent(Event::kJoining, 0);
  replyAll(Reply::kHandles);
  expectEvent(Event::kHandles, 0);
  connectAll(0);
  replyAll(Reply::kReady);
  expectEvent(Event::kAt, 0);
  reply(2, Reply::kFailed, 0, "no");
  expectBlamed();
}

TEST_F(ServerChangesTest, AServerWithWrongHandlesDoesNotJoin) {
  for (const size_t count : {0, 4, 6}) {
    start({1});
    run(0, &FakeRunner::neverListen);
    const Deadline deadline = soon();
    while (runner(0).opened() == 0 && !deadline.passed()) std::this_thread::sleep_for(1ms);
    std::vector<Blob> handles(count, Blob{1});
    runner(0).jobs()[0].events->listening(cluster_->plane(0).roster().jobId, std::move(handles));
    expectEvent(Event::kJoining, 0);
    const ServerEvent aborted = expectEvent(Event::kAborted, 0);
    EXPECT_NE(aborted.text.find("server " + addresses_[0].text()), std::string::npos) << aborted.text;
    expectFine();
    cluster_->leave();
    cluster_.reset();
    for (auto& server : servers_) server.reset();
  }
}

// An absent server must not keep the hub busy before the lanes are connected.
TEST_F(ServerChangesTest, TheHubSleepsUntilTheServersAreConfirmed) {
  Env env = localEnv(timeout_);
  env.servers = list({0});
  Cluster cluster(2, env);
  cluster.expectJoined();
  std::this_thread::sleep_for(700ms);
  const std::clock_t before = std::clock();
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(std::clock() - before, CLOCKS_PER_SEC / 20) << "processor time while nothing happens";
  cluster.leave();
}

TEST_F(ServerChangesTest, AServerThatEndsSoonAfterItHasJoinedIsDialedLessOften) {
  start({1});
  for (int attempt = 0; attempt < 3; ++attempt) {
    const auto begin = Deadline::Clock::now();
    run(0);
    expectJoins(0, 8);
    if (attempt == 2) {
      EXPECT_GT(Deadline::Clock::now() - begin, 1900ms);
    }
    servers_[0].reset();
    for (size_t rank = 0; rank < kRanks; ++rank)
      ASSERT_EQ((*cluster_)[rank].failures.waitForLosses(static_cast<size_t>(attempt) + 1).size(),
                static_cast<size_t>(attempt) + 1);
    cluster_->each([](uint32_t, ControlPlane& plane) { EXPECT_TRUE(plane.gatherForRecovery({1}, soon()).ok()); });
  }
  cluster_->leave();
}

}  // namespace
}  // namespace bps::test
