// Tests how servers join and leave a running communicator. The hub and the control sessions of the servers are real;
// the test replies for the ranks.
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "src/control/control_node.h"
#include "tests/unit/control/fake_server.h"

namespace bps::test {
namespace {

using Event = ServerEvent::Kind;
using Reply = ServerReply::Kind;

// Three ranks, each on its own machine, and two places for servers. A place is taken at the start if its server runs.
class ServerChangesTest : public testing::Test {
 protected:
  static constexpr size_t kRanks = 3;

  // Starts the communicator. BPS_SERVERS is a list, or a file if `inFile`.
  void start(const std::vector<size_t>& running, bool inFile = false) {
    for (const size_t server : running) run(server);
    Env env = localEnv(timeout_);
    env.servers = list({0, 1});
    if (inFile) {
      path_ = testing::TempDir() + "server_changes_" + std::to_string(::getpid());
      write(env.servers);
      env.servers = "@" + path_;
    }
    cluster_.emplace(kRanks, env);
    cluster_->expectJoined();
    exchangeHandles(*cluster_);
  }
  ~ServerChangesTest() override {
    if (!path_.empty()) ::unlink(path_.c_str());
  }
  std::string list(const std::vector<size_t>& servers) const {
    std::string text;
    for (const size_t server : servers) text += (text.empty() ? "" : ",") + addresses_[server].text();
    return text;
  }
  // Replaces the file of BPS_SERVERS.
  void write(const std::string& text) const {
    std::ofstream(path_ + ".new") << text;
    ASSERT_EQ(std::rename((path_ + ".new").c_str(), path_.c_str()), 0);
  }
  void run(size_t server) { servers_[server] = std::make_unique<TestServer>(localEnv(timeout_), addresses_[server]); }
  FakeRunner& runner(size_t server) { return servers_[server]->runner; }

  // Waits for the same event on all ranks, and returns rank 1's.
  ServerEvent expectEvent(Event kind, uint32_t server, double seconds = 5) {
    ServerEvent event;
    for (size_t rank = 0; rank < kRanks; ++rank) {
      const ServerEvent got = (*cluster_)[rank].failures.waitForChange(seconds);
      EXPECT_EQ(static_cast<int>(got.kind), static_cast<int>(kind)) << "rank " << rank << ": " << got.text;
      EXPECT_EQ(got.server, server);
      if (rank > 0) {
        EXPECT_EQ(got.change, change_);
      }
      change_ = got.change;
      if (rank == 1) event = got;
    }
    return event;
  }
  void expectNoEvent(double seconds) {
    for (size_t rank = 0; rank < kRanks; ++rank)
      EXPECT_EQ((*cluster_)[rank].failures.waitForChange(rank == 0 ? seconds : 0).kind, Event::kLost);
  }
  void reply(size_t rank, Reply kind, uint64_t limit = 0, std::string text = {}) {
    Blob handles;
    if (kind == Reply::kHandles) handles = FakeRunner::handle(rank, 9);
    cluster_->plane(rank).reply({kind, change_, limit, std::move(handles), std::move(text)});
  }
  void replyAll(Reply kind) {
    for (size_t rank = 0; rank < kRanks; ++rank) reply(rank, kind, 10 + rank);
  }
  // The further steps of a join, after kJoining.
  void completeJoin(uint32_t server) {
    replyAll(Reply::kHandles);
    expectEvent(Event::kHandles, server);
    completeChange(server);
  }
  // The steps from kReady on.
  void completeChange(uint32_t server) {
    replyAll(Reply::kReady);
    EXPECT_EQ(expectEvent(Event::kAt, server).call, 12U) << "the first call that no rank has begun";
    replyAll(Reply::kDone);
    expectEvent(Event::kEnd, server);
  }
  void expectJoins(uint32_t server, double seconds = 5) {
    EXPECT_EQ(expectEvent(Event::kJoining, server, seconds).text, addresses_[server].text());
    completeJoin(server);
  }
  void expectLeaves(uint32_t server) {
    expectEvent(Event::kLeaving, server);
    completeChange(server);
    EXPECT_TRUE(runner(server).waitFinishing()) << "the server has received the hub's goodbye";
  }
  // Expects that the communicator has neither failed nor lost a server.
  void expectFine() {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      EXPECT_EQ((*cluster_)[rank].failures.count(), 0);
      EXPECT_TRUE((*cluster_)[rank].failures.waitForLosses(0).empty());
    }
  }
  void expectLost(uint32_t server) {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      const std::vector<ServerEvent> losses = (*cluster_)[rank].failures.waitForLosses(1);
      ASSERT_EQ(losses.size(), 1U);
      EXPECT_EQ(losses[0].server, server);
    }
    cluster_->each([](uint32_t, ControlPlane& plane) { EXPECT_TRUE(plane.gatherForRecovery({1}, soon()).ok()); });
  }
  // Expects that rank 2 is blamed for a reply.
  void expectBlamed() {
    for (size_t rank = 0; rank < kRanks; ++rank) {
      const std::string why = (*cluster_)[rank].failures.wait();
      EXPECT_NE(why.find(cluster_->plane(0).roster().rankName(2) + " broke the protocol"), std::string::npos) << why;
    }
  }

