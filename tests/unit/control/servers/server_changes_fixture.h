// ServerChangesTest: a communicator whose hub and control sessions of the servers are real. The test replies for the
// ranks.
#pragma once
#include <unistd.h>

#include <cstdio>
#include <fstream>

#include "src/control/control_node.h"
#include "tests/support/temp_path.h"
#include "tests/unit/control/fake_server.h"

namespace bps::test {

// Three ranks, each on its own machine, and two places for servers. A place is taken at the start if its server runs.
class ServerChangesTest : public testing::Test {
 protected:
  using Event = ServerEvent::Kind;
  using Reply = ServerReply::Kind;
  static constexpr size_t kRanks = 3;

  // Starts the communicator. BPS_SERVERS is a list, or a file if `inFile`.
  void start(const std::vector<size_t>& running, bool inFile = false) {
    for (const size_t server : running) run(server);
    Env env = localEnv(timeout_);
    env.servers = list({0, 1});
    if (inFile) {
      path_ = tempPath("server_changes");
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
  void run(size_t server, void (FakeRunner::*setting)() = nullptr) {
    servers_[server] = std::make_unique<TestServer>(localEnv(timeout_), addresses_[server], setting);
  }
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
    connectAll(server);
    completeChange(server);
  }
  void connectAll(uint32_t server) {
    replyAll(Reply::kConnected);
    expectEvent(Event::kConnected, server);
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

}  // namespace bps::test
