// Tests each end of a TCP connection; the test acts as the peer, through a socket. The tests check how an end groups
// bytes into system calls, and how it treats fragmented, invalid or missing input.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <string>

#include "net_plugin/stream/recv_comm.h"
#include "net_plugin/stream/send_comm.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::plugin::stream {
namespace {

using test::randomBytes;
using test::valueOf;

struct Ends {
  explicit Ends(int type) {
    std::array<int, 2> both{-1, -1};
    EXPECT_EQ(::socketpair(AF_UNIX, type | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both.data()), 0);
    ours = UniqueFd(both[0]);
    theirs = UniqueFd(both[1]);
  }
  UniqueFd ours, theirs;
};

std::vector<UniqueFd> one(UniqueFd socket) {
  std::vector<UniqueFd> sockets;
  sockets.push_back(std::move(socket));
  return sockets;
}

std::vector<uint8_t> framed(const std::vector<uint8_t>& payload, uint64_t number) {
  const FrameBytes frame =
      encodeFrame({.number = number, .messageBytes = payload.size(), .offset = 0, .bytes = payload.size()});
  std::vector<uint8_t> all(frame.begin(), frame.begin() + kFrameBytes);
  all.insert(all.end(), payload.begin(), payload.end());
  return all;
}

void append(std::vector<uint8_t>& all, const std::vector<uint8_t>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

void put(int fd, const void* data, size_t bytes) {
  ASSERT_EQ(::send(fd, data, bytes, MSG_NOSIGNAL), static_cast<ssize_t>(bytes));
}

TEST(SendSide, MessagesPostedBeforeATestNeedOneSystemCall) {
  Ends ends(SOCK_SEQPACKET);  // this socket type keeps the boundaries between system calls
  SendComm comm(one(std::move(ends.ours)));
  const std::vector<uint8_t> header = randomBytes(64, 1), payload = randomBytes(5000, 2);
  Request* first = valueOf(comm.post(const_cast<uint8_t*>(header.data()), header.size()));
  Request* second = valueOf(comm.post(const_cast<uint8_t*>(payload.data()), payload.size()));
  std::vector<uint8_t> got(20000);
  EXPECT_LT(::recv(ends.theirs.get(), got.data(), got.size(), 0), 0) << "posting sends nothing yet";
  EXPECT_TRUE(valueOf(comm.test(*first)).done);
  EXPECT_TRUE(valueOf(comm.test(*second)).done);
  const ssize_t bytes = ::recv(ends.theirs.get(), got.data(), got.size(), 0);
  ASSERT_GT(bytes, 0);
  got.resize(static_cast<size_t>(bytes));
  std::vector<uint8_t> expected = framed(header, 0);
  append(expected, framed(payload, 1));
  EXPECT_EQ(got, expected);
  std::array<uint8_t, 1> more{};
  EXPECT_LT(::recv(ends.theirs.get(), more.data(), 1, 0), 0) << "a second system call";
}

TEST(SendSide, ArmSendsToo) {
  Ends ends(SOCK_STREAM);
  SendComm comm(one(std::move(ends.ours)));
  std::array<uint8_t, 3> data{1, 2, 3};
  valueOf(comm.post(data.data(), data.size()));
  EXPECT_TRUE(valueOf(comm.arm())) << "done and not tested yet";
  std::array<uint8_t, 40> got{};
  EXPECT_EQ(::recv(ends.theirs.get(), got.data(), got.size(), 0), kFrameBytes + 3);
}

TEST(SendSide, RequestPoolHoldsAtLeastThirtyTwoThenReturnsNull) {
  Ends ends(SOCK_STREAM);
  SendComm comm(one(std::move(ends.ours)));
  std::array<uint8_t, 1> data{};
  std::vector<Request*> posted;
  while (Request* request = valueOf(comm.post(data.data(), 1))) posted.push_back(request);
  EXPECT_GE(posted.size(), 32U);
  for (Request* request : posted) EXPECT_TRUE(valueOf(comm.test(*request)).done);
  EXPECT_NE(valueOf(comm.post(data.data(), 1)), nullptr);
}

TEST(SendSide, RequestsMayBeTestedInAnyOrder) {
  Ends ends(SOCK_STREAM);
  SendComm comm(one(std::move(ends.ours)));
  std::array<uint8_t, 1> data{};
  Request* first = valueOf(comm.post(data.data(), 1));
  Request* second = valueOf(comm.post(data.data(), 0));
  EXPECT_TRUE(valueOf(comm.test(*second)).done);
  EXPECT_EQ(valueOf(comm.test(*first)).bytes, 1U);
}

TEST(Requests, HandleOfARetiredRequestIsInvalid) {
  Ends ends(SOCK_STREAM);
  SendComm comm(one(std::move(ends.ours)));
  std::array<uint8_t, 1> data{};
  std::vector<void*> dead;
  for (size_t i = 0; i < 3 * RequestRing::kCapacity; ++i) {
    Request* request = valueOf(comm.post(data.data(), 1));
    EXPECT_EQ(Request::fromHandle(request->handle()), request);
    for (void* handle : dead) ASSERT_EQ(Request::fromHandle(handle), nullptr) << "another request is in its place";
    dead.push_back(request->handle());
    EXPECT_TRUE(valueOf(comm.test(*request)).done);
    for (void* handle : dead) ASSERT_EQ(Request::fromHandle(handle), nullptr);
  }
  EXPECT_EQ(Request::fromHandle(nullptr), nullptr);
}

TEST(ReceiveSide, SmallMessagesArriveByteByByte) {
  Ends ends(SOCK_STREAM);
  RecvComm comm(one(std::move(ends.ours)));
  std::vector<uint8_t> stream;
  std::vector<std::vector<uint8_t>> messages;
  for (unsigned i = 0; i < 20; ++i) {
    messages.push_back(randomBytes(i * 7 % 23, i));
    append(stream, framed(messages.back(), i));
  }
  std::vector<uint8_t> room(64);
  Request* request = valueOf(comm.post(room.data(), room.size()));
  size_t complete = 0;
  for (const uint8_t byte : stream) {
    put(ends.theirs.get(), &byte, 1);
    const Completion completion = valueOf(comm.test(*request));
    if (!completion.done) continue;
    ASSERT_EQ(std::vector<uint8_t>(room.begin(), room.begin() + static_cast<std::ptrdiff_t>(completion.bytes)),
              messages[complete]);
    ++complete;
    request = valueOf(comm.post(room.data(), room.size()));
  }
  EXPECT_EQ(complete, messages.size());
}

TEST(ReceiveSide, DataThatArrivesBeforeThePostIsReceived) {
  Ends ends(SOCK_STREAM);
  RecvComm comm(one(std::move(ends.ours)));
  std::vector<uint8_t> stream;
  for (unsigned i = 0; i < 8; ++i) append(stream, framed(randomBytes(100, i), i));
  put(ends.theirs.get(), stream.data(), stream.size());
  for (unsigned i = 0; i < 8; ++i) {
    std::vector<uint8_t> room(100);
    Request* request = valueOf(comm.post(room.data(), room.size()));
    // The first test() reads all messages into the read-ahead buffer. After this read, the socket would not wake a
    // sleeping thread, so arm() must return true.
    EXPECT_EQ(valueOf(comm.arm()), i > 0) << i;
    EXPECT_TRUE(valueOf(comm.test(*request)).done);
    EXPECT_EQ(room, randomBytes(100, i));
  }
}

std::string whyItFails(const std::vector<uint8_t>& stream, size_t room, bool hangUp) {
  Ends ends(SOCK_STREAM);
  RecvComm comm(one(std::move(ends.ours)));
  put(ends.theirs.get(), stream.data(), stream.size());
  if (hangUp) ends.theirs.reset();
  std::vector<uint8_t> buffer(room);
  Request* request = valueOf(comm.post(buffer.data(), room));
  for (int i = 0; i < 3; ++i) {
    Result<Completion> completion = comm.test(*request);
    if (!completion.ok()) return completion.error().message();
    if (std::move(completion).value().done) return "done";
  }
  return "pending";
}

// If a read has drained the socket, the next test() must not read again at once. A receiver that takes messages one by
// one would otherwise make a useless system call after the last message.
TEST(ReceiveSide, DrainedSocketIsNotReadAgainAtOnce) {
  Ends ends(SOCK_STREAM);
  RecvComm comm(one(std::move(ends.ours)));
  std::array<std::array<uint8_t, 8>, 3> rooms{};
  std::vector<Request*> posted;
  for (auto& room : rooms) posted.push_back(valueOf(comm.post(room.data(), room.size())));
  std::vector<uint8_t> stream;
  for (unsigned i = 0; i < 2; ++i) append(stream, framed(randomBytes(8, i), i));
  put(ends.theirs.get(), stream.data(), stream.size());
  EXPECT_TRUE(valueOf(comm.test(*posted[0])).done);
  const std::vector<uint8_t> last = framed(randomBytes(8, 2), 2);
  put(ends.theirs.get(), last.data(), last.size());
  EXPECT_TRUE(valueOf(comm.test(*posted[1])).done);
  EXPECT_FALSE(valueOf(comm.test(*posted[2])).done) << "the socket is read once more";
  EXPECT_TRUE(valueOf(comm.test(*posted[2])).done);
}

TEST(ReceiveSide, OversizeMessageErrorNamesBothSizes) {
  const std::string why = whyItFails(framed(randomBytes(101, 1), 0), 100, false);
  EXPECT_NE(why.find("101 bytes"), std::string::npos) << why;
  EXPECT_NE(why.find("100 bytes"), std::string::npos) << why;
}

TEST(ReceiveSide, CorruptStreamIsAnError) {
  EXPECT_NE(whyItFails(framed({1, 2, 3}, 1), 100, false).find("corrupt"), std::string::npos) << "wrong number";
  EXPECT_NE(whyItFails(std::vector<uint8_t>(kSliceFrameBytes, 0xff), 100, false).find("corrupt"), std::string::npos);
  EXPECT_EQ(whyItFails({1, 2, 3}, 100, false), "pending");
}

TEST(ReceiveSide, HangUpIsReportedAfterTheData) {
  std::vector<uint8_t> stream = framed({1, 2, 3}, 0);
  EXPECT_EQ(whyItFails(stream, 100, true), "done");
  stream.pop_back();
  EXPECT_NE(whyItFails(stream, 100, true).find("in the middle of message 0"), std::string::npos);
  EXPECT_NE(whyItFails({}, 100, true).find("closed the connection"), std::string::npos);
}

TEST(ReceiveSide, CompleteMessagesAreReportedAfterAFailure) {
  Ends ends(SOCK_STREAM);
  RecvComm comm(one(std::move(ends.ours)));
  std::vector<uint8_t> stream = framed({1}, 0);
  append(stream, framed({2}, 1));
  put(ends.theirs.get(), stream.data(), stream.size());
  ends.theirs.reset();
  std::array<std::array<uint8_t, 1>, 3> room{};
  std::array<Request*, 3> requests{};
  for (size_t i = 0; i < 3; ++i) requests[i] = valueOf(comm.post(room[i].data(), 1));
  while (comm.test(*requests[2]).ok()) continue;
  EXPECT_TRUE(valueOf(comm.arm())) << "there is something to test";
  EXPECT_TRUE(valueOf(comm.test(*requests[0])).done);
  EXPECT_TRUE(valueOf(comm.test(*requests[1])).done);
  EXPECT_FALSE(comm.test(*requests[2]).ok()) << "and the failure stays";
  EXPECT_FALSE(comm.post(room[0].data(), 1).ok());
}

}  // namespace
}  // namespace bps::plugin::stream
