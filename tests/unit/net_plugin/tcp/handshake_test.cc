// Tests the set-up of TCP connections with several sockets. The sockets of a connection may arrive in any order, mixed
// with sockets of other connections.
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

#include <array>
#include <optional>

#include "net_plugin/stream/recv_comm.h"
#include "net_plugin/stream/send_comm.h"
#include "net_plugin/tcp/connector.h"
#include "net_plugin/tcp/listener.h"
#include "net_plugin/tcp/options.h"
#include "net_plugin/tcp/route.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::plugin::tcp {
namespace {

using test::kTestTimeout;
using test::valueOf;

TcpInterface loopback(size_t sockets) {
  std::vector<TcpInterface> found =
      valueOf(findInterfaces("=lo", {.threads = 1, .perThread = static_cast<int>(sockets)}));
  EXPECT_EQ(found.front().sockets, sockets);
  return found.front();
}

struct Ends {
  std::unique_ptr<stream::SendComm> sender;
  std::unique_ptr<stream::RecvComm> receiver;
};

// Steps the connector. Returns the sending end, or null if the connection is not complete yet.
std::unique_ptr<stream::SendComm> stepOf(Connector& connector) {
  std::vector<UniqueFd> sockets = valueOf(connector.step());
  return sockets.empty() ? nullptr : std::make_unique<stream::SendComm>(std::move(sockets));
}

std::unique_ptr<stream::RecvComm> acceptFrom(Listener& listener) {
  Listener::AcceptedConnection arrival = valueOf(listener.accept());
  EXPECT_EQ(arrival.carrier, Carrier::kStream);
  return arrival.sockets.empty() ? nullptr : std::make_unique<stream::RecvComm>(std::move(arrival.sockets));
}

Ends meet(Listener& listener, Connector& connector) {
  Ends ends;
  for (const Deadline deadline = Deadline::in(kTestTimeout); !deadline.passed();) {
    if (!ends.sender) ends.sender = stepOf(connector);
    if (!ends.receiver) ends.receiver = acceptFrom(listener);
    if (ends.sender && ends.receiver) return ends;
  }
  ADD_FAILURE() << "not connected";
  std::abort();
}

void exchange(const Ends& ends, size_t size) {
  std::vector<uint8_t> bytes = test::randomBytes(size, 1), room(size);
  plugin::Request* send = valueOf(ends.sender->post(bytes.data(), size));
  plugin::Request* receive = valueOf(ends.receiver->post(room.data(), size));
  bool sent = false, received = false;
  for (const Deadline deadline = Deadline::in(kTestTimeout); !(sent && received) && !deadline.passed();) {
    sent = sent || valueOf(ends.sender->test(*send)).done;
    received = received || valueOf(ends.receiver->test(*receive)).done;
  }
  EXPECT_EQ(room, bytes);
}

UniqueFd call(const HandleData& target, const HelloBytes& hello) {
  UniqueFd socket(::socket(target.address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  EXPECT_EQ(::connect(socket.get(), target.address.data(), target.address.length()), 0);
  EXPECT_EQ(::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
  return socket;
}

bool hungUp(const UniqueFd& socket) {
  char byte = 0;
  const ssize_t got = ::recv(socket.get(), &byte, 1, MSG_DONTWAIT);
  return got == 0 || (got < 0 && errno == ECONNRESET);
}

TEST(Handshake, ListenerDecidesTheNumberOfSockets) {
  for (const size_t sockets : {size_t{1}, size_t{2}, size_t{7}, kMaxSockets}) {
    const std::unique_ptr<Listener> listener = valueOf(Listener::create(loopback(sockets)));
    const HandleData handle = valueOf(parseHandle(listener->handle()));
    EXPECT_EQ(handle.sockets, sockets);
    Connector connector(loopback(1), handle, Carrier::kStream, Deadline::in(kTestTimeout));
    const Ends ends = meet(*listener, connector);
    for (const size_t size : {size_t{0}, size_t{1}, size_t{100000}, size_t{5000000}}) exchange(ends, size);
  }
}

// A machine with several NICs may route by source address. So the connector must bind its socket to the address of its
// device.
TEST(Handshake, ConnectorBindsItsDevicesAddress) {
  const std::unique_ptr<Listener> listener = valueOf(Listener::create(loopback(1)));
  TcpInterface device = loopback(1);
  sockaddr_in other{};
  other.sin_family = AF_INET;
  other.sin_addr.s_addr = htonl(INADDR_LOOPBACK + 1);
  device.address = {reinterpret_cast<const sockaddr*>(&other), sizeof other};
  Connector connector(device, valueOf(parseHandle(listener->handle())), Carrier::kStream, Deadline::in(kTestTimeout));
  std::vector<UniqueFd> sockets;
  for (const Deadline deadline = Deadline::in(kTestTimeout); sockets.empty() && !deadline.passed();)
    sockets = valueOf(connector.step());
  ASSERT_EQ(sockets.size(), 1U);
  EXPECT_EQ(valueOf(localAddress(sockets[0].get())).text().substr(0, 10), "127.0.0.2:");
  EXPECT_TRUE(isRoutedThrough("lo", device.address, loopback(1).address));
  EXPECT_FALSE(isRoutedThrough("lo0", device.address, loopback(1).address));
}

TEST(Handshake, TwoConnectionsOfOneHandleAreSeparate) {
  const std::unique_ptr<Listener> listener = valueOf(Listener::create(loopback(3)));
  const HandleData handle = valueOf(parseHandle(listener->handle()));
  Connector first(loopback(1), handle, Carrier::kStream, Deadline::in(kTestTimeout));
  Connector second(loopback(1), handle, Carrier::kStream, Deadline::in(kTestTimeout));
  std::unique_ptr<stream::SendComm> one, other;
  for (const Deadline deadline = Deadline::in(kTestTimeout); !(one && other) && !deadline.passed();) {
    if (!one) one = stepOf(first);  // the sockets of the two connections arrive interleaved
    if (!other) other = stepOf(second);
  }
  std::vector<std::unique_ptr<stream::RecvComm>> accepted;
  for (const Deadline deadline = Deadline::in(kTestTimeout); accepted.size() < 2 && !deadline.passed();)
    if (std::unique_ptr<stream::RecvComm> comm = acceptFrom(*listener)) accepted.push_back(std::move(comm));
  ASSERT_EQ(accepted.size(), 2U);
  // The test finds out from the first message which receiver belongs to which sender.
  uint8_t number = 7;
  valueOf(one->test(*valueOf(one->post(&number, 1))));
  std::array<uint8_t, 2> got{};
  std::array<plugin::Request*, 2> requests{valueOf(accepted[0]->post(got.data(), 1)),
                                           valueOf(accepted[1]->post(got.data() + 1, 1))};
  size_t owner = 2;
  for (const Deadline deadline = Deadline::in(kTestTimeout); owner == 2 && !deadline.passed();)
    for (size_t i = 0; i < 2; ++i)
      if (valueOf(accepted[i]->test(*requests[i])).done) owner = i;
  ASSERT_LT(owner, 2U);
  EXPECT_EQ(got[owner], 7);
  EXPECT_EQ(got[1 - owner], 0);
}

TEST(Handshake, MismatchedSocketsAreRejectedWithoutHarm) {
  const std::unique_ptr<Listener> listener = valueOf(Listener::create(loopback(2)));
  const HandleData handle = valueOf(parseHandle(listener->handle()));
  const UniqueFd half = call(handle, encodeHello(handle.token, {.sockets = 2, .index = 0, .connection = 5}));
  const UniqueFd twice = call(handle, encodeHello(handle.token, {.sockets = 2, .index = 0, .connection = 5}));
  const UniqueFd others = call(handle, encodeHello(handle.token, {.sockets = 3, .index = 1, .connection = 5}));
  for (const Deadline deadline = Deadline::in(kTestTimeout); !(hungUp(twice) && hungUp(others)) && !deadline.passed();)
    EXPECT_EQ(acceptFrom(*listener), nullptr);
  EXPECT_TRUE(hungUp(twice));
  EXPECT_TRUE(hungUp(others));
  EXPECT_FALSE(hungUp(half)) << "the other half may arrive";
  Connector connector(loopback(1), handle, Carrier::kStream, Deadline::in(kTestTimeout));
  exchange(meet(*listener, connector), 1000000);
  const UniqueFd rest = call(handle, encodeHello(handle.token, {.sockets = 2, .index = 1, .connection = 5}));
  std::unique_ptr<stream::RecvComm> late;
  for (const Deadline deadline = Deadline::in(std::chrono::seconds(4)); !late && !deadline.passed();)
    late = acceptFrom(*listener);
  EXPECT_TRUE(late);
}

TEST(Handshake, AReplayedHelloIsRejected) {
  const std::unique_ptr<Listener> listener = valueOf(Listener::create(loopback(1)));
  const HandleData handle = valueOf(parseHandle(listener->handle()));
  const HelloBytes overheard = encodeHello(handle.token, {.sockets = 1, .index = 0, .connection = 5});
  const UniqueFd first = call(handle, overheard);
  std::unique_ptr<stream::RecvComm> comm;
  for (const Deadline deadline = Deadline::in(kTestTimeout); !comm && !deadline.passed();) comm = acceptFrom(*listener);
  ASSERT_TRUE(comm);
  const UniqueFd again = call(handle, overheard);
  for (const Deadline deadline = Deadline::in(kTestTimeout); !hungUp(again) && !deadline.passed();)
    EXPECT_EQ(acceptFrom(*listener), nullptr);
  EXPECT_TRUE(hungUp(again));
}

// A verbs connection uses only one socket, even if the listener asks for several sockets for TCP.
TEST(Handshake, AVerbsConnectionUsesOneSocket) {
  const std::unique_ptr<Listener> listener = valueOf(Listener::create(loopback(4)));
  const HandleData handle = valueOf(parseHandle(listener->handle()));
  Connector connector(loopback(4), handle, Carrier::kVerbs, Deadline::in(kTestTimeout));
  std::vector<UniqueFd> ours;
  Listener::AcceptedConnection arrival;
  for (const Deadline deadline = Deadline::in(kTestTimeout); !deadline.passed();) {
    if (ours.empty()) ours = valueOf(connector.step());
    if (arrival.sockets.empty()) arrival = valueOf(listener->accept());
    if (!ours.empty() && !arrival.sockets.empty()) break;
  }
  EXPECT_EQ(ours.size(), 1U);
  EXPECT_EQ(arrival.sockets.size(), 1U);
  EXPECT_EQ(arrival.carrier, Carrier::kVerbs);
  const UniqueFd more =
      call(handle, encodeHello(handle.token, {.sockets = 4, .index = 0, .connection = 5, .carrier = Carrier::kVerbs}));
  for (const Deadline deadline = Deadline::in(kTestTimeout); !hungUp(more) && !deadline.passed();)
    EXPECT_TRUE(valueOf(listener->accept()).sockets.empty());
  EXPECT_TRUE(hungUp(more));
}

TEST(Handshake, KeepaliveFollowsThePeerTimeout) {
  const UniqueFd socket(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
  setOptions(socket.get(), 1, std::chrono::seconds(10));
  const auto option = [&](int level, int name) {
    int value = -1;
    socklen_t length = sizeof value;
    EXPECT_EQ(::getsockopt(socket.get(), level, name, &value, &length), 0);
    return value;
  };
  EXPECT_EQ(option(SOL_SOCKET, SO_KEEPALIVE), 1);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_KEEPIDLE) + option(IPPROTO_TCP, TCP_KEEPCNT) * option(IPPROTO_TCP, TCP_KEEPINTVL),
            10);
  EXPECT_EQ(option(IPPROTO_TCP, TCP_USER_TIMEOUT), 0) << "it ends connections to healthy peers";
}

// A peer with the right token may begin many connections and complete none of them. The listener must keep only a
// bounded number of such connections.
TEST(Handshake, HalfOpenConnectionsAreBounded) {
  const std::unique_ptr<Listener> listener = valueOf(Listener::create(loopback(2)));
  const HandleData handle = valueOf(parseHandle(listener->handle()));
  std::vector<UniqueFd> halves;
  for (uint32_t i = 0; i < 50; ++i)
    halves.push_back(call(handle, encodeHello(handle.token, {.sockets = 2, .index = 0, .connection = i})));
  const auto held = [&] {
    return static_cast<size_t>(std::count_if(halves.begin(), halves.end(), [](const auto& h) { return !hungUp(h); }));
  };
  for (const Deadline deadline = Deadline::in(kTestTimeout); held() > 16 && !deadline.passed();)
    EXPECT_EQ(acceptFrom(*listener), nullptr);
  EXPECT_LE(held(), 16U);
  Connector connector(loopback(1), handle, Carrier::kStream, Deadline::in(kTestTimeout));
  exchange(meet(*listener, connector), 1000);
}

}  // namespace
}  // namespace bps::plugin::tcp
