// Tests how a shared-memory connection is set up, which peers the listener rejects, and when the plugin uses TCP
// instead.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "net_plugin/link/connector.h"
#include "net_plugin/link/handle_extension.h"
#include "net_plugin/shm/shm_listener.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::plugin::shm {
namespace {

using test::kTestTimeout;
using test::valueOf;

constexpr Token kToken{1, 2, 3};

std::string listenerAddress(uint64_t listener) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "bps-net-%016llx", static_cast<unsigned long long>(listener));
  return name.data();
}

template <class T>
std::string errorText(const Result<T>& result) {
  return result.ok() ? "no failure" : result.error().message();
}

bool hungUp(const UniqueFd& socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

TEST(ShmListener, AValidPeerConnectsAtOnce) {
  std::unique_ptr<ShmListener> listener = valueOf(ShmListener::create(kToken));
  EXPECT_EQ(valueOf(listener->accept()), nullptr);
  std::unique_ptr<SendComm> sender = valueOf(shmConnect(listener->socketId(), kToken));
  std::unique_ptr<RecvComm> receiver = valueOf(listener->accept());
  ASSERT_TRUE(sender && receiver);
  std::array<uint8_t, 3> bytes{7, 8, 9}, room{};
  Request* receive = valueOf(receiver->post(room.data(), room.size()));
  EXPECT_FALSE(valueOf(receiver->test(*receive)).done);
  EXPECT_TRUE(valueOf(sender->test(*valueOf(sender->post(bytes.data(), bytes.size())))).done);
  EXPECT_TRUE(valueOf(receiver->test(*receive)).done);
  EXPECT_EQ(room, bytes);
}

TEST(ShmListener, ConnectingToAMissingListenerIsAnError) {
  std::unique_ptr<ShmListener> listener = valueOf(ShmListener::create(kToken));
  const uint64_t number = listener->socketId();
  listener.reset();
  Result<std::unique_ptr<SendComm>> outcome = shmConnect(number, kToken);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Code::kRemote);
  EXPECT_NE(errorText(outcome).find("no process listens"), std::string::npos) << errorText(outcome);
}

TEST(ShmListener, AFullBacklogMeansTryAgain) {
  std::unique_ptr<ShmListener> listener = valueOf(ShmListener::create(kToken));
  std::vector<UniqueFd> silent;
  while (true) {
    UniqueFd each = valueOf(connectUnix(listenerAddress(listener->socketId())));
    if (!each) break;
    silent.push_back(std::move(each));
    ASSERT_LT(silent.size(), 10000U);
  }
  EXPECT_EQ(valueOf(shmConnect(listener->socketId(), kToken)), nullptr);
  EXPECT_EQ(valueOf(listener->accept()), nullptr);
  std::unique_ptr<SendComm> sender = valueOf(shmConnect(listener->socketId(), kToken));
  ASSERT_NE(sender, nullptr);
  std::unique_ptr<RecvComm> receiver;
  for (int i = 0; i < 100 && !receiver; ++i) receiver = valueOf(listener->accept());
  EXPECT_NE(receiver, nullptr) << "silent connections block a valid one";
}

// Connects to the listener and sends a hello with the token and the descriptor `fd`. If `fd` is negative, sends no
// descriptor.
UniqueFd connectAs(const ShmListener& listener, const Token& token, int fd) {
  UniqueFd socket = valueOf(connectUnix(listenerAddress(listener.socketId())));
  const HelloBytes hello = encodeHello(token);
  const bool sent = fd >= 0 ? sendWithFd(socket.get(), hello, fd).ok()
                            : ::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) == kHelloBytes;
  EXPECT_TRUE(sent);
  return socket;
}

