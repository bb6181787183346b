// Tests a connection that uses several sockets. Messages must arrive complete and in order, although the sockets may
// deliver their slices in any order. If one socket closes, the whole connection must end.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>
#include <random>
#include <string>

#include "net_plugin/stream/recv_comm.h"
#include "net_plugin/stream/send_comm.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::plugin::stream {
namespace {

using test::kTestTimeout;
using test::randomBytes;
using test::valueOf;
using Bytes = std::vector<uint8_t>;

struct Bundle {
  explicit Bundle(size_t count) {
    for (size_t i = 0; i < count; ++i) {
      std::array<int, 2> both{-1, -1};
      EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both.data()), 0);
      ours.emplace_back(both[0]);
      theirs.emplace_back(both[1]);
    }
  }
  std::vector<UniqueFd> ours, theirs;
};

void put(const UniqueFd& socket, const Slice& slice, const Bytes& message) {
  const FrameBytes frame = encodeFrame(slice);
  Bytes all(frame.begin(), frame.begin() + static_cast<std::ptrdiff_t>(frameBytesOf(slice)));
  all.insert(all.end(), message.begin() + static_cast<std::ptrdiff_t>(slice.offset),
             message.begin() + static_cast<std::ptrdiff_t>(slice.offset + slice.bytes));
  ASSERT_EQ(::send(socket.get(), all.data(), all.size(), MSG_NOSIGNAL), static_cast<ssize_t>(all.size()));
}

// Forwards bytes from the sockets of one bundle to the sockets of another bundle, at a separate rate for each socket.
class Network {
 public:
  Network(Bundle& from, Bundle& to, std::vector<size_t> pieces)
      : from_(from), to_(to), pieces_(std::move(pieces)), passed_(pieces_.size()) {}
  void step() {
    for (size_t i = 0; i < pieces_.size(); ++i) {
      Bytes& rest = waiting(i);
      if (rest.empty()) {
        rest.resize(pieces_[i]);
        const ssize_t got = ::recv(from_.theirs[i].get(), rest.data(), rest.size(), 0);
        rest.resize(got > 0 ? static_cast<size_t>(got) : 0);
      }
      const ssize_t sent = ::send(to_.theirs[i].get(), rest.data(), rest.size(), MSG_NOSIGNAL);
      if (sent <= 0) continue;
      passed_[i] += static_cast<size_t>(sent);
      rest.erase(rest.begin(), rest.begin() + sent);
    }
  }
  size_t passed(size_t index) const { return passed_[index]; }

 private:
  Bytes& waiting(size_t index) {
    waiting_.resize(pieces_.size());
    return waiting_[index];
  }
  Bundle &from_, &to_;
  std::vector<size_t> pieces_, passed_;
  std::vector<Bytes> waiting_;
};

// Sends all messages from the sender to the receiver in order. At most `window` messages are in flight at a time.
void exchange(SendComm& sender, RecvComm& receiver, Network& network, const std::vector<Bytes>& messages,
              size_t window) {
  std::vector<Bytes> rooms(messages.size());
  std::vector<Request*> sends, receives;
  size_t sent = 0, received = 0;
  const Deadline deadline = Deadline::in(kTestTimeout);
  while ((sent < messages.size() || received < messages.size()) && !deadline.passed()) {
    while (sends.size() < messages.size() && sends.size() < sent + window)
      sends.push_back(
          valueOf(sender.post(const_cast<uint8_t*>(messages[sends.size()].data()), messages[sends.size()].size())));
    while (receives.size() < messages.size() && receives.size() < received + window) {
      rooms[receives.size()].resize(messages[receives.size()].size() + 3);
      receives.push_back(valueOf(receiver.post(rooms[receives.size()].data(), rooms[receives.size()].size())));
    }
    if (sent < sends.size() && valueOf(sender.test(*sends[sent])).done) ++sent;
    network.step();
    if (received == receives.size()) continue;
    const Completion completion = valueOf(receiver.test(*receives[received]));
    if (!completion.done) continue;
    ASSERT_EQ(completion.bytes, messages[received].size()) << "message " << received;
    rooms[received].resize(completion.bytes);
    ASSERT_EQ(rooms[received], messages[received]) << "message " << received;
    ++received;
  }
  EXPECT_EQ(sent, messages.size());
  EXPECT_EQ(received, messages.size());
}

TEST(SeveralSockets, SlicesCoverTheMessage) {
  for (const size_t sockets : {1, 2, 3, 8, 64})
    for (const size_t bytes : {0, 1, 65536, 65537, 1 << 20, 123456789}) {
      const size_t slice = sliceBytesOf(bytes, sockets);
      EXPECT_EQ(slice == bytes, sockets == 1 || bytes <= 65536) << bytes << " over " << sockets;
      EXPECT_TRUE(slice > 0 || bytes == 0);
    }
}

