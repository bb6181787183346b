// The measurements of --bench: those of the plugin and those of the plain transports.
#include <sys/socket.h>

#include <cerrno>
#include <thread>

#include "tools/net_plugin_check/bench/bench.h"
#include "tools/net_plugin_check/bench/pipelined_transfer.h"
#include "tools/net_plugin_check/bench/plain_memory.h"
#include "tools/net_plugin_check/bench/plain_socket.h"
#include "tools/net_plugin_check/bench/timing.h"

namespace bps::check {
namespace {

std::string report(Side& side, const Timing& timing) {
  if (side.sends()) return {};
  side.measure("gbps", timing.gbps);
  side.measure("cpu_s_per_gb", timing.cpuSecondsPerGb);
  return fmt::format("{:.2f} Gbit/s", timing.gbps);
}

std::string report(Side& side, std::vector<int64_t> times) {
  if (!side.sends()) return {};
  std::nth_element(times.begin(), times.begin() + static_cast<std::ptrdiff_t>(times.size() / 2), times.end());
  side.measure("round_trip_us", static_cast<double>(times[times.size() / 2]) / 1e3);
  return {};
}

bool sleeps(const Side& side) { return side.options().against == "tcp"; }

Load loadOf(Side& side, size_t directions, std::function<Status(size_t)> run) {
  return {.bytesEach = directions * side.options().benchBytes,
          .seconds = side.options().benchSeconds,
          .run = std::move(run)};
}

// Measures the plugin with one connection. If `bothWays` is true, a second connection carries the
// same load in the opposite direction at the same time.
Result<std::string> plugin(Side& side, bool bothWays) {
  const size_t bytes = side.options().benchBytes;
  void* there = BPS_TRY(side.connectOne());
  void* back = bothWays ? BPS_TRY(side.connectBack()) : nullptr;
  Buffer first = BPS_TRY(Buffer::create(side, there, PipelinedTransfer::kInFlight * bytes));
  PipelinedTransfer forth(side, there, side.sends(), first, bytes);
  std::vector<PipelinedTransfer*> transfers{&forth};
  std::optional<Buffer> second;
  std::optional<PipelinedTransfer> other;
  if (bothWays) {
    second = BPS_TRY(Buffer::create(side, back, PipelinedTransfer::kInFlight * bytes));
    transfers.push_back(&other.emplace(side, back, !side.sends(), *second, bytes));
  }
  const auto run = [&](size_t count) -> Status {
    for (PipelinedTransfer* transfer : transfers) transfer->start(count);
    return drive(side, transfers, Idle(side, sleeps(side)));
  };
  const Timing timing = BPS_TRY(timed(side, loadOf(side, transfers.size(), run)));
  BPS_TRY(first.release(side, there));
  if (bothWays) BPS_TRY(second->release(side, back));
  BPS_TRY(side.close(there));
  if (bothWays) BPS_TRY(side.closeEnd(back, !side.sends()));
  return report(side, timing);
}

Result<std::string> sockets(Side& side, bool bothWays) {
  const size_t bytes = side.options().benchBytes;
  const size_t count = side.options().plainSockets, directions = bothWays ? 2 : 1;
  const std::vector<UniqueFd> all = BPS_TRY(plainSockets(side, count * directions));
  std::vector<uint8_t> memory(directions * PipelinedTransfer::kInFlight * bytes, 1);
  std::vector<PlainStream> made;
  for (size_t i = 0; i < directions; ++i)
    made.emplace_back(
        std::span(all).subspan(i * count, count), side.sends() == (i == 0),
        std::span(memory).subspan(i * PipelinedTransfer::kInFlight * bytes, PipelinedTransfer::kInFlight * bytes),
        bytes);
  std::vector<PlainStream*> streams;
  streams.reserve(made.size());
  for (PlainStream& stream : made) streams.push_back(&stream);
  const auto run = [&](size_t messages) -> Status {
    for (PlainStream* stream : streams) stream->start(messages * bytes);
    return drivePlain(side, streams);
  };
  return report(side, BPS_TRY(timed(side, loadOf(side, directions, run))));
}

Result<std::string> memory(Side& side) {
  const size_t bytes = side.options().benchBytes;
  PlainMemory shared = BPS_TRY(PlainMemory::create(side, bytes));
  std::vector<uint8_t> own(PipelinedTransfer::kInFlight * bytes, 1);
  const auto run = [&](size_t count) -> Status {
    for (size_t i = 0; i < count; ++i) {
      uint8_t* at = own.data() + i % PipelinedTransfer::kInFlight * bytes;
      BPS_TRY(shared.waitForToken(side, side.sends() ? 0 : 1));
      if (side.sends()) std::memcpy(shared.data(), at, bytes);
      else std::memcpy(at, shared.data(), bytes);
      shared.passToken(side.sends() ? 1 : 0);
    }
    return {};
  };
  return report(side, BPS_TRY(timed(side, loadOf(side, 1, run))));
}

Result<std::string> pluginRoundTrip(Side& side) {
  return report(side, BPS_TRY(pluginRoundTrips(side, roundTripCountsFor(side.options().benchSeconds))));
}
Result<std::string> pluginOneWay(Side& side) { return plugin(side, false); }
Result<std::string> pluginBothWays(Side& side) { return plugin(side, true); }
Result<std::string> socketOneWay(Side& side) { return sockets(side, false); }
Result<std::string> socketBothWays(Side& side) { return sockets(side, true); }

// Polls the socket until 8 bytes have arrived. The plugin's round trip polls in the same way.
Status receivePing(Side& side, int fd) {
  std::array<uint8_t, 8> bytes{};
  const Deadline deadline = side.makeDeadline();
  for (size_t got = 0, rounds = 1; got < bytes.size(); ++rounds) {
    const ssize_t more = ::recv(fd, bytes.data() + got, bytes.size() - got, MSG_DONTWAIT);
    if (more > 0) got += static_cast<size_t>(more);
    else if (more == 0 || errno != EAGAIN) return {Code::kRemote, "the plain connection has ended"};
    else std::this_thread::yield();
    if (rounds % 1024 == 0 && deadline.passed()) return {Code::kTimeout, "the plain sockets make no progress"};
  }
  return {};
}

Result<std::string> socketRoundTrip(Side& side) {
  const std::vector<UniqueFd> all = BPS_TRY(plainSockets(side, 2));
  const int out = all[side.sends() ? 0 : 1].get(), in = all[side.sends() ? 1 : 0].get();
  const auto roundTrip = [&]() -> Status {
    const std::array<uint8_t, 8> bytes{};
    if (!side.sends()) BPS_TRY(receivePing(side, in));
    if (::send(out, bytes.data(), bytes.size(), MSG_NOSIGNAL) != 8)
      return {Code::kRemote, "the plain connection has ended"};
    return side.sends() ? receivePing(side, in) : Status();
  };
  return report(side, BPS_TRY(roundTrips(roundTripCountsFor(side.options().benchSeconds), roundTrip)));
}

Result<std::string> memoryRoundTrip(Side& side) {
  PlainMemory shared = BPS_TRY(PlainMemory::create(side, 8));
  uint64_t own = 0;
  const auto roundTrip = [&]() -> Status {
    if (side.sends()) {
      std::memcpy(shared.data(), &own, sizeof own);
      shared.passToken(1);
    }
    BPS_TRY(shared.waitForToken(side, side.sends() ? 0 : 1));
    std::memcpy(&own, shared.data(), sizeof own);
    if (!side.sends()) shared.passToken(0);
    return {};
  };
  return report(side, BPS_TRY(roundTrips(roundTripCountsFor(side.options().benchSeconds), roundTrip)));
}

constexpr Rule measure(const char* name, Result<std::string> (*body)(Side&)) {
  return {name, "", body, Scenario::kBothClose, true, true};
}
constexpr Rule kOursRoundTrip = measure("round-trip", pluginRoundTrip), kOursOneWay = measure("one-way", pluginOneWay),
               kOursBothWays = measure("both-ways", pluginBothWays);
constexpr Rule kSocketRoundTrip = measure("socket-round-trip", socketRoundTrip),
               kSocketOneWay = measure("socket-one-way", socketOneWay),
               kSocketBothWays = measure("socket-both-ways", socketBothWays);
constexpr Rule kMemoryRoundTrip = measure("memory-round-trip", memoryRoundTrip),
               kMemoryOneWay = measure("memory-one-way", memory);

constexpr std::array<Comparison, 5> kSockets{{
    {"round trip of 8 bytes, us", "round_trip_us", &kOursRoundTrip, &kSocketRoundTrip},
    {"one way, Gbit/s", "gbps", &kOursOneWay, &kSocketOneWay},
    {"one way, CPU s per GB", "cpu_s_per_gb", &kOursOneWay, &kSocketOneWay},
    {"both ways, Gbit/s", "gbps", &kOursBothWays, &kSocketBothWays},
    {"both ways, CPU s per GB", "cpu_s_per_gb", &kOursBothWays, &kSocketBothWays},
}};
constexpr std::array<Comparison, 2> kMemory{{
    {"round trip of 8 bytes, us", "round_trip_us", &kOursRoundTrip, &kMemoryRoundTrip},
    {"one way, Gbit/s", "gbps", &kOursOneWay, &kMemoryOneWay},
}};

}  // namespace

std::span<const Comparison> comparisons(const std::string& against) {
  if (against == "memory") return kMemory;
  return kSockets;
}

}  // namespace bps::check
