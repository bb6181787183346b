#include "tools/net_plugin_check/bench/timing.h"

#include <ctime>

#include "tools/net_plugin_check/bench/poller.h"

namespace bps::check {
namespace {

int64_t cpuNs() {
  timespec now{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &now);
  return int64_t{now.tv_sec} * 1000000000 + now.tv_nsec;
}

struct TimeSpent {
  int64_t wallNs = 0, cpuNs = 0;
};

Result<TimeSpent> runOnce(Side& side, const Load& load, size_t count) {
  BPS_TRY(side.barrier());
  const int64_t start = nowNs(), cpu = cpuNs();
  BPS_TRY(load.run(count));
  return TimeSpent{nowNs() - start, cpuNs() - cpu};
}

// Returns the wall time of the slower side and the sum of both sides' CPU times.
Result<TimeSpent> combineSides(Side& side, const TimeSpent& own) {
  const auto wall = static_cast<uint64_t>(own.wallNs), cpu = static_cast<uint64_t>(own.cpuNs);
  BPS_TRY(side.sendToPeer(WireWriter().put(wall).put(cpu).bytes()));
  const Blob told = BPS_TRY(side.receiveFromPeer());
  WireReader reader(told);
  const auto otherWall = static_cast<int64_t>(reader.get<uint64_t>());
  const auto otherCpu = static_cast<int64_t>(reader.get<uint64_t>());
  return TimeSpent{std::max(own.wallNs, otherWall), own.cpuNs + otherCpu};
}

}  // namespace

Result<Timing> timed(Side& side, const Load& load) {
  size_t count = std::max<size_t>(4, (size_t{16} << 20) / load.bytesEach);
  const TimeSpent alone = BPS_TRY(runOnce(side, load, count));
  const TimeSpent first = BPS_TRY(combineSides(side, alone));
  const double fit = static_cast<double>(count) * load.seconds * 1e9 / static_cast<double>(first.wallNs);
  count = std::max(count, static_cast<size_t>(fit));  // both sides compute the same number
  const TimeSpent own = BPS_TRY(runOnce(side, load, count));
  const TimeSpent spent = BPS_TRY(combineSides(side, own));
  const double bytes = static_cast<double>(count) * static_cast<double>(load.bytesEach);
  return Timing{.gbps = 8 * bytes / static_cast<double>(spent.wallNs),
                .cpuSecondsPerGb = static_cast<double>(spent.cpuNs) / bytes};
}

Result<std::vector<int64_t>> roundTrips(RoundTripCounts counts, const std::function<Status()>& roundTrip) {
  std::vector<int64_t> times;
  for (size_t i = 0; i < counts.warmUp + counts.count; ++i) {
    const int64_t start = nowNs();
    BPS_TRY(roundTrip());
    if (i >= counts.warmUp) times.push_back(nowNs() - start);
  }
  return times;
}

Result<std::vector<int64_t>> pluginRoundTrips(Side& side, RoundTripCounts counts) {
  void* there = BPS_TRY(side.connectOne());
  void* back = BPS_TRY(side.connectBack());
  void *out = side.sends() ? there : back, *in = side.sends() ? back : there;
  Buffer outgoing = BPS_TRY(Buffer::create(side, out, 8)), incoming = BPS_TRY(Buffer::create(side, in, 8));
  Poller send(side, out, true, {outgoing.data(), 8, 0, outgoing.memory()});
  Poller receive(side, in, false, {incoming.data(), 8, 0, incoming.memory()});
  const auto roundTrip = [&]() -> Status {
    BPS_TRY(receive.post());
    if (side.sends()) BPS_TRY(send.finish());
    BPS_TRY(receive.finish());
    return side.sends() ? Status() : send.finish();
  };
  std::vector<int64_t> times = BPS_TRY(roundTrips(counts, roundTrip));
  BPS_TRY(outgoing.release(side, out));
  BPS_TRY(incoming.release(side, in));
  BPS_TRY(side.closeEnd(out, true));
  BPS_TRY(side.closeEnd(in, false));
  return times;
}

}  // namespace bps::check