TEST(SeveralSockets, MessagesOfAnySizeArriveInOrder) {
  std::minstd_rand random(3);
  for (const size_t count : {size_t{2}, size_t{4}, size_t{7}}) {
    Bundle from(count), to(count);
    std::vector<size_t> pieces;
    for (size_t i = 0; i < count; ++i) pieces.push_back(1 + random() % 100000);
    Network network(from, to, pieces);
    SendComm sender(std::move(from.ours));
    RecvComm receiver(std::move(to.ours));
    std::vector<Bytes> messages;
    for (unsigned i = 0; i < 150; ++i)
      messages.push_back(randomBytes(i % 10 == 3 ? 0 : i % 4 == 0 ? random() % 600000 : random() % 3000, i));
    exchange(sender, receiver, network, messages, 32);
  }
}

TEST(SeveralSockets, SlowSocketCarriesFewerBytes) {
  Bundle from(3), to(3);
  Network network(from, to, {size_t{64} << 10, size_t{64} << 10, 4096});
  SendComm sender(std::move(from.ours));
  RecvComm receiver(std::move(to.ours));
  std::vector<Bytes> messages;
  for (unsigned i = 0; i < 12; ++i) messages.push_back(randomBytes(size_t{3} << 20, i));
  exchange(sender, receiver, network, messages, 4);
  EXPECT_LT(4 * network.passed(2), network.passed(0));
  EXPECT_LT(4 * network.passed(2), network.passed(1));
}

TEST(SeveralSockets, SmallMessagesAreNotCutAndNeedOneSystemCall) {
  Bundle bundle(3);
  SendComm sender(std::move(bundle.ours));
  std::array<uint8_t, 100> data{};
  Request* last = nullptr;
  for (int i = 0; i < 10; ++i) last = valueOf(sender.post(data.data(), data.size()));
  EXPECT_TRUE(valueOf(sender.test(*last)).done);
  Bytes got(5000);
  EXPECT_EQ(::recv(bundle.theirs[0].get(), got.data(), got.size(), 0), 10 * (100 + static_cast<ssize_t>(kFrameBytes)));
  EXPECT_LT(::recv(bundle.theirs[1].get(), got.data(), got.size(), 0), 0);
  EXPECT_LT(::recv(bundle.theirs[2].get(), got.data(), got.size(), 0), 0);
}

// Message 1 arrives before the second half of message 0, which comes on another socket. Message 0 must still complete
// first.
TEST(SeveralSockets, MessagesCompleteInPostingOrder) {
  Bundle bundle(3);
  RecvComm receiver(std::move(bundle.ours));
  const Bytes first = randomBytes(1000, 1), second = randomBytes(10, 2);
  Bytes firstRoom(1000), secondRoom(1000);
  Request* one = valueOf(receiver.post(firstRoom.data(), firstRoom.size()));
  Request* two = valueOf(receiver.post(secondRoom.data(), secondRoom.size()));
  put(bundle.theirs[2], {1, 10, 0, 10}, second);
  put(bundle.theirs[0], {0, 1000, 600, 400}, first);
  EXPECT_FALSE(valueOf(receiver.test(*two)).done);
  EXPECT_FALSE(valueOf(receiver.test(*one)).done);
  put(bundle.theirs[1], {0, 1000, 0, 600}, first);
  EXPECT_EQ(valueOf(receiver.test(*two)).bytes, 10U);
  EXPECT_EQ(valueOf(receiver.test(*one)).bytes, 1000U);
  EXPECT_EQ(firstRoom, first);
}

std::string outcome(RecvComm& receiver, Request& request) {
  for (const Deadline deadline = Deadline::in(kTestTimeout); !deadline.passed();) {
    Result<Completion> completion = receiver.test(request);
    if (!completion.ok()) return completion.error().message();
    if (std::move(completion).value().done) return "done";
  }
  return "pending";
}

// A socket may be any number of messages ahead of the other sockets. A slice must wait until the receive for the
// slice's message is posted.
TEST(SeveralSockets, ASliceWaitsForItsReceive) {
  Bundle bundle(2);
  RecvComm receiver(std::move(bundle.ours));
  const Bytes late = randomBytes(500, 1);
  put(bundle.theirs[1], {200, 500, 0, 500}, late);
  Bytes room(500);
  for (uint64_t number = 0; number < 200; ++number) {
    put(bundle.theirs[0], {number, 0, 0, 0}, {});
    Request* request = valueOf(receiver.post(room.data(), room.size()));
    EXPECT_TRUE(valueOf(receiver.test(*request)).done) << number;
  }
  Request* request = valueOf(receiver.post(room.data(), room.size()));
  EXPECT_EQ(outcome(receiver, *request), "done");
  EXPECT_EQ(room, late);
}