TEST(ShmListener, PeersWithInvalidHelloAreRejected) {
  std::unique_ptr<ShmListener> listener = valueOf(ShmListener::create(kToken));
  const UniqueFd good = valueOf(Segment::createMemory());
  const UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const UniqueFd small(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  struct stat status {};
  ASSERT_EQ(::fstat(good.get(), &status), 0);
  ASSERT_EQ(::ftruncate(unsealed.get(), status.st_size), 0);
  ASSERT_EQ(::ftruncate(small.get(), 4096), 0);
  ASSERT_EQ(::fcntl(small.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  std::vector<UniqueFd> rejected;
  rejected.push_back(connectAs(*listener, Token{1, 2, 4}, good.get()));
  for (const int fd : {-1, unsealed.get(), small.get(), null.get()})
    rejected.push_back(connectAs(*listener, kToken, fd));
  rejected.push_back(valueOf(connectUnix(listenerAddress(listener->socketId()))));
  EXPECT_EQ(::send(rejected.back().get(), "bps", 3, MSG_NOSIGNAL), 3);
  EXPECT_EQ(valueOf(listener->accept()), nullptr);
  for (size_t i = 0; i < rejected.size(); ++i) EXPECT_TRUE(hungUp(rejected[i])) << "peer " << i;
  const UniqueFd right = connectAs(*listener, kToken, good.get());
  EXPECT_NE(valueOf(listener->accept()), nullptr);
}

// Each side checks the user id of its peer. If the user ids differ, the peers use TCP instead of shared memory.
TEST(ShmListener, AnotherUserCannotConnect) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  std::unique_ptr<ShmListener> listener = valueOf(ShmListener::create(kToken));
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    Result<std::unique_ptr<SendComm>> outcome = shmConnect(listener->socketId(), kToken);
    if (outcome.ok() || outcome.error().code() != Code::kRemote) ::_exit(3);
    const UniqueFd memory = valueOf(Segment::createMemory());
    const UniqueFd socket = valueOf(connectUnix(listenerAddress(listener->socketId())));
    const HelloBytes hello = encodeHello(kToken);
    const bool sent = sendWithFd(socket.get(), hello, memory.get()).ok();  // fails if the listener has already hung up
    if (!sent && !hungUp(socket)) ::_exit(5);
    pollfd state{.fd = socket.get(), .events = POLLIN, .revents = 0};
    ::_exit(::poll(&state, 1, 10000) == 1 && hungUp(socket) ? 0 : 4);
  }
  int status = -1;
  const Deadline deadline = Deadline::in(kTestTimeout);
  while (::waitpid(pid, &status, WNOHANG) == 0 && !deadline.passed()) EXPECT_EQ(valueOf(listener->accept()), nullptr);
  EXPECT_EQ(status, 0);
}

TEST(ShmListener, EveryByteOfTheHelloIsChecked) {
  const HelloBytes good = encodeHello(kToken);
  EXPECT_TRUE(checkHello(good, kToken).ok());
  for (size_t i = 0; i < 24; ++i) {
    HelloBytes bad = good;
    bad[i] = static_cast<uint8_t>(bad[i] ^ 0x10);
    EXPECT_EQ(checkHello(bad, kToken).ok(), i == 6 || i == 7) << "byte " << i;  // these two bytes are reserved
  }
  for (size_t length = 0; length < 24; ++length) EXPECT_FALSE(checkHello(std::span(good).first(length), kToken).ok());
}

TEST(ShmListener, HandleExtensionRoundTrips) {
  tcp::HandleBytes handle{};
  EXPECT_FALSE(link::readShmExtension(handle).has_value());
  link::writeShmExtension(handle, 0x123456789abcdef0);
  EXPECT_EQ(link::readShmExtension(handle), 0x123456789abcdef0);
  for (size_t length = 0; length < handle.size(); ++length)
    EXPECT_FALSE(link::readShmExtension(std::span(handle).first(length)).has_value());
  handle[112] ^= 1;
  EXPECT_FALSE(link::readShmExtension(handle).has_value());
}

// Closes the sender. Returns "tcp" or "memory", depending on the error that the receiver then reports.
std::string carrierOf(test::CommPair pair) {
  std::array<uint8_t, 1> room{};
  const test::Request receive = valueOf(pair.receiver->irecv(room.data(), room.size(), nullptr));
  pair.sender.reset();
  return errorText(test::finish(*pair.receiver, receive)).find("of this machine") != std::string::npos ? "memory"
                                                                                                       : "tcp";
}

test::CommPair connectBetween(net::Plugin& listening, net::Plugin& connecting) {
  std::unique_ptr<net::Listener> listener = valueOf(listening.listen(0));
  std::unique_ptr<net::Connector> connector = connecting.connect(0, listener->handle());
  test::CommPair pair;
  const Deadline deadline = Deadline::in(kTestTimeout);
  while ((!pair.sender || !pair.receiver) && !deadline.passed()) {
    if (!pair.sender) pair.sender = valueOf(connector->connect());
    if (!pair.receiver) pair.receiver = valueOf(listener->accept());
  }
  EXPECT_TRUE(pair.sender && pair.receiver);
  return pair;
}

TEST(ShmChoice, EitherSideCanDisableSharedMemory) {
  std::shared_ptr<net::Plugin> memory = test::loadBpsPlugin(test::Carrier::kMemory);
  std::shared_ptr<net::Plugin> tcp = test::loadBpsPlugin(test::Carrier::kTcp);
  EXPECT_EQ(carrierOf(connectBetween(*memory, *memory)), "memory");
  EXPECT_EQ(carrierOf(connectBetween(*memory, *tcp)), "tcp");
  EXPECT_EQ(carrierOf(connectBetween(*tcp, *memory)), "tcp");
  EXPECT_EQ(carrierOf(connectBetween(*tcp, *tcp)), "tcp");
}

// The handle names a local socket that does not exist, like a handle from another machine or network namespace. The
// plugin must then use TCP.
TEST(ShmChoice, WithoutAnShmListenerTcpIsUsed) {
  std::shared_ptr<net::Plugin> plugin = test::loadBpsPlugin(test::Carrier::kMemory);
  std::unique_ptr<net::Listener> listener = valueOf(plugin->listen(0));
  net::Handle handle = listener->handle();
  ASSERT_TRUE(link::readShmExtension(handle).has_value());
  link::writeShmExtension(handle, *link::readShmExtension(handle) + 1);
  std::unique_ptr<net::Connector> connector = plugin->connect(0, handle);
  test::CommPair pair;
  const Deadline deadline = Deadline::in(kTestTimeout);
  while ((!pair.sender || !pair.receiver) && !deadline.passed()) {
    if (!pair.sender) pair.sender = valueOf(connector->connect());
    if (!pair.receiver) pair.receiver = valueOf(listener->accept());
  }
  ASSERT_TRUE(pair.sender && pair.receiver);
  EXPECT_EQ(carrierOf(std::move(pair)), "tcp");
}

}  // namespace
}  // namespace bps::plugin::shm
