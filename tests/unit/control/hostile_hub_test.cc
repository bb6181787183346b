// Tests that hubs that hold the server's key and misbehave do not disturb the server's other jobs.
#include <atomic>

#include "src/base/io/host_lookup.h"
#include "tests/unit/control/fake_server.h"
#include "tests/unit/control/raw_peer.h"

namespace bps::test {
namespace {

class ServerAndHostileHub : public testing::Test {
 protected:
  Peer hubOf(uint64_t job) {
    ConnectingHandshake handshake(std::make_unique<ControlSocket>(connectTo(where_)), {key_, true, 10000},
                                  Purpose::kServer, job);
    const Status status = finish(handshake);
    EXPECT_TRUE(status.ok()) << status.message();
    return handshake.take();
  }
  static Roster rosterOf(uint64_t job) {
    Roster roster;
    roster.jobId = job;
    roster.ranks.push_back({"a", "a", 1, 0, 0});
    roster.ranks.push_back({"b", "b", 2, 1, 0});
    roster.machines = {{{0}, 0}, {{1}, 0}};
    roster.servers.push_back({"server", 0});
    roster.settings = {1 << 20, 0, 0, 10000, 1};
    return roster;
  }
  static void send(Peer& peer, MessageType type, const Blob& payload = {}) {
    peer.socket->queue(type, payload);
    [[maybe_unused]] const bool flushed = peer.socket->flush().ok();
  }
  static void expect(Peer& peer, MessageType type) { EXPECT_EQ(nextFrame(*peer.socket).header.type, type); }
  // Waits until the server closes the connection. Returns false if it does not close in time.
  static bool ended(Peer& peer) {
    const Deadline deadline = soon();
    while (!deadline.passed()) {
      if (!peer.socket->read().ok()) return true;
      pollFor(*peer.socket, POLLIN);
    }
    return false;
  }
  void open(Peer& peer, uint64_t job) {
    expect(peer, MessageType::kOffer);
    send(peer, MessageType::kOpenJob, encode(OpenJob{1, 2, encode(rosterOf(job))}));
    expect(peer, MessageType::kJobOpened);
  }
  void expectServed(double timeout = 3) {
    Cluster cluster(2, withServers({&server_}, timeout));
    cluster.expectJoined();
    EXPECT_EQ(cluster.plane(0).roster().presentServers(), 1U);
    cluster.leave();
  }

