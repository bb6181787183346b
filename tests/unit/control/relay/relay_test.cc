// Tests a relay of control connections with real sockets.
#include "src/control/relay/relay.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>

#include "tests/unit/control/cluster.h"

namespace bps::test {
namespace {

using Outcome = RelayReply::Outcome;

struct TestRelay {
  explicit TestRelay(uint32_t rank, std::chrono::milliseconds timeout = 2000ms, size_t nRanks = 0) {
    std::vector<UniqueFd> listeners;
    listeners.push_back(std::move(listenOn(loopback())).value());
    address = std::move(localAddress(listeners.front().get())).value();
    relay = std::move(Relay::create(std::move(listeners), timeout)).value();
    owner = relay->targets().add({rank, "host" + std::to_string(rank)}, nRanks);
  }
  void reached(const Address& target, RelayWay way = {}) { relay->targets().reached(owner, target, std::move(way)); }
  bool waitForConnections(size_t count) const {
    const Deadline deadline = soon(2);
    while (relay->connections() != count && !deadline.passed()) std::this_thread::sleep_for(2ms);
    return relay->connections() == count;
  }

  Address address;
  std::unique_ptr<Relay> relay;
  RelayTargets::Owner owner = 0;
};

// Waits until the descriptor is readable. False if it is not in time.
bool readable(int fd, int ms = 2000) {
  pollfd waiting{fd, POLLIN, 0};
  return ::poll(&waiting, 1, ms) == 1;
}

struct Target {
  Target()
      : listener(std::move(listenOn(loopback())).value()), address(std::move(localAddress(listener.get())).value()) {}
  UniqueFd accept() const {
    if (!readable(listener.get())) return {};
    return std::move(*std::move(acceptFrom(listener.get())).value());
  }
  UniqueFd listener;
  Address address;
};

struct Asked {
  Status failure;
  RelayReply reply;
  UniqueFd fd;
};
Asked ask(const Address& relay, const Address& target, RelayRequest::Kind kind = RelayRequest::Kind::kForward) {
  RelayConnector connector = std::move(RelayConnector::start(relay, {kind, target})).value();
  const Deadline deadline = soon(3);
  PollSet set;
  while (!deadline.passed()) {
    set.clear();
    connector.watch(set);
    set.wakeAt(deadline.at());
    EXPECT_TRUE(set.wait().ok());
    Result<Progress> progress = connector.step(set);
    if (!progress.ok()) return {std::move(progress).status(), {}, {}};
    if (std::move(progress).value() == Progress::kDone) return {{}, connector.reply(), connector.take()};
  }
  return {Status(Code::kTimeout, "no reply"), {}, {}};
}

// Returns what arrives until `bytes` bytes or the end of the stream.
std::string receive(int fd, size_t bytes) {
  std::string text(bytes, 0);
  size_t got = 0;
  while (got < bytes && readable(fd)) {
    const ssize_t count = ::recv(fd, text.data() + got, bytes - got, 0);
    if (count <= 0) break;
    got += static_cast<size_t>(count);
  }
  text.resize(got);
  return text;
}

void sendAll(int fd, std::string_view text) {
  while (!text.empty()) {
    const ssize_t count = ::send(fd, text.data(), text.size(), MSG_NOSIGNAL);
    if (count > 0) text.remove_prefix(static_cast<size_t>(count));
    else std::this_thread::sleep_for(1ms);
  }
}

bool ended(int fd) {
  char byte = 0;
  return readable(fd) && ::recv(fd, &byte, 1, 0) <= 0;
}

TEST(ControlRelay, ForwardsThroughAChain) {
  const Target target;
  TestRelay near(1), far(3);
  near.reached(target.address);
  far.reached(target.address, {near.address, {{1, "host1"}}});
  const Asked asked = ask(far.address, target.address);
  ASSERT_EQ(asked.reply.outcome, Outcome::kConnected) << asked.failure.message();
  EXPECT_EQ(hopsText(asked.reply.hops), "rank 3 (host3), then rank 1 (host1)");
  const UniqueFd accepted = target.accept();
  ASSERT_TRUE(accepted);
  sendAll(asked.fd.get(), "hello");
  EXPECT_EQ(receive(accepted.get(), 5), "hello");
  const std::string large(3 << 20, 'x');
  std::jthread sender([&] { sendAll(accepted.get(), large); });
  EXPECT_TRUE(receive(asked.fd.get(), large.size()) == large);
}

TEST(ControlRelay, PassesTheEndOfOneSideOn) {
  const Target target;
  TestRelay relay(1);
  relay.reached(target.address);
  const Asked asked = ask(relay.address, target.address);
  ASSERT_EQ(asked.reply.outcome, Outcome::kConnected) << asked.failure.message();
  UniqueFd accepted = target.accept();
  sendAll(asked.fd.get(), "last");
  ::shutdown(asked.fd.get(), SHUT_WR);
  EXPECT_EQ(receive(accepted.get(), 100), "last");
  sendAll(accepted.get(), "answer");
  EXPECT_EQ(receive(asked.fd.get(), 6), "answer") << "the other direction goes on";
  accepted.reset();
  EXPECT_TRUE(ended(asked.fd.get()));
  EXPECT_TRUE(relay.waitForConnections(0));
}

TEST(ControlRelay, ClosesAHalfOpenConnectionAfterTheTimeout) {
  const Target target;
  TestRelay relay(1, 200ms);
  relay.reached(target.address);
  const Asked asked = ask(relay.address, target.address);
  const UniqueFd accepted = target.accept();
  ASSERT_TRUE(accepted);
  std::this_thread::sleep_for(400ms);
  EXPECT_TRUE(relay.waitForConnections(1)) << "an open connection may be silent";
  ::shutdown(asked.fd.get(), SHUT_WR);
  EXPECT_TRUE(relay.waitForConnections(0));
}

TEST(ControlRelay, RefusesTargetsThatItsProcessHasNotReached) {
  const Target target;
  TestRelay relay(1);
  EXPECT_EQ(ask(relay.address, target.address).reply.outcome, Outcome::kUnknown);
  relay.relay->targets().expect(relay.owner, target.address);
  EXPECT_EQ(ask(relay.address, target.address).reply.outcome, Outcome::kNotYet);
  EXPECT_FALSE(readable(target.listener.get(), 50)) << "nobody connects with the target";
  relay.reached(target.address);
  EXPECT_EQ(ask(relay.address, target.address, RelayRequest::Kind::kAsk).reply.outcome, Outcome::kConnected);
  EXPECT_FALSE(readable(target.listener.get(), 50)) << "a question needs no connection";
}

TEST(ControlRelay, SaysThatATargetHasGone) {
  TestRelay near(1), far(2);
  const Address gone = freeAddress();
  near.reached(gone);
  EXPECT_EQ(ask(near.address, gone).reply.outcome, Outcome::kBroken);
  far.reached(gone, {near.address, {{1, "host1"}}});
  EXPECT_EQ(ask(far.address, gone).reply.outcome, Outcome::kBroken);
  far.reached(loopback(1), {freeAddress(), {{1, "host1"}}});
  EXPECT_EQ(ask(far.address, loopback(1)).reply.outcome, Outcome::kBroken) << "the relay on the way has gone";
}

TEST(ControlRelay, ClosesClientsThatSendNoValidRequest) {
  TestRelay relay(1, 150ms);
  const UniqueFd silent = std::move(startConnect(relay.address)).value();
  const UniqueFd wrong = std::move(startConnect(relay.address)).value();
  ASSERT_TRUE(relay.waitForConnections(2));
  sendAll(wrong.get(), std::string(RelayRequest::kBytes, 'x'));
  EXPECT_TRUE(ended(wrong.get()));
  EXPECT_TRUE(ended(silent.get())) << "after the timeout";
  EXPECT_TRUE(relay.waitForConnections(0));
}

TEST(ControlRelay, LimitsItsConnections) {
  TestRelay relay(1);
  const Target target;
  relay.reached(target.address);
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 80; ++i) silent.push_back(std::move(startConnect(relay.address)).value());
  ASSERT_TRUE(relay.waitForConnections(64)) << relay.relay->connections();
  std::vector<Asked> inUse;
  for (int i = 0; i < 64; ++i) inUse.push_back(ask(relay.address, target.address));
  EXPECT_TRUE(std::ranges::all_of(inUse, [](const Asked& a) { return a.reply.outcome == Outcome::kConnected; }))
      << "silent clients make room";
  EXPECT_EQ(ask(relay.address, target.address).reply.outcome, Outcome::kFull);
  EXPECT_TRUE(relay.waitForConnections(64));
  relay.relay->targets().add({1, "host1"}, 10);
  EXPECT_EQ(ask(relay.address, target.address).reply.outcome, Outcome::kConnected);
}

TEST(ControlRelay, ServesItsConnectionsUntilTheyEnd) {
  const Target target;
  TestRelay relay(1);
  relay.reached(target.address);
  Asked asked = ask(relay.address, target.address);
  UniqueFd accepted = target.accept();
  relay.relay->targets().remove(relay.owner);
  relay.relay->drain();
  std::this_thread::sleep_for(50ms);
  EXPECT_TRUE(std::move(listenOn(relay.address)).ok()) << "the port is free for the next job";
  EXPECT_FALSE(relay.relay->ended());
  sendAll(asked.fd.get(), "still here");
  EXPECT_EQ(receive(accepted.get(), 10), "still here");
  asked.fd.reset();
  accepted.reset();
  const Deadline deadline = soon(1);
  while (!relay.relay->ended() && !deadline.passed()) std::this_thread::sleep_for(2ms);
  EXPECT_TRUE(relay.relay->ended());
}

TEST(ControlRelay, EndsAfterTheTimeoutAlthoughItsConnectionsGoOn) {
  const Target target;
  TestRelay relay(1, 200ms);
  relay.reached(target.address);
  const Asked asked = ask(relay.address, target.address);
  const UniqueFd accepted = target.accept();
  const auto begin = std::chrono::steady_clock::now();
  relay.relay.reset();
  const auto took = std::chrono::steady_clock::now() - begin;
  EXPECT_GE(took, 150ms);
  EXPECT_LT(took, 1500ms);
  EXPECT_TRUE(ended(asked.fd.get()));
}

}  // namespace
}  // namespace bps::test
