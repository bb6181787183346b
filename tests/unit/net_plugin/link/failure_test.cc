// Tests how one end of a connection detects that its peer closes or dies, in each phase of the connection. Also tests
// how a listener rejects unauthenticated peers.
#include <arpa/inet.h>
#include <malloc.h>
#include <netinet/in.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "net_plugin/tcp/wire.h"
#include "src/base/io/socket.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

class ConnectionFailure : public ::testing::TestWithParam<Carrier> {
 protected:
  std::shared_ptr<net::Plugin> plugin_ = loadBpsPlugin(GetParam());
};

template <class T>
std::string errorText(const Result<T>& result) {
  return result.ok() ? "no failure" : result.error().message();
}

TEST_P(ConnectionFailure, PeerThatClosesBeforeAnyMessageIsNamed) {
  CommPair pair = connectPair(*plugin_);
  std::vector<uint8_t> room(10);
  const Request receive = valueOf(pair.receiver->irecv(room.data(), room.size(), nullptr));
  EXPECT_FALSE(valueOf(pair.receiver->test(receive)).done);
  pair.sender.reset();
  Result<size_t> outcome = finish(*pair.receiver, receive);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Code::kRemote);
  EXPECT_NE(errorText(outcome).find("closed the connection"), std::string::npos) << errorText(outcome);
  const std::string ourselves = "process " + std::to_string(::getpid()) + " of this machine";
  EXPECT_NE(errorText(outcome).find(GetParam() == Carrier::kTcp ? "127.0.0.1:" : ourselves), std::string::npos)
      << errorText(outcome);
}

TEST_P(ConnectionFailure, DataSentBeforeTheCloseArrives) {
  CommPair pair = connectPair(*plugin_);
  const std::vector<uint8_t> bytes = randomBytes(100000, 1);
  EXPECT_TRUE(finish(*pair.sender, valueOf(pair.sender->isend(bytes.data(), bytes.size(), nullptr))).ok());
  pair.sender.reset();
  std::vector<uint8_t> room(bytes.size());
  EXPECT_TRUE(finish(*pair.receiver, valueOf(pair.receiver->irecv(room.data(), room.size(), nullptr))).ok());
  EXPECT_EQ(room, bytes);
  const Request more = valueOf(pair.receiver->irecv(room.data(), room.size(), nullptr));
  EXPECT_FALSE(finish(*pair.receiver, more).ok());
}

TEST_P(ConnectionFailure, SenderThatClosesInsideAMessageFailsTheReceive) {
  CommPair pair = connectPair(*plugin_);
  const std::vector<uint8_t> bytes(size_t{32} << 20);
  std::vector<uint8_t> room(bytes.size());
  const Request send = valueOf(pair.sender->isend(bytes.data(), bytes.size(), nullptr));
  EXPECT_FALSE(valueOf(pair.sender->test(send)).done) << "more than the socket buffers hold";
  pair.sender.reset();
  Result<size_t> outcome = finish(*pair.receiver, valueOf(pair.receiver->irecv(room.data(), room.size(), nullptr)));
  EXPECT_NE(errorText(outcome).find("in the middle of message 0"), std::string::npos) << errorText(outcome);
}

TEST_P(ConnectionFailure, ReceiverThatClosesFailsTheSend) {
  CommPair pair = connectPair(*plugin_);
  const std::vector<uint8_t> bytes(size_t{32} << 20);
  const Request send = valueOf(pair.sender->isend(bytes.data(), bytes.size(), nullptr));
  EXPECT_FALSE(valueOf(pair.sender->test(send)).done);
  pair.receiver.reset();
  Result<size_t> outcome = finish(*pair.sender, send);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Code::kRemote) << errorText(outcome);
  EXPECT_FALSE(pair.sender->isend(bytes.data(), 1, nullptr).ok()) << "the failure stays";
}

TEST_P(ConnectionFailure, ConnectingToAClosedListenerFails) {
  std::unique_ptr<net::Listener> listener = valueOf(plugin_->listen(0));
  std::unique_ptr<net::Connector> connector = plugin_->connect(0, listener->handle());
  const std::string address = valueOf(plugin::tcp::parseHandle(listener->handle())).address.text();
  listener.reset();
  const Deadline deadline = Deadline::in(kTestTimeout);
  std::string failure;
  while (failure.empty() && !deadline.passed()) {
    Result<std::unique_ptr<Comm>> outcome = connector->connect();
    if (!outcome.ok()) failure = outcome.error().message();
  }
  EXPECT_NE(failure.find(address + ": Connection refused"), std::string::npos) << failure;
}

TEST_P(ConnectionFailure, ClosingWithRequestsInFlightIsSafe) {
  for (int i = 0; i < 20; ++i) {
    CommPair pair = connectPair(*plugin_);
    const std::vector<uint8_t> bytes(size_t{8} << 20);
    std::vector<uint8_t> room(bytes.size());
    const Request receive = valueOf(pair.receiver->irecv(room.data(), room.size(), nullptr));
    const Request send = valueOf(pair.sender->isend(bytes.data(), bytes.size(), nullptr));
    for (int j = 0; j < i % 4; ++j) {
      valueOf(pair.sender->test(send));
      valueOf(pair.receiver->test(receive));
    }
    (i % 2 == 0 ? pair.sender : pair.receiver).reset();
  }
}

// Connects to the listener's address, and sends `bytes` as an unauthenticated peer.
UniqueFd connectUnauthenticated(const net::Listener& listener, const std::vector<uint8_t>& bytes) {
  const Address address = valueOf(plugin::tcp::parseHandle(listener.handle())).address;
  UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), address.data(), address.length()), 0);
  if (!bytes.empty()) {
    EXPECT_EQ(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bytes.size()));
  }
  return socket;
}

