// Speed: what an 8-byte message takes and what large ones carry. Both sides poll without pause, as NCCL's threads do.
#include <numeric>
#include <thread>

#include "tools/net_plugin_check/flow.h"
#include "tools/net_plugin_check/rules.h"

namespace bps::check {
namespace {

constexpr size_t kPings = 5000, kWarmUp = 200, kInFlight = 8;
constexpr double kSecondsPerSize = 0.25;

// A post that is repeated until it is taken, and a test until it is done.
class Poller {
 public:
  Poller(Side& side, void* comm, bool sends, Piece piece) : side_(side), comm_(comm), sends_(sends), piece_(piece) {}

  Result<bool> post() {
    if (request_ != nullptr) return true;
    Table& table = side_.table();
    const int code = sends_ ? table.isend(comm_, piece_, &request_) : table.irecv(comm_, {&piece_, 1}, &request_);
    if (code != abi::kSuccess) return side_.expect(code, sends_ ? Call::kIsend : Call::kIrecv);
    return request_ != nullptr;
  }
  Result<bool> test() {
    if (!BPS_TRY(post())) return false;
    int done = 0, bytes = 0;
    const int code = side_.table().test(request_, &done, &bytes);
    if (code != abi::kSuccess) return side_.expect(code, Call::kTest);
    if (done != 0) request_ = nullptr;
    return done != 0;
  }
  Status finish() {
    const Deadline deadline = side_.patience();
    for (unsigned rounds = 0; !BPS_TRY(test()); ++rounds) {
      std::this_thread::yield();
      if (rounds % 1024 == 1023 && deadline.passed())
        return failure(Code::kTimeout, "a message is not through in {} s", side_.options().timeoutSeconds);
    }
    return {};
  }

 private:
  Side& side_;
  void* comm_;
  bool sends_;
  Piece piece_;
  void* request_ = nullptr;
};

Result<std::string> latency(Side& side) {
  void* there = BPS_TRY(side.connectOne());
  void* back = BPS_TRY(side.connectBack());
  void *out = side.sends() ? there : back, *in = side.sends() ? back : there;
  Buffer outgoing = BPS_TRY(Buffer::create(side, out, 8)), incoming = BPS_TRY(Buffer::create(side, in, 8));
  Poller send(side, out, true, {outgoing.data(), 8, 0, outgoing.memory()});
  Poller receive(side, in, false, {incoming.data(), 8, 0, incoming.memory()});
  std::vector<int64_t> times;
  for (size_t i = 0; i < kWarmUp + kPings; ++i) {
    const int64_t start = nowNs();
    BPS_TRY(receive.post());
    if (side.sends()) BPS_TRY(send.finish());
    BPS_TRY(receive.finish());
    if (!side.sends()) BPS_TRY(send.finish());
    if (i >= kWarmUp) times.push_back(nowNs() - start);
  }
  BPS_TRY(outgoing.release(side, out));
  BPS_TRY(incoming.release(side, in));
  BPS_TRY(side.closeEnd(out, true));
  BPS_TRY(side.closeEnd(in, false));
  if (!side.sends()) return std::string();
  std::sort(times.begin(), times.end());
  const auto oneWayUs = [&](size_t percent) { return static_cast<double>(times[times.size() * percent / 100]) / 2e3; };
  side.measure("latency_us_median", oneWayUs(50));
  side.measure("latency_us_p99", oneWayUs(99));
  return fmt::format("8 bytes one way: median {:.2f} us, p99 {:.2f} us ({} round trips)", oneWayUs(50), oneWayUs(99),
                     times.size());
}

// `count` messages, kInFlight at a time.
Status pump(Side& side, void* comm, const Buffer& buffer, size_t bytes, size_t count) {
  std::vector<Poller> pollers;
  for (size_t i = 0; i < kInFlight; ++i)
    pollers.emplace_back(side, comm, side.sends(), Piece{buffer.data() + i * bytes, bytes, 0, buffer.memory()});
  size_t posted = 0;
  for (size_t done = 0; done < count; ++done) {
    for (; posted < count && posted < done + kInFlight; ++posted)
      if (!BPS_TRY(pollers[posted % kInFlight].post())) break;
    BPS_TRY(pollers[done % kInFlight].finish());
    posted = std::max(posted, done + 1);
  }
  return {};
}

// Gbit/s at the receiver. A first short run says how many messages fill the time.
Result<double> bandwidthOf(Side& side, void* comm, size_t bytes) {
  Buffer buffer = BPS_TRY(Buffer::create(side, comm, kInFlight * bytes));
  size_t count = std::max<size_t>(2 * kInFlight, (size_t{16} << 20) / bytes);
  double gbps = 0;
  for (int round = 0; round < 2; ++round) {
    BPS_TRY(side.meet());
    const int64_t start = nowNs();
    BPS_TRY(pump(side, comm, buffer, bytes, count));
    const double seconds = static_cast<double>(nowNs() - start) / 1e9;
    gbps = 8e-9 * static_cast<double>(count * bytes) / seconds;
    if (!side.sends()) {
      count = std::max(count, static_cast<size_t>(static_cast<double>(count) * kSecondsPerSize / seconds));
      BPS_TRY(side.tell(WireWriter().put(uint64_t{count}).bytes()));
    } else {
      const Blob told = BPS_TRY(side.hear());
      count = static_cast<size_t>(WireReader(told).get<uint64_t>());
    }
  }
  BPS_TRY(buffer.release(side, comm));
  return gbps;
}

Result<std::string> bandwidth(Side& side) {
  void* comm = BPS_TRY(side.connectOne());
  std::string detail;
  for (const auto& [name, bytes] :
       {std::pair<const char*, size_t>{"64K", size_t{64} << 10}, {"1M", size_t{1} << 20}, {"4M", size_t{4} << 20}}) {
    const double gbps = BPS_TRY(bandwidthOf(side, comm, bytes));
    if (side.sends()) continue;
    side.measure(fmt::format("bandwidth_gbps_{}", name).c_str(), gbps);
    detail += fmt::format("{}{}: {:.1f} Gbit/s", detail.empty() ? "8 in flight: " : ", ", name, gbps);
  }
  BPS_TRY(side.close(comm));
  return detail;
}

constexpr std::array<Rule, 2> kMeasurements{{
    {"latency", "of 8 bytes, one way: half of a round trip", latency, Fate::kBothEnd, true, true},
    {"bandwidth", "of 64K, 1M and 4M messages, 8 in flight", bandwidth, Fate::kBothEnd, true, true},
}};

}  // namespace

std::span<const Rule> measurements() { return kMeasurements; }

}  // namespace bps::check