  double timeout_ = 2;  // BPS_TIMEOUT; the steps of a change may take half of it
  const Address addresses_[3] = {freeAddress(), freeAddress(), freeAddress()};
  std::unique_ptr<TestServer> servers_[3];
  std::optional<Cluster> cluster_;
  std::string path_;
  uint32_t change_ = 0;  // of the latest event
};

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
  run(0);
  expectEvent(Event::kJoining, 0);
  replyAll(Reply::kHandles);
  runner(0).neverConnect();
  expectEvent(Event::kHandles, 0);
  replyAll(Reply::kReady);
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
  run(0);
  runner(0).neverListen();
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

TEST_F(ServerChangesTest, ARankThatLeavesEndsAChangeAndNoneBeginsAfterwards) {
  start({1});
  run(0);
  expectEvent(Event::kJoining, 0);
  replyAll(Reply::kHandles);
  expectEvent(Event::kHandles, 0);
  reply(0, Reply::kReady, 1);
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
  reply(1, Reply::kReady, 1);
  std::thread hub([&] { cluster_->plane(0).leave(soon()); });
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
  const Deadline deadline = soon();
  while (!cluster_->plane(1).hasLeft(kRanks) && !deadline.passed()) std::this_thread::sleep_for(1ms);
  replyAll(Reply::kDone);
  expectEvent(Event::kEnd, 0);
  servers_[1]->drain();
  expectLeaves(1);
  expectFine();
  cluster_->leave();
}

TEST_F(ServerChangesTest, AServerThatSaysGoodbyeDoesNotLeaveLater) {
  start({0, 1}, true);
  runner(0).jobs()[0].events->ended(cluster_->plane(0).roster().jobId);
  EXPECT_TRUE(runner(0).waitEmpty());
  write(list({1}));
  expectNoEvent(1.5);
  expectFine();
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
  for (const Reply kind : {Reply::kHandles, Reply::kReady, Reply::kDone, Reply::kFailed}) reply(2, kind);
  expectJoins(0);
  for (const Reply kind : {Reply::kHandles, Reply::kReady, Reply::kDone, Reply::kFailed}) reply(2, kind);
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
  replyAll(Reply::kReady);
  expectEvent(Event::kAt, 0);
  reply(2, Reply::kFailed, 0, "no");
  expectBlamed();
}

TEST_F(ServerChangesTest, AServerWithWrongHandlesDoesNotJoin) {
  for (const size_t count : {0, 4, 6}) {
    start({1});
    run(0);
    runner(0).neverListen();
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