bool hungUp(const UniqueFd& socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

TEST_P(ConnectionFailure, UnauthenticatedPeersAreRejectedWithoutDelayingOthers) {
  std::unique_ptr<net::Listener> listener = valueOf(plugin_->listen(0));
  const UniqueFd silent = connectUnauthenticated(*listener, {});
  const UniqueFd wrong = connectUnauthenticated(*listener, randomBytes(plugin::tcp::kHelloBytes, 1));
  const UniqueFd chatty = connectUnauthenticated(*listener, randomBytes(100000, 2));
  plugin::tcp::Token otherToken{};
  const plugin::tcp::HelloBytes hello = plugin::tcp::encodeHello(otherToken, {});
  const UniqueFd replayed = connectUnauthenticated(*listener, {hello.begin(), hello.end()});
  connectUnauthenticated(*listener, {1, 2, 3}).reset();
  EXPECT_EQ(valueOf(listener->accept()), nullptr);
  const Deadline deadline = Deadline::in(kTestTimeout);
  while (!(hungUp(wrong) && hungUp(chatty) && hungUp(replayed)) && !deadline.passed()) valueOf(listener->accept());
  EXPECT_FALSE(deadline.passed());
  EXPECT_FALSE(hungUp(silent)) << "the hello is not overdue yet";

  std::unique_ptr<net::Connector> connector = plugin_->connect(0, listener->handle());
  CommPair pair;
  while ((!pair.sender || !pair.receiver) && !deadline.passed()) {
    if (!pair.sender) pair.sender = valueOf(connector->connect());
    if (!pair.receiver) pair.receiver = valueOf(listener->accept());
  }
  ASSERT_TRUE(pair.sender && pair.receiver);
  EXPECT_TRUE(transfers(pair, randomBytes(1000, 3), 1000));
}

TEST_P(ConnectionFailure, ManySilentConnectionsDoNotBlockAValidPeer) {
  std::unique_ptr<net::Listener> listener = valueOf(plugin_->listen(0));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 300; ++i) silent.push_back(connectUnauthenticated(*listener, {}));
  std::unique_ptr<net::Connector> connector = plugin_->connect(0, listener->handle());
  CommPair pair;
  const Deadline deadline = Deadline::in(std::chrono::seconds(3));  // shorter than a silent connection's time limit
  while ((!pair.sender || !pair.receiver) && !deadline.passed()) {
    if (!pair.sender) pair.sender = valueOf(connector->connect());
    if (!pair.receiver) pair.receiver = valueOf(listener->accept());
  }
  EXPECT_TRUE(pair.sender && pair.receiver);
}

// While this object exists, the process may open only `more` descriptors beyond those that are open now.
class ScopedDescriptorLimit {
 public:
  explicit ScopedDescriptorLimit(rlim_t more) {
    ::getrlimit(RLIMIT_NOFILE, &before_);
    const UniqueFd next(::dup(STDERR_FILENO));
    const rlimit few{static_cast<rlim_t>(next.get()) + more, before_.rlim_max};
    ::setrlimit(RLIMIT_NOFILE, &few);
  }
  ScopedDescriptorLimit(const ScopedDescriptorLimit&) = delete;
  ScopedDescriptorLimit& operator=(const ScopedDescriptorLimit&) = delete;
  ~ScopedDescriptorLimit() { ::setrlimit(RLIMIT_NOFILE, &before_); }

 private:
  rlimit before_{};
};

TEST_P(ConnectionFailure, SilentConnectionsReleaseTheirDescriptors) {
  std::unique_ptr<net::Listener> listener = valueOf(plugin_->listen(0));
  std::vector<UniqueFd> silent;
  for (int i = 0; i < 20; ++i) silent.push_back(connectUnauthenticated(*listener, {}));
  std::unique_ptr<net::Connector> connector = plugin_->connect(0, listener->handle());
  CommPair pair;
  const Deadline deadline = Deadline::in(std::chrono::seconds(3));  // shorter than a silent connection's time limit
  while (!pair.sender && !deadline.passed()) pair.sender = valueOf(connector->connect());
  const ScopedDescriptorLimit few(5);
  while (!pair.receiver && !deadline.passed()) pair.receiver = valueOf(listener->accept());
  EXPECT_TRUE(pair.receiver);
}

size_t countOpenDescriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& each : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

size_t countMappings() {
  std::ifstream maps("/proc/self/maps");
  return static_cast<size_t>(std::count(std::istreambuf_iterator<char>(maps), {}, '\n'));
}

TEST_P(ConnectionFailure, AThousandConnectionsLeakNothing) {
  for (int i = 0; i < 10; ++i) CommPair warmUp = connectPair(*plugin_);
  const size_t before = countOpenDescriptors(), mappingsBefore = countMappings(), heapBefore = ::mallinfo2().uordblks;
  for (unsigned i = 0; i < 1000; ++i) {
    CommPair pair = connectPair(*plugin_);
    if (i % 100 == 0) {
      ASSERT_TRUE(transfers(pair, randomBytes(100, i), 100));
    }
  }
  EXPECT_LE(countOpenDescriptors(), before);        // descriptors of earlier tests may close meanwhile
  EXPECT_LT(countMappings(), mappingsBefore + 20);  // the memory allocator also creates mappings
  EXPECT_LT(::mallinfo2().uordblks, heapBefore + 1000 * sizeof(void*)) << "bytes of the heap";
}

BPS_OVER_BOTH(ConnectionFailure);

}  // namespace
}  // namespace bps::test
