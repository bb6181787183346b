// Tests AckWatch, which decides whether the peer of a TCP socket is gone. The decision depends on the acknowledgement
// state that the kernel keeps for the socket.
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <array>

#include "net_plugin/stream/ack_watch.h"
#include "src/base/io/fd.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::plugin::stream {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
constexpr PeerTimeout kPeerTimeout{10000};
const AckWatch::TimePoint kStart{std::chrono::hours(1)};

// Calls isPeerGone() for every second of `span`, in simulated time. Returns true if a call finds that the peer is gone.
bool goneWithin(AckWatch& watch, seconds span, const AckState& state, AckWatch::TimePoint from = kStart) {
  for (seconds at(0); at <= span; at += seconds(1))
    if (watch.isPeerGone(state, from + at, kPeerTimeout)) return true;
  return false;
}

TEST(AckWatch, BytesUnacknowledgedForTheTimeoutMeanPeerGone) {
  AckWatch watch;
  const AckState unanswered{.acked = 100, .inFlight = true};
  EXPECT_FALSE(goneWithin(watch, seconds(9), unanswered));
  EXPECT_TRUE(watch.isPeerGone(unanswered, kStart + seconds(10), kPeerTimeout));
}

// If the network fails in one direction only, data from the peer still arrives, but repeats old acknowledgements.
TEST(AckWatch, DuplicateAcksDoNotResetTheTimeout) {
  AckWatch watch;
  EXPECT_TRUE(goneWithin(watch, seconds(10), {.acked = 100, .inFlight = true, .sinceLastAck = milliseconds(5)}));
}

TEST(AckWatch, EveryNewAckResetsTheTimeout) {
  AckWatch watch;
  for (int i = 0; i < 100; ++i)
    ASSERT_FALSE(watch.isPeerGone({.acked = 100U + static_cast<uint64_t>(i) / 9, .inFlight = true},
                                  kStart + i * seconds(1), kPeerTimeout))
        << i;
}

TEST(AckWatch, NothingInFlightNeverMeansPeerGone) {
  AckWatch watch;
  EXPECT_FALSE(goneWithin(watch, seconds(100), {.acked = 100, .sinceLastAck = seconds(3600)}));
  EXPECT_FALSE(watch.isPeerGone({.acked = 100, .inFlight = true}, kStart + seconds(101), kPeerTimeout))
      << "the timeout begins when the bytes are sent";
}

// If the peer does not read, its receive window closes. The peer is not gone while its kernel answers window probes.
TEST(AckWatch, ClosedWindowIsNoFailureWhileProbesAreAnswered) {
  AckWatch watch;
  EXPECT_FALSE(
      goneWithin(watch, seconds(3600), {.acked = 100, .room = false, .probes = 1, .sinceLastAck = seconds(60)}));
  EXPECT_FALSE(goneWithin(watch, seconds(3600), {.acked = 100, .inFlight = true, .room = false}));
  EXPECT_FALSE(watch.isPeerGone({.acked = 100, .room = false, .probes = 2, .sinceLastAck = milliseconds(9999)}, kStart,
                                kPeerTimeout));
  EXPECT_TRUE(watch.isPeerGone({.acked = 100, .room = false, .probes = 2, .sinceLastAck = milliseconds(10000)}, kStart,
                               kPeerTimeout));
}

TEST(AckWatch, NonTcpSocketNeverTimesOut) {
  std::array<int, 2> both{-1, -1};
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, both.data()), 0);
  const UniqueFd ours(both[0]), theirs(both[1]);
  const AckState state = readAckState(ours.get());
  EXPECT_FALSE(state.inFlight);
  EXPECT_EQ(state.probes, 0U);
}

}  // namespace
}  // namespace bps::plugin::stream
