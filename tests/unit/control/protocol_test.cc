// Tests how the control plane treats a peer that sends an unexpected frame. The error must name the peer. The peer must
// lose its connection, or its communicator must fail. Other jobs and peers must not be affected.
#include "src/control/control_node.h"
#include "src/control/rendezvous/rendezvous_state.h"
#include "tests/unit/control/fake_hub.h"
#include "tests/unit/control/fake_server.h"

namespace bps::test {
namespace {

constexpr const char* kHub = "rank 0 (hostA, pid 1), the hub, broke the protocol: ";

Status gather(ControlPlane& plane) { return plane.gather({1, 2, 3}, soon(2)).status(); }
Status exchange(ControlPlane& plane) { return plane.exchange({{1}, {2, 3}}, soon(2)).status(); }

// Returns the error of a rank whose hub answers a control operation with `answer`.
std::string errorFor(Status (*operation)(ControlPlane&), ControlOpResult answer) {
  FakeHub hub;
  hub.body = operation;
  hub.sendRoster();
  hub.input();
  hub.send(answer);
  return hub.outcome();
}

TEST(HostileHub, ResultsOfWrongSizeOrContentAreRefused) {
  const Blob mine{1, 2, 3};
  EXPECT_EQ(errorFor(gather, {ControlOp::kGather, 0, {}}), std::string(kHub) + "gather: received 0 items instead of 2");
  EXPECT_EQ(errorFor(gather, {ControlOp::kGather, 0, {mine, mine, mine}}),
            std::string(kHub) + "gather: received 3 items instead of 2");
  EXPECT_EQ(errorFor(gather, {ControlOp::kGather, 0, {mine, {}}}),
            std::string(kHub) + "gather: this rank's own item has changed");
  EXPECT_EQ(errorFor(gather, {ControlOp::kGather, 0, {Blob(kMaxItemBytes + 1), mine}}),
            std::string(kHub) + "gather: received an item of 16385 bytes, the limit is 16384");
  EXPECT_EQ(errorFor(exchange, {ControlOp::kExchange, 0, {mine}}),
            std::string(kHub) + "exchange of handles: received 1 items instead of 2");
  EXPECT_EQ(errorFor(exchange, {ControlOp::kExchange, 0, {{}, {1}}}),
            std::string(kHub) + "exchange of handles: this rank's own item has changed");
  EXPECT_EQ(errorFor(gather, {ControlOp::kGather, 1, {mine, mine}}), std::string(kHub) + "gather 1: unexpected result");
  EXPECT_EQ(errorFor(gather, {ControlOp::kBarrier, 0, {}}), std::string(kHub) + "barrier 0: unexpected result");
}

TEST(HostileHub, DuplicateResultIsRefused) {
  FakeHub hub;
  hub.body = [](ControlPlane& plane) {
    const Status once = gather(plane);
    return once.ok() ? gather(plane) : Status(Code::kInternal, "the first answer was right");
  };
  hub.sendRoster();
  hub.input();
  const ControlOpResult answer{ControlOp::kGather, 0, {{}, {1, 2, 3}}};
  hub.send(answer);
  hub.send(answer);
  EXPECT_EQ(hub.outcome(), std::string(kHub) + "gather 0: unexpected result");
}

// In every state, the test sends frames that the table in hub_client.h does not allow in that state.
TEST(HostileHub, UnexpectedFramesAreRefused) {
  using enum MessageType;
  for (const MessageType type : {kOffer, kJoin, kControlOpResult, kLeft, kGoodbye, kSuspect, kBegin}) {
    FakeHub hub;
    hub.send(type);
    const std::string text = hub.outcome();
    EXPECT_TRUE(contains(text, "rank 0 at 127.0.0.1:")) << text;
    EXPECT_TRUE(contains(text, "broke the protocol: unexpected message \"" + messageName(type) + "\"")) << text;
  }
  for (const MessageType type : {kRoster, kRefusal, kOffer, kOpenJob, kSuspect, static_cast<MessageType>(999)}) {
    FakeHub hub;
    hub.sendRoster();
    hub.send(type);
    EXPECT_EQ(hub.outcome(), std::string(kHub) + "unexpected message \"" + messageName(type) + "\"");
  }
}

TEST(HostileHub, InvalidLeftMessagesAreRefused) {
  for (const uint32_t member : {0U, 2U, ~0U}) {
    FakeHub hub;
    hub.sendRoster();
    hub.send(Left{member});
    EXPECT_TRUE(contains(hub.outcome(), "unexpected goodbye of member " + std::to_string(member) + " of 2"));
  }
}

TEST(HostileHub, IsNamedForMalformedMessages) {
  for (const MessageType type : {MessageType::kControlOpResult, MessageType::kLeft, MessageType::kFailure}) {
    FakeHub hub;
    hub.sendRoster();
    hub.send(type, {1});
    const std::string text = hub.outcome();
    EXPECT_EQ(text.rfind(kHub, 0), 0U) << text;
  }
}

// A cluster of `count` ranks. The test acts as the last rank.
struct WithHostileRank {
  explicit WithHostileRank(uint32_t count, double timeout = 3) : env(localEnv(timeout)), id(newId(env)) {
    id.kind = UniqueId::Kind::kHub;
    id.address = freeAddress();
    others = std::jthread([this, count] {
      cluster = std::make_unique<Cluster>(id, count, env, Cluster::oneMachinePerRank, std::set<uint32_t>{count - 1});
    });
    peer = joinManually(id.address, id, count - 1, count, static_cast<uint32_t>(timeout * 1000));
  }
  void send(MessageType type, const Blob& payload = {}) {
    peer.socket->queue(type, payload);
    [[maybe_unused]] const bool flushed = peer.socket->flush().ok();
  }
  Env env;
  UniqueId id;
  std::unique_ptr<Cluster> cluster;
  std::jthread others;
  Peer peer;
};

constexpr const char* kHostileRank = "rank 2 (host7, pid 1234) broke the protocol: ";

TEST(HostileRank, UnexpectedFramesEndTheCommunicatorNamingIt) {
  using enum MessageType;
  for (const MessageType type :
       {kJoin, kRoster, kControlOpResult, kOffer, kBegin, kLeft, kRefusal, kRendezvousRequest}) {
    WithHostileRank job(3);
    job.others.join();
    job.cluster->expectOthersJoined(2);
    job.send(type);
    for (size_t rank : {0, 1})
      EXPECT_EQ((*job.cluster)[rank].failures.wait(2),
                kHostileRank + ("unexpected message \"" + messageName(type)) + "\"");
  }
}

TEST(HostileRank, UnexpectedInputsEndTheCommunicatorNamingIt) {
  const std::pair<ControlOpInput, std::string> inputs[] = {
      {{ControlOp::kGather, 5, 0, {{}}}, "gather 0: sent an input for number 5"},
      {{ControlOp::kGather, 0, 0, {{}, {}}}, "gather 0: sent 2 items instead of 1"},
      {{ControlOp::kGather, 0, 0, {Blob(kMaxItemBytes + 1)}},
       "gather 0: sent an item of 16385 bytes, the limit is 16384"},
      {{ControlOp::kBarrier, 0, 0, {{}}}, "barrier 0: sent 1 items instead of 0"},
  };
  for (const auto& [input, why] : inputs) {
    WithHostileRank job(3);
    job.others.join();
    job.send(MessageType::kControlOpInput, encode(input));
    for (size_t rank : {0, 1}) EXPECT_EQ((*job.cluster)[rank].failures.wait(2), kHostileRank + why);
  }
  WithHostileRank job(3);
  job.others.join();
  for (int turn = 0; turn < 2; ++turn)
    job.send(MessageType::kControlOpInput, encode(ControlOpInput{ControlOp::kGather, 0, 0, {{}}}));
  EXPECT_EQ((*job.cluster)[1].failures.wait(2), std::string(kHostileRank) + "gather 0: sent its input twice");
}

TEST(HostileRank, ShortTimeoutNamesTheRankThatSetIt) {
  WithHostileRank job(3);
  job.others.join();
  job.send(MessageType::kControlOpInput, encode(ControlOpInput{ControlOp::kGather, 0, 1, {{}}}));
  const std::string text = (*job.cluster)[1].failures.wait(2);
  EXPECT_TRUE(contains(text, "the timeout of rank 2 (host7, pid 1234)")) << text;
}

TEST(HostileRank, PeerThatDoesNotJoinLosesOnlyItsConnection) {
  const Env env = localEnv(3);
  UniqueId id = newId(env);
  id.kind = UniqueId::Kind::kHub;
  id.address = freeAddress();
  std::unique_ptr<Cluster> cluster;
  std::jthread others(
      [&] { cluster = std::make_unique<Cluster>(id, 2, env, Cluster::oneMachinePerRank, std::set<uint32_t>{1}); });
  for (const MessageType type : {MessageType::kFailure, MessageType::kGoodbye, MessageType::kControlOpInput}) {
    ConnectingHandshake handshake(std::make_unique<ControlSocket>(connectTo(id.address)), {id.key, true, 1000},
                                  Purpose::kJoin, 0);
    ASSERT_TRUE(finish(handshake).ok());
    Peer peer = handshake.take();
    peer.socket->queue(type, encode(FailureMessage{Code::kRemote, "all is lost"}));
    nextFrame(*peer.socket, 1);
    EXPECT_TRUE(peer.socket->broken()) << "the hub closes the connection";
  }
  FailureRecorder failures;
  auto last = joinPlane(env, {id, 1, 2, "y"}, soon(2), failures.sink());
  EXPECT_TRUE(last.ok()) << last.error().message();
  others.join();
  EXPECT_TRUE((*cluster)[0].joined.ok()) << (*cluster)[0].joined.message();
}

// The test acts as a server and sends an invalid frame. The communicator must exclude the server and start without it.
TEST(HostileServer, UnexpectedFramesExcludeIt) {
  const Blob offer = encode(Offer{}), opened = encode(JobOpened{1});
  const std::vector<std::pair<MessageType, Blob>> openedTwice{
      {MessageType::kOffer, offer}, {MessageType::kJobOpened, opened}, {MessageType::kJobOpened, opened}};
  const std::vector<std::vector<std::pair<MessageType, Blob>>> scripts{
      {{MessageType::kJobOpened, opened}},
      {{MessageType::kOffer, offer}, {MessageType::kOffer, offer}},
      {{MessageType::kControlOpInput, encode(ControlOpInput{})}},
      openedTwice,
      {{MessageType::kOffer, offer}, {MessageType::kJobOpened, encode(JobOpened{7})}},
      {{MessageType::kOffer, {1}}},
  };
  for (const auto& script : scripts) {
    Env env = localEnv(2);
    const UniqueFd listener = std::move(listenOn(loopback())).value();
    env.servers = std::move(localAddress(listener.get())).value().text();
    const Key key = std::move(serverKey(env)).value();
    std::jthread server([&] {
      pollfd waiting{listener.get(), POLLIN, 0};
      ASSERT_EQ(::poll(&waiting, 1, 2000), 1);
      AcceptingHandshake handshake(
          std::make_unique<ControlSocket>(std::move(*std::move(acceptFrom(listener.get())).value())), {key, true, 2000},
          Purpose::kServer, 0);
      ASSERT_TRUE(finish(handshake).ok());
      const Peer hub = handshake.take();
      bool asked = false;
      for (const auto& [type, payload] : script) {
        if (type == MessageType::kJobOpened && !std::exchange(asked, true)) nextFrame(*hub.socket, 0.5);
        hub.socket->queue(type, payload);
      }
      while (!hub.socket->broken()) nextFrame(*hub.socket, 2);
    });
    Cluster cluster(2, env);
    cluster.expectJoined();
    EXPECT_EQ(cluster.plane(1).roster().presentServers(), 0U);
    server.join();
  }
}

// Steps the rendezvous until the client has an answer. Returns the answer, or a frame of type kHeartbeat if there is
// none.
Frame answerTo(RendezvousState& rendezvous, ControlSocket& client, double seconds = 2) {
  const Deadline deadline = soon(seconds);
  PollSet set;
  while (!deadline.passed()) {
    set.clear();
    rendezvous.watch(set);
    set.add(client.fd(), client.wantsWrite());
    set.wakeAt(deadline.at());
    [[maybe_unused]] const bool polled = set.wait().ok() && client.flush().ok();
    rendezvous.step(set);
    Result<std::optional<Frame>> frame = client.read();
    if (!frame.ok()) break;
    std::optional<Frame> got = std::move(frame).value();
    if (got && got->header.type != MessageType::kHeartbeat) return std::move(*got);
  }
  return {};
}

Peer connectClient(RendezvousState& rendezvous, const Address& where, const Credentials& credentials) {
  ConnectingHandshake handshake(std::make_unique<ControlSocket>(connectTo(where)), credentials, Purpose::kRendezvous,
                                0);
  const Deadline deadline = soon(2);
  PollSet set;
  while (!deadline.passed()) {
    if (Result<Progress> progress = handshake.step(); !progress.ok() || std::move(progress).value() == Progress::kDone)
      break;
    set.clear();
    rendezvous.watch(set);
    set.wakeAt(Deadline::in(5ms).at());
    EXPECT_TRUE(set.wait().ok());
    rendezvous.step(set);
  }
  return handshake.take();
}

TEST(HostileRendezvousClient, LosesOnlyItsConnection) {
  const Credentials credentials{Key{7}, true, 3000};
  AuthListener listener = std::move(AuthListener::create(loopback(), credentials, Purpose::kRendezvous, 0)).value();
  const Address where = std::move(listener.address()).value();
  RendezvousState rendezvous(std::move(listener), 3000);
  const Address hub = freeAddress();
  const Blob bad[] = {encode(RendezvousRequest{0, 0, 500, true, hub}),  // with 0 ranks, a rendezvous would end at once
                      encode(RendezvousRequest{2, 2, 500, false, {}}),
                      encode(RendezvousRequest{1, 2, 500, true, hub}),
                      encode(RendezvousRequest{0, 2, 500, true, {}}),
                      encode(RendezvousRequest{0, 2, 500, false, hub}),
                      Blob{1}};
  for (const Blob& question : bad) {
    const Peer client = connectClient(rendezvous, where, credentials);
    client.socket->queue(MessageType::kRendezvousRequest, question);
    EXPECT_EQ(answerTo(rendezvous, *client.socket).header.type, MessageType::kHeartbeat) << "no answer";
    EXPECT_TRUE(client.socket->broken());
    EXPECT_FALSE(rendezvous.done());
  }
  const Peer first = connectClient(rendezvous, where, credentials),
             second = connectClient(rendezvous, where, credentials);
  first.socket->queue(RendezvousRequest{0, 2, 500, true, hub});
  EXPECT_EQ(answerTo(rendezvous, *first.socket).header.type, MessageType::kRendezvousReply);
  second.socket->queue(RendezvousRequest{0, 2, 500, true, freeAddress()});
  EXPECT_EQ(answerTo(rendezvous, *second.socket).header.type, MessageType::kHeartbeat) << "the first rank 0 stays";
  const Peer rank = connectClient(rendezvous, where, credentials);
  rank.socket->queue(RendezvousRequest{1, 2, 500, false, {}});
  Result<RendezvousReply> reply = decode<RendezvousReply>(answerTo(rendezvous, *rank.socket).payload);
  ASSERT_TRUE(reply.ok());
  EXPECT_EQ(std::move(reply).value().hub.text(), hub.text());
}

}  // namespace
}  // namespace bps::test
