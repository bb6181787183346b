// How the two ends of a connection through shared memory meet, who is turned away, and when it is TCP instead.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>

#include "net_plugin/link/connector.h"
#include "net_plugin/link/door_sign.h"
#include "net_plugin/shm/door.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::plugin::shm {
namespace {

using test::kPatience;
using test::valueOf;

constexpr Token kToken{1, 2, 3};

std::string doorName(uint64_t door) {
  std::array<char, 32> name{};
  std::snprintf(name.data(), name.size(), "bps-net-%016llx", static_cast<unsigned long long>(door));
  return name.data();
}

template <class T>
std::string why(const Result<T>& result) {
  return result.ok() ? "no failure" : result.error().message();
}

bool hungUp(const UniqueFd& socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

TEST(ShmDoor, TheRightCallerComesInAtOnce) {
  std::unique_ptr<Door> door = valueOf(Door::open(kToken));
  EXPECT_EQ(valueOf(door->accept()), nullptr);
  std::unique_ptr<SendComm> sender = valueOf(visit(door->number(), kToken));
  std::unique_ptr<RecvComm> receiver = valueOf(door->accept());
  ASSERT_TRUE(sender && receiver);
  std::array<uint8_t, 3> bytes{7, 8, 9}, room{};
  Request* receive = valueOf(receiver->post(room.data(), room.size()));
  EXPECT_FALSE(valueOf(receiver->test(*receive)).done);
  EXPECT_TRUE(valueOf(sender->test(*valueOf(sender->post(bytes.data(), bytes.size())))).done);
  EXPECT_TRUE(valueOf(receiver->test(*receive)).done);
  EXPECT_EQ(room, bytes);
}

TEST(ShmDoor, NoDoorIsNoSurprise) {
  std::unique_ptr<Door> door = valueOf(Door::open(kToken));
  const uint64_t number = door->number();
  door.reset();
  Result<std::unique_ptr<SendComm>> outcome = visit(number, kToken);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Code::kRemote);
  EXPECT_NE(why(outcome).find("nobody listens"), std::string::npos) << why(outcome);
}

TEST(ShmDoor, ACrowdedDoorMeansLater) {
  std::unique_ptr<Door> door = valueOf(Door::open(kToken));
  std::vector<UniqueFd> crowd;
  while (true) {
    UniqueFd each = valueOf(connectTo(doorName(door->number())));
    if (!each) break;
    crowd.push_back(std::move(each));
    ASSERT_LT(crowd.size(), 10000U);
  }
  EXPECT_EQ(valueOf(visit(door->number(), kToken)), nullptr);
  EXPECT_EQ(valueOf(door->accept()), nullptr);
  std::unique_ptr<SendComm> sender = valueOf(visit(door->number(), kToken));
  ASSERT_NE(sender, nullptr);
  std::unique_ptr<RecvComm> receiver;
  for (int i = 0; i < 100 && !receiver; ++i) receiver = valueOf(door->accept());
  EXPECT_NE(receiver, nullptr) << "silent callers are in the way";
}

// Says hello with that token and brings that descriptor (none if negative).
UniqueFd callAs(const Door& door, const Token& token, int fd) {
  UniqueFd socket = valueOf(connectTo(doorName(door.number())));
  const HelloBytes hello = encodeHello(token);
  const bool said = fd >= 0 ? sendWithFd(socket.get(), hello, fd).ok()
                            : ::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL) == kHelloBytes;
  EXPECT_TRUE(said);
  return socket;
}

