// Tests which messages a session of the server accepts in each state. The test acts as the hub.
#include "src/base/io/host_lookup.h"
#include "tests/unit/control/fake_server.h"
#include "tests/unit/control/raw_peer.h"

namespace bps::test {
namespace {

// The states of a session, in the order in which the hub's messages lead to them.
enum class Stage { kOffered, kOpening, kOpen, kExchanging, kAwaitingBarrier, kServing };
constexpr Stage kStages[] = {Stage::kOffered,    Stage::kOpening,         Stage::kOpen,
                             Stage::kExchanging, Stage::kAwaitingBarrier, Stage::kServing};

class SessionTest : public testing::Test {
 protected:
  static constexpr uint64_t kJob = 99;

  SessionTest() { silent_.runner.neverListen(); }
  // A job remains at Stage::kOpening only if its runner never reports that it listens.
  TestServer& serverFor(Stage stage) { return stage == Stage::kOpening ? silent_ : server_; }
  FakeRunner& runnerFor(Stage stage) { return serverFor(stage).runner; }
  // Returns a hub whose session has reached `stage`.
  Peer hubAt(Stage stage) {
    const Address where =
        std::move(resolve(std::move(parseHostPort(serverFor(stage).name(), 1)).value(), soon())).value().front();
    ConnectingHandshake handshake(std::make_unique<ControlSocket>(connectTo(where)), {key_, true, 10000},
                                  Purpose::kServer, kJob);
    EXPECT_TRUE(finish(handshake).ok());
    Peer hub = handshake.take();
    expect(hub, MessageType::kOffer);
    if (stage >= Stage::kOpening) send(hub, MessageType::kOpenJob, messageOf(MessageType::kOpenJob));
    if (stage >= Stage::kOpen) expect(hub, MessageType::kJobOpened);
    if (stage >= Stage::kExchanging) {
      send(hub, MessageType::kBegin);
      expect(hub, MessageType::kControlOpInput);
    }
    if (stage >= Stage::kAwaitingBarrier) {
      send(hub, MessageType::kControlOpResult, messageOf(MessageType::kControlOpResult));
      expect(hub, MessageType::kControlOpInput);
    }
    if (stage >= Stage::kServing)
      send(hub, MessageType::kControlOpResult, encode(ControlOpResult{ControlOp::kBarrier, 0, {}}));
    return hub;
  }
  Roster roster() const {
    Roster roster;
    roster.jobId = kJob;
    roster.ranks = {{"a", "a", 1, 0, 0}, {"b", "b", 2, 1, 0}};
    roster.machines = {{{0}, 0}, {{1}, 0}};
    roster.servers = {{"server", 0}};
    roster.settings.partitionBytes = 1U << 20;
    roster.settings.timeoutMs = 10000;
    roster.settings.rails = 1;
    roster.settings.parameters = parameters_;
    return roster;
  }
  // Returns a valid payload for a message of the given type.
  Blob messageOf(MessageType type) const {
    switch (type) {
      case MessageType::kOpenJob:
        return encode(OpenJob{1, 2, encode(roster())});
      case MessageType::kControlOpResult:
        return encode(ControlOpResult{ControlOp::kExchange, 0, std::vector<Blob>(3)});
      case MessageType::kLeft:
        return encode(Left{1});
      case MessageType::kFailure:
        return encode(FailureMessage{Code::kRemote, "rank 1 died"});
      default:
        return {};
    }
  }
  static bool isDue(Stage stage, MessageType type) {
    const bool beforeBegin = stage <= Stage::kOpen;
    switch (type) {
      case MessageType::kFailure:
      case MessageType::kGoodbye:
        return true;
      case MessageType::kCheck:
      case MessageType::kStatus:
        return stage == Stage::kOffered;
      case MessageType::kOpenJob:
        return beforeBegin;
      case MessageType::kBegin:
        return stage == Stage::kOpen;
      case MessageType::kControlOpResult:
        return stage == Stage::kExchanging || stage == Stage::kAwaitingBarrier;
      case MessageType::kLeft:
        return !beforeBegin;
      default:
        return false;
    }
  }
  static void send(Peer& hub, MessageType type, const Blob& payload = {}) {
    hub.socket->queue(type, payload);
    [[maybe_unused]] const bool flushed = hub.socket->flush().ok();
  }
  static void expect(Peer& hub, MessageType type) { ASSERT_EQ(nextFrame(*hub.socket).header.type, type); }
  // Waits until the server closes the connection. Returns false if it does not close in time.
  static bool ended(Peer& hub) {
    for (const Deadline deadline = soon(); !deadline.passed(); pollFor(*hub.socket, POLLIN))
      if (!hub.socket->read().ok()) return true;
    return false;
  }