TEST(SeveralSockets, SlicesThatDoNotFitAreAnError) {
  const Bytes data(2000);
  const std::vector<std::pair<Slice, Slice>> wrong{
      {{0, 1000, 0, 600}, {0, 1001, 600, 400}},  // another size
      {{0, 1000, 0, 600}, {0, 1000, 500, 500}},  // overlapping bytes
      {{0, 1000, 0, 1000}, {0, 1000, 0, 1}},     // slice of a complete message
      {{0, 0, 0, 0}, {0, 0, 0, 0}},
      {{0, 1000, 0, 500}, {1, 1001, 0, 1}},  // message larger than the receive buffer
  };
  for (const auto& [first, second] : wrong) {
    Bundle bundle(2);
    RecvComm receiver(std::move(bundle.ours));
    Bytes rooms(2000);
    valueOf(receiver.post(rooms.data(), 1000));
    Request* request = valueOf(receiver.post(rooms.data() + 1000, 1000));
    put(bundle.theirs[0], first, data);
    put(bundle.theirs[1], second, data);
    const std::string why = outcome(receiver, *request);
    EXPECT_TRUE(why.find("corrupt") != std::string::npos || why.find("1001 bytes into") != std::string::npos) << why;
  }
}

TEST(SeveralSockets, DataInFlightArrivesAfterTheSenderCloses) {
  Bundle bundle(3);
  RecvComm receiver(std::move(bundle.ours));
  const Bytes message = randomBytes(1000, 1);
  Bytes room(1000);
  Request* request = valueOf(receiver.post(room.data(), room.size()));
  bundle.theirs[0].reset();  // the receiver sees this socket close before other sockets deliver data
  EXPECT_FALSE(valueOf(receiver.test(*request)).done);
  put(bundle.theirs[1], {0, 1000, 0, 600}, message);
  bundle.theirs[1].reset();
  EXPECT_FALSE(valueOf(receiver.test(*request)).done);
  put(bundle.theirs[2], {0, 1000, 600, 400}, message);
  bundle.theirs[2].reset();
  EXPECT_EQ(outcome(receiver, *request), "done");
  EXPECT_EQ(room, message);
  request = valueOf(receiver.post(room.data(), room.size()));
  EXPECT_NE(outcome(receiver, *request).find("closed the connection"), std::string::npos);
}

// One socket closes inside a slice, or between two slices while the other sockets are silent. In both cases the
// connection must fail instead of hanging.
TEST(SeveralSockets, ClosedSocketEndsTheConnection) {
  const Bytes message = randomBytes(1000, 1);
  for (const bool inside : {true, false}) {
    Bundle bundle(2);
    RecvComm receiver(std::move(bundle.ours));
    Bytes room(1000);
    Request* request = valueOf(receiver.post(room.data(), room.size()));
    put(bundle.theirs[0], {0, 1000, 0, 600}, message);
    if (inside) {
      const FrameBytes frame = encodeFrame({0, 1000, 600, 400});
      ASSERT_EQ(::send(bundle.theirs[1].get(), frame.data(), frame.size(), 0), static_cast<ssize_t>(kSliceFrameBytes));
    }
    bundle.theirs[1].reset();
    EXPECT_NE(outcome(receiver, *request).find("in the middle of message 0"), std::string::npos);
  }
}

TEST(SeveralSockets, SendDetectsAClosedSocket) {
  Bundle bundle(2);
  SendComm sender(std::move(bundle.ours));
  bundle.theirs[1].reset();
  Bytes data(size_t{4} << 20);
  Request* request = valueOf(sender.post(data.data(), data.size()));
  Result<Completion> outcome = sender.test(*request);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Code::kRemote);
}

TEST(SeveralSockets, ClosedSocketEndsAnIdleConnectionAndASleep) {
  for (const bool sends : {true, false}) {
    Bundle bundle(3);
    std::unique_ptr<SocketComm> comm;
    if (sends) comm = std::make_unique<SendComm>(std::move(bundle.ours));
    else comm = std::make_unique<RecvComm>(std::move(bundle.ours));
    EXPECT_FALSE(valueOf(comm->arm()));
    bundle.theirs.clear();
    size_t rounds = 0;
    for (; rounds < 100; ++rounds) {
      if (!comm->arm().ok()) break;
      pollfd state{.fd = valueOf(comm->waitFd()), .events = POLLIN, .revents = 0};
      ASSERT_GT(::poll(&state, 1, 5000), 0) << "it sleeps although the peer is dead";
    }
    EXPECT_LT(rounds, 100U);
  }
}

TEST(SeveralSockets, AnySocketWakesASleeper) {
  Bundle bundle(3);
  RecvComm receiver(std::move(bundle.ours));
  Bytes room(100);
  Request* request = valueOf(receiver.post(room.data(), room.size()));
  EXPECT_FALSE(valueOf(receiver.arm()));
  pollfd state{.fd = valueOf(receiver.waitFd()), .events = POLLIN, .revents = 0};
  EXPECT_EQ(::poll(&state, 1, 0), 0);
  put(bundle.theirs[2], {0, 100, 0, 100}, Bytes(100));
  EXPECT_EQ(::poll(&state, 1, 5000), 1);
  EXPECT_TRUE(valueOf(receiver.test(*request)).done);
}

}  // namespace
}  // namespace bps::plugin::stream
