// FakeHub: a hub that sends only what the test tells it to send, and a real rank that joins it.
#pragma once
#include "tests/unit/control/raw_peer.h"

namespace bps::test {

// The hub of two ranks, each on its own machine. The test acts as rank 0, which contains the hub. Rank 1 is a real
// ControlPlane on another thread.
class FakeHub {
 public:
  static constexpr uint64_t kJob = 77;

  explicit FakeHub(double timeout = 3) : env_(localEnv(timeout)), id_(newId(env_)) {
    id_.kind = UniqueId::Kind::kHub;
    listener_ = std::move(listenOn(loopback())).value();
    id_.address = std::move(localAddress(listener_.get())).value();
    rank_ = std::jthread([this] { runRank(); });
    accept();
  }
  FakeHub(const FakeHub&) = delete;
  FakeHub& operator=(const FakeHub&) = delete;
  ~FakeHub() {
    if (rank_.joinable()) rank_.join();
  }

  static Roster roster() {
    Roster roster;
    roster.jobId = kJob;
    roster.ranks = {{"a", "hostA", 1, 0, 0}, {"b", "hostB", 2, 1, 0}};
    roster.machines = {{{0}, 0}, {{1}, 0}};
    roster.settings = {1 << 20, 0, 0, 3000, 1};
    return roster;
  }
  template <ControlMessage T>
  void send(const T& message) {
    send(T::kType, encode(message));
  }
  void send(MessageType type, const Blob& payload = {}) {
    socket_->queue(type, payload);
    [[maybe_unused]] const bool flushed = socket_->flush().ok();
  }
  void sendRoster() { send(MessageType::kRoster, encode(roster())); }
  Frame next() { return nextFrame(*socket_); }
  // Receives rank 1's input to its next control operation.
  ControlOpInput input() {
    Result<ControlOpInput> input = decode<ControlOpInput>(next().payload);
    EXPECT_TRUE(input.ok()) << input.error().message();
    return input.ok() ? std::move(input).value() : ControlOpInput();
  }

  // Rank 1 calls `body` after it has joined. outcome() waits until rank 1 has ended, and returns its error, or "".
  std::function<Status(ControlPlane&)> body = [](ControlPlane&) { return Status(); };
  std::string outcome() {
    rank_.join();
    return outcome_.message();
  }

 private:
  void accept() {
    pollfd waiting{listener_.get(), POLLIN, 0};
    ASSERT_EQ(::poll(&waiting, 1, 3000), 1);
    AcceptingHandshake handshake(
        std::make_unique<ControlSocket>(std::move(*std::move(acceptFrom(listener_.get())).value())),
        {id_.key, true, 3000}, Purpose::kJoin, kJob);
    ASSERT_TRUE(finish(handshake).ok());
    socket_ = std::move(handshake.take().socket);
    EXPECT_EQ(next().header.type, MessageType::kJoin);
  }
  void runRank() {
    auto joined = joinPlane(env_, {id_, 1, 2, "b"}, soon(3), failures_.sink());
    if (!joined.ok()) {
      outcome_ = std::move(joined).status();
      return;
    }
    const auto plane = std::move(joined).value();
    outcome_ = body(*plane);
    if (outcome_.ok()) outcome_ = Status(Code::kRemote, failures_.wait(2));
  }

  Env env_;
  UniqueId id_;
  UniqueFd listener_;
  FailureRecorder failures_;
  Status outcome_;
  std::unique_ptr<ControlSocket> socket_;
  std::jthread rank_;
};

}  // namespace bps::test