  bool parameters_ = false;
  TestServer server_, silent_;
  const Key key_ = std::move(serverKey(localEnv())).value();
};

TEST_F(SessionTest, AMessageThatIsNotDueEndsTheSessionAndItsJobInEveryState) {
  for (const Stage stage : kStages)
    for (int number = static_cast<int>(MessageType::kRendezvousRequest);
         number <= static_cast<int>(MessageType::kStatusReport) + 1; ++number) {
      const auto type = static_cast<MessageType>(number);
      if (type == MessageType::kHeartbeat || isDue(stage, type)) continue;
      Peer hub = hubAt(stage);
      send(hub, type, messageOf(type));
      ASSERT_TRUE(ended(hub)) << "message " << number << " at stage " << static_cast<int>(stage);
      ASSERT_TRUE(runnerFor(stage).waitEmpty(5));
    }
}

TEST_F(SessionTest, TheHubsFailureClosesTheJobInEveryState) {
  for (const Stage stage : kStages) {
    Peer hub = hubAt(stage);
    send(hub, MessageType::kFailure, messageOf(MessageType::kFailure));
    ASSERT_TRUE(ended(hub)) << static_cast<int>(stage);
    ASSERT_TRUE(runnerFor(stage).waitEmpty(5));
  }
}

TEST_F(SessionTest, TheHubsGoodbyeBeforeTheJobServesClosesItAtOnce) {
  for (const Stage stage : {Stage::kOffered, Stage::kOpening, Stage::kOpen, Stage::kExchanging}) {
    Peer hub = hubAt(stage);
    send(hub, MessageType::kGoodbye);
    ASSERT_TRUE(ended(hub)) << static_cast<int>(stage);
    ASSERT_TRUE(runnerFor(stage).waitEmpty(5));
  }
}

TEST_F(SessionTest, TheHubsGoodbyeLetsAJobThatServesRunOn) {
  Peer hub = hubAt(Stage::kServing);
  send(hub, MessageType::kGoodbye);
  EXPECT_TRUE(server_.runner.waitFinishing());
  ASSERT_EQ(server_.runner.jobs().size(), 1U);
  server_.runner.jobs()[0].events->ended(kJob);
  EXPECT_TRUE(server_.runner.waitEmpty(5));
}

TEST_F(SessionTest, AHubThatHangsUpClosesTheJobInEveryState) {
  for (const Stage stage : kStages) {
    { Peer hub = hubAt(stage); }
    ASSERT_TRUE(runnerFor(stage).waitEmpty(5)) << static_cast<int>(stage);
  }
}

TEST_F(SessionTest, InAsynchronousTrainingTheJobLearnsWhichMachineHasLeft) {
  for (const bool parameters : {true, false}) {
    parameters_ = parameters;
    Peer hub = hubAt(Stage::kServing);
    send(hub, MessageType::kLeft, messageOf(MessageType::kLeft));
    send(hub, MessageType::kGoodbye);
    ASSERT_TRUE(server_.runner.waitFinishing());
    EXPECT_EQ(server_.runner.jobs()[0].lost, parameters ? std::vector<size_t>{1} : std::vector<size_t>());
    server_.runner.jobs()[0].events->ended(kJob);
    EXPECT_TRUE(server_.runner.waitEmpty());
  }
}

TEST_F(SessionTest, ADrainingServerAsksTheHubOnceToGoOnWithoutIt) {
  Peer hub = hubAt(Stage::kServing);
  server_.drain();
  const Frame drain = nextFrame(*hub.socket);
  EXPECT_EQ(drain.header.type, MessageType::kDrain);
  EXPECT_TRUE(drain.payload.empty());
  send(hub, MessageType::kLeft, messageOf(MessageType::kLeft));  // makes the server go through its sessions again
  EXPECT_EQ(nextFrame(*hub.socket, .3).header.type, MessageType::kHeartbeat) << "no second request";
  EXPECT_EQ(server_.counters().jobsLeft.value(), 0U);
  send(hub, MessageType::kGoodbye);
  ASSERT_TRUE(server_.runner.waitFinishing());
  EXPECT_EQ(server_.counters().jobsLeft.value(), 1U);
  server_.runner.jobs()[0].events->ended(kJob);
  server_.wait();
}

TEST_F(SessionTest, ADrainingServerAsksTheHubAsSoonAsItServes) {
  Peer hub = hubAt(Stage::kExchanging);
  server_.drain();
  EXPECT_EQ(nextFrame(*hub.socket, .3).header.type, MessageType::kHeartbeat) << "the lanes are not connected yet";
  send(hub, MessageType::kControlOpResult, messageOf(MessageType::kControlOpResult));
  expect(hub, MessageType::kControlOpInput);
  EXPECT_EQ(nextFrame(*hub.socket, .3).header.type, MessageType::kHeartbeat);
  send(hub, MessageType::kControlOpResult, encode(ControlOpResult{ControlOp::kBarrier, 0, {}}));
  expect(hub, MessageType::kDrain);
  send(hub, MessageType::kGoodbye);
  EXPECT_TRUE(server_.runner.waitFinishing());
}

TEST_F(SessionTest, ADrainingServerRefusesAHubWithoutAJob) {
  Peer hub = hubAt(Stage::kOffered);
  server_.drain();
  Result<Refusal> refusal = decode<Refusal>(nextFrame(*hub.socket).payload);
  ASSERT_TRUE(refusal.ok());
  EXPECT_EQ(std::move(refusal).value().text, "server is draining");
  server_.wait();
}

TEST_F(SessionTest, ADrainingServerEndsIfTheHubDoesNotAnswerButFails) {
  Peer hub = hubAt(Stage::kServing);
  server_.drain();
  expect(hub, MessageType::kDrain);
  hub.socket.reset();
  server_.wait();
  EXPECT_TRUE(server_.runner.waitEmpty());
}

}  // namespace
}  // namespace bps::test