TEST(ShmDoor, WhoDoesNotBringWhatIsRightIsTurnedAway) {
  std::unique_ptr<Door> door = valueOf(Door::open(kToken));
  const UniqueFd good = valueOf(Segment::makeMemory());
  const UniqueFd unsealed(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const UniqueFd small(::memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  const UniqueFd null(::open("/dev/null", O_RDWR | O_CLOEXEC));
  struct stat status {};
  ASSERT_EQ(::fstat(good.get(), &status), 0);
  ASSERT_EQ(::ftruncate(unsealed.get(), status.st_size), 0);
  ASSERT_EQ(::ftruncate(small.get(), 4096), 0);
  ASSERT_EQ(::fcntl(small.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  std::vector<UniqueFd> strangers;
  strangers.push_back(callAs(*door, Token{1, 2, 4}, good.get()));
  for (const int fd : {-1, unsealed.get(), small.get(), null.get()}) strangers.push_back(callAs(*door, kToken, fd));
  strangers.push_back(valueOf(connectTo(doorName(door->number()))));
  EXPECT_EQ(::send(strangers.back().get(), "bps", 3, MSG_NOSIGNAL), 3);
  EXPECT_EQ(valueOf(door->accept()), nullptr);
  for (size_t i = 0; i < strangers.size(); ++i) EXPECT_TRUE(hungUp(strangers[i])) << "stranger " << i;
  const UniqueFd right = callAs(*door, kToken, good.get());
  EXPECT_NE(valueOf(door->accept()), nullptr);
}

// Each side asks whose the other is: a caller of another user goes on to TCP, and does not come in by force.
TEST(ShmDoor, AnotherUserFindsNoDoor) {
  if (::geteuid() != 0) GTEST_SKIP() << "needs root, to become another user";
  std::unique_ptr<Door> door = valueOf(Door::open(kToken));
  const pid_t pid = ::fork();
  if (pid == 0) {
    if (::setuid(65534) != 0) ::_exit(2);
    Result<std::unique_ptr<SendComm>> outcome = visit(door->number(), kToken);
    if (outcome.ok() || outcome.error().code() != Code::kRemote) ::_exit(3);
    const UniqueFd memory = valueOf(Segment::makeMemory());
    const UniqueFd socket = valueOf(connectTo(doorName(door->number())));
    const HelloBytes hello = encodeHello(kToken);
    const bool said = sendWithFd(socket.get(), hello, memory.get()).ok();  // or has been hung up on already
    if (!said && !hungUp(socket)) ::_exit(5);
    pollfd state{.fd = socket.get(), .events = POLLIN, .revents = 0};
    ::_exit(::poll(&state, 1, 10000) == 1 && hungUp(socket) ? 0 : 4);
  }
  int status = -1;
  const Deadline deadline = Deadline::in(kPatience);
  while (::waitpid(pid, &status, WNOHANG) == 0 && !deadline.passed()) EXPECT_EQ(valueOf(door->accept()), nullptr);
  EXPECT_EQ(status, 0);
}

TEST(ShmDoor, EveryByteOfTheHelloMatters) {
  const HelloBytes good = encodeHello(kToken);
  EXPECT_TRUE(checkHello(good, kToken).ok());
  for (size_t i = 0; i < 24; ++i) {
    HelloBytes bad = good;
    bad[i] = static_cast<uint8_t>(bad[i] ^ 0x10);
    EXPECT_EQ(checkHello(bad, kToken).ok(), i == 6 || i == 7) << "byte " << i;  // those two are reserved
  }
  for (size_t length = 0; length < 24; ++length) EXPECT_FALSE(checkHello(std::span(good).first(length), kToken).ok());
}

TEST(ShmDoor, TheSignInTheHandle) {
  tcp::HandleBytes handle{};
  EXPECT_FALSE(link::readDoor(handle).has_value());
  link::writeDoor(handle, 0x123456789abcdef0);
  EXPECT_EQ(link::readDoor(handle), 0x123456789abcdef0);
  for (size_t length = 0; length < handle.size(); ++length)
    EXPECT_FALSE(link::readDoor(std::span(handle).first(length)).has_value());
  handle[112] ^= 1;
  EXPECT_FALSE(link::readDoor(handle).has_value());
}

// "tcp" or "memory", by whom a broken connection blames.
std::string carrierOf(test::Pair pair) {
  std::array<uint8_t, 1> room{};
  const test::Request receive = valueOf(pair.receiver->irecv(room.data(), room.size(), nullptr));
  pair.sender.reset();
  return why(test::finish(*pair.receiver, receive)).find("of this machine") != std::string::npos ? "memory" : "tcp";
}

test::Pair connectBetween(net::Plugin& listening, net::Plugin& connecting) {
  std::unique_ptr<net::Listener> listener = valueOf(listening.listen(0));
  std::unique_ptr<net::Connector> connector = connecting.connect(0, listener->handle());
  test::Pair pair;
  const Deadline deadline = Deadline::in(kPatience);
  while ((!pair.sender || !pair.receiver) && !deadline.passed()) {
    if (!pair.sender) pair.sender = valueOf(connector->connect());
    if (!pair.receiver) pair.receiver = valueOf(listener->accept());
  }
  EXPECT_TRUE(pair.sender && pair.receiver);
  return pair;
}

TEST(ShmChoice, EitherSideMayRefuseIt) {
  std::shared_ptr<net::Plugin> memory = test::loadOurs(test::Carrier::kMemory);
  std::shared_ptr<net::Plugin> tcp = test::loadOurs(test::Carrier::kTcp);
  EXPECT_EQ(carrierOf(connectBetween(*memory, *memory)), "memory");
  EXPECT_EQ(carrierOf(connectBetween(*memory, *tcp)), "tcp");
  EXPECT_EQ(carrierOf(connectBetween(*tcp, *memory)), "tcp");
  EXPECT_EQ(carrierOf(connectBetween(*tcp, *tcp)), "tcp");
}

// As on another machine, or in another network namespace: the handle names a door that is not there.
TEST(ShmChoice, WithoutTheDoorItIsTcp) {
  std::shared_ptr<net::Plugin> plugin = test::loadOurs(test::Carrier::kMemory);
  std::unique_ptr<net::Listener> listener = valueOf(plugin->listen(0));
  net::Handle handle = listener->handle();
  ASSERT_TRUE(link::readDoor(handle).has_value());
  link::writeDoor(handle, *link::readDoor(handle) + 1);
  std::unique_ptr<net::Connector> connector = plugin->connect(0, handle);
  test::Pair pair;
  const Deadline deadline = Deadline::in(kPatience);
  while ((!pair.sender || !pair.receiver) && !deadline.passed()) {
    if (!pair.sender) pair.sender = valueOf(connector->connect());
    if (!pair.receiver) pair.receiver = valueOf(listener->accept());
  }
  ASSERT_TRUE(pair.sender && pair.receiver);
  EXPECT_EQ(carrierOf(std::move(pair)), "tcp");
}

}  // namespace
}  // namespace bps::plugin::shm