  TestServer server_;
  const Key key_ = std::move(serverKey(localEnv())).value();
  const Address where_ =
      std::move(resolve(std::move(parseHostPort(server_.name(), 1)).value(), soon())).value().front();
};

TEST_F(ServerAndHostileHub, DuplicateExchangeResultEndsOnlyItsSession) {
  Peer peer = hubOf(99);
  open(peer, 99);
  send(peer, MessageType::kBegin);
  expect(peer, MessageType::kControlOpInput);
  const Blob answer = encode(ControlOpResult{ControlOp::kExchange, 0, std::vector<Blob>(3)});
  send(peer, MessageType::kControlOpResult, answer);
  expect(peer, MessageType::kControlOpInput);
  send(peer, MessageType::kControlOpResult, answer);
  EXPECT_TRUE(ended(peer));
  EXPECT_EQ(server_.runner.connects(), 1);
  EXPECT_TRUE(server_.runner.waitEmpty(1));
  expectServed();
}

TEST_F(ServerAndHostileHub, ResultOfWrongSizeIsNotForwarded) {
  Peer peer = hubOf(99);
  open(peer, 99);
  send(peer, MessageType::kBegin);
  expect(peer, MessageType::kControlOpInput);
  send(peer, MessageType::kControlOpResult, encode(ControlOpResult{ControlOp::kExchange, 0, std::vector<Blob>(2)}));
  EXPECT_TRUE(ended(peer));
  EXPECT_EQ(server_.runner.connects(), 0);
}

TEST_F(ServerAndHostileHub, SlowlyClosingJobDelaysNoOtherJob) {
  server_.runner.deferClose();
  Peer peer = hubOf(99);
  open(peer, 99);
  send(peer, MessageType::kGoodbye);
  EXPECT_TRUE(server_.runner.waitEmpty(1));
  const auto start = Deadline::Clock::now();
  expectServed();
  EXPECT_LT(Deadline::Clock::now() - start, 2s);
  Peer again = hubOf(99);
  EXPECT_EQ(nextFrame(*again.socket).header.type, MessageType::kRefusal) << "the job's id is still in use";
  server_.runner.reportClosed();
  Peer later = hubOf(99);
  open(later, 99);
}

TEST_F(ServerAndHostileHub, LaterProposalOpensWhenTheEarlierOneIsClosed) {
  server_.runner.deferClose();
  Peer peer = hubOf(99);
  open(peer, 99);
  send(peer, MessageType::kOpenJob, encode(OpenJob{2, 2, encode(rosterOf(99))}));
  send(peer, MessageType::kOpenJob, encode(OpenJob{3, 2, encode(rosterOf(99))}));
  EXPECT_TRUE(server_.runner.waitEmpty(1));
  EXPECT_EQ(server_.runner.opened(), 1);
  std::this_thread::sleep_for(200ms);  // both proposals reach the session before the first job is closed
  server_.runner.reportClosed();
  const Frame frame = nextFrame(*peer.socket);
  ASSERT_EQ(frame.header.type, MessageType::kJobOpened);
  EXPECT_EQ(std::move(decode<JobOpened>(frame.payload)).value().proposal, 3U);
  EXPECT_EQ(server_.runner.opened(), 2);
}

TEST_F(ServerAndHostileHub, HeartbeatFloodDelaysNoOtherSession) {
  Cluster cluster(2, withServers({&server_}, 1));
  cluster.expectJoined();
  exchangeHandles(cluster);
  Peer peer = hubOf(99);
  std::atomic<bool> stop{false};
  std::jthread flood([&] {
    while (!stop) {
      for (int i = 0; i < 1000; ++i) peer.socket->queue(MessageType::kHeartbeat);
      while (!stop && peer.socket->wantsWrite() && peer.socket->flush().ok()) pollFor(*peer.socket, POLLOUT);
    }
  });
  std::this_thread::sleep_for(2500ms);
  EXPECT_EQ(cluster[0].failures.count(), 0) << cluster[0].failures.wait(0);
  stop = true;
  flood.join();
  cluster.leave();
}

TEST_F(ServerAndHostileHub, IdleSessionsAreEvictedForNewOnes) {
  std::vector<Peer> idle;
  for (uint64_t job = 1; job <= server::ControlServer::kMaxJobs + 4; ++job) idle.push_back(hubOf(job));
  expectServed();
  EXPECT_TRUE(ended(idle.front()));
}

TEST_F(ServerAndHostileHub, UnauthenticatedConnectionsDoNotDelayShutdown) {
  std::atomic<bool> stop{false};
  std::jthread unauthenticated([&] {
    std::vector<UniqueFd> open;
    while (!stop) {
      Result<UniqueFd> fd = startConnect(where_);
      if (!fd.ok()) break;
      open.push_back(std::move(fd).value());
      pollfd waiting{open.back().get(), POLLOUT, 0};
      ::poll(&waiting, 1, 50);
      [[maybe_unused]] const auto sent = ::send(open.back().get(), "hello, this is no Hello", 23, MSG_NOSIGNAL);
      std::this_thread::sleep_for(20ms);
    }
  });
  std::this_thread::sleep_for(200ms);
  const auto start = Deadline::Clock::now();
  server_.drain();
  server_.wait();
  EXPECT_LT(Deadline::Clock::now() - start, 900ms);
  stop = true;
  unauthenticated.join();
}

}  // namespace
}  // namespace bps::test
