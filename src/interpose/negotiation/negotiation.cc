#include "src/interpose/negotiation/negotiation.h"

#include <algorithm>
#include <functional>
#include <mutex>

#include "bps/bps_ext.h"
#include "src/base/format.h"
#include "src/base/io/wire_io.h"
#include "src/base/log.h"
#include "src/interpose/negotiation/capabilities.h"
#include "src/interpose/negotiation/nccl_exchange.h"
#include "src/interpose/negotiation/scratch_memory.h"
#include "src/interpose/preload_config.h"
#include "src/nccl/group_formation.h"
#include "src/nccl/real_nccl.h"

namespace bps::interpose {
namespace {

Result<cuda::Device*> openDevice(int ordinal) {
  const cuda::Api* driver = BPS_TRY(cuda::driver());
  return cuda::Device::open(*driver, ordinal);
}

// Returns the reason why bps cannot serve calls of this rank. Empty if it can.
std::string cannotServeReason(int ordinal) {
  if (!preloadConfig().envError.ok()) return preloadConfig().envError.message();
  if (buffersAreOnHost()) return {};
  Result<cuda::Device*> device = openDevice(ordinal);
  if (!device.ok()) return device.error().message();
  std::string why = std::move(device).value()->checkStreamMemOps().message();
  if (why.empty()) return why;
  static std::once_flag warned;
  std::call_once(warned, [&] { logWarn(Subsystem::kInit, "{}; all calls go to NCCL", why); });
  return why;
}

Capabilities ownCapabilities(size_t maxProbeBytes, int device) {
  const PreloadConfig& mine = preloadConfig();
  const std::string cannotServe = cannotServeReason(device);
  Capabilities capabilities;
  static_cast<nccl::PeerInfo&>(capabilities) = nccl::PeerInfo::detect(
      device, mine.env, cannotServe.empty() && buffersAreOnHost() ? "buffers are in host memory" : cannotServe);
  capabilities.minBytes = mine.env.ncclMinBytes.value;
  capabilities.maxProbeBytes = maxProbeBytes;
  capabilities.canServe = cannotServe.empty();
  if (!capabilities.canServe) capabilities.why = cannotServe;
  return capabilities;
}

// A new bps communicator. The destructor aborts the communicator unless release() was called.
class UniqueComm {
 public:
  UniqueComm() = default;
  ~UniqueComm() { abort(); }
  void abort() {
    if (bpsComm_t comm = release(); comm != nullptr) (void)bpsCommAbort(comm);
  }
  UniqueComm(const UniqueComm&) = delete;
  UniqueComm& operator=(const UniqueComm&) = delete;
  bpsComm_t get() const { return comm_; }
  bpsComm_t* out() { return &comm_; }
  bpsComm_t release() { return std::exchange(comm_, nullptr); }

 private:
  bpsComm_t comm_ = nullptr;
};

// Waits until a non-blocking communicator has started or the shadow ends. `asked` is the result of the call on `source`
// that began to start the communicator.
Status awaitStart(const Shadow& shadow, bpsComm_t comm, bpsResult_t asked, bpsComm_t source) {
  if (asked != bpsSuccess && asked != bpsInProgress) return {static_cast<Code>(asked), bpsGetLastError(source)};
  for (Backoff backoff; comm != nullptr; backoff.pause()) {
    bpsResult_t state = bpsSuccess;
    if (bpsCommGetAsyncError(comm, &state) != bpsSuccess) return {Code::kInternal, bpsGetLastError(nullptr)};
    if (state == bpsSuccess) break;
    if (state != bpsInProgress) return {static_cast<Code>(state), bpsGetLastError(comm)};
    if (shadow.ending()) return {Code::kInvalidUsage, "the communicator was ended by another thread"};
  }
  return {};
}

// Lets all ranks join a bps communicator. If all ranks have joined, the returned text is empty. Otherwise the text says
// on all ranks why a rank has not joined.
Result<std::string> joinAll(NcclExchange& exchange, const Shadow& shadow, UniqueComm& joined) {
  bpsUniqueId id{};
  Status made;
  if (shadow.rank() == 0 && bpsGetUniqueId(&id) != bpsSuccess) made = {Code::kSystem, bpsGetLastError(nullptr)};
  std::vector<Blob> all = BPS_TRY(exchange.gather(RankStatus::encode(made, id.internal)));
  if (std::string why = RankStatus::firstFailure(all); !why.empty()) return why;
  RankStatus::readId(all[0], id.internal);
  const bpsResult_t asked = commInitWithoutGpuGroups(joined.out(), shadow.nRanks(), id, shadow.rank());
  const Status mine = awaitStart(shadow, joined.get(), asked, nullptr);
  all = BPS_TRY(exchange.gather(RankStatus::encode(mine, id.internal)));
  return RankStatus::firstFailure(all);
}

// Creates the NCCL communicator of this rank's local GPU group. The communicator is null if the rank is alone in its
// group.
Status splitNccl(NcclExchange& exchange, const Shadow& shadow, const nccl::LocalGpuGroups& groups, ncclComm_t* made) {
  constexpr int kNoColor = -1;  // NCCL_SPLIT_NOCOLOR
  const bool alone = groups.sizeOf(shadow.rank()) == 1;
  const int color = alone ? kNoColor : groups.leaderOf(shadow.rank());
  const ncclResult_t asked =
      BPS_REAL(ncclCommSplit, shadow.comm(), color, groups.groupRankOf(shadow.rank()), made, nullptr);
  if (asked == ncclSuccess) return {};
  if (asked != ncclInProgress)
    return failure(static_cast<Code>(asked), "ncclCommSplit: {}", BPS_REAL(ncclGetErrorString, asked));
  // A communicator that is split off a non-blocking communicator is non-blocking too. Calls on a non-blocking
  // communicator may return before NCCL has put them into their streams.
  exchange.markNonBlocking();
  BPS_TRY(exchange.waitIdle());
  return {Code::kInvalidUsage, "the communicator is non-blocking"};
}

nccl::GroupFormation formationSteps(NcclExchange& exchange, const Shadow& shadow, int device, bpsComm_t comm) {
  nccl::GroupFormation steps;
  steps.share = [&exchange](const Blob& mine) { return exchange.gather(mine); };
  steps.create = [&shadow, comm](int part, int leader, bpsComm_t* made) {
    bpsConfig_t config = BPS_CONFIG_INITIALIZER;
    config.blocking = 0;
    const bpsResult_t asked = bpsCommSplit(comm, part, leader, made, &config);
    return awaitStart(shadow, *made, asked, comm);
  };
  steps.split = [&exchange, &shadow](const nccl::LocalGpuGroups& groups, const ncclUniqueId&, ncclComm_t* made) {
    return splitNccl(exchange, shadow, groups, made);
  };
  steps.openDevice = [device] { return openDevice(device); };
  return steps;
}

Result<double> bestOfTwo(const std::function<Result<double>()>& once) {
  BPS_TRY(once());  // not timed: connects, registers memory and warms up
  const double first = BPS_TRY(once());
  return std::min(first, BPS_TRY(once()));
}

constexpr double kFailedSeconds = 1e9;  // stands in for the time of a failed call

// Times an all-reduce of one size with NCCL and with bps. The result contains the times of the slowest rank, so it is
// the same on all ranks.
Result<Timing> timeOne(NcclExchange& exchange, size_t bytes, const NegotiatedTerms& terms, UniqueComm& joined) {
  const double nccl = BPS_TRY(bestOfTwo([&] { return exchange.timeNccl(bytes); }));
  Result<double> ours = bestOfTwo([&] { return exchange.timeBps(bytes, terms); });
  if (!ours.ok()) {
    logWarn(Subsystem::kInit, "measuring bps: {}", ours.error().message());
    // The stream stands at a failed call until an abort, and the next gather uses this stream. The abort also ends the
    // calls of the other ranks, if only this rank's call has failed.
    if (terms.gpuGroup != nullptr) terms.gpuGroup->end(true);
    joined.abort();
  }
  const double bps = ours.ok() ? std::move(ours).value() : kFailedSeconds;
  const Blob mine = WireWriter().put(nccl).put(bps).bytes();
  const std::vector<Blob> all = BPS_TRY(exchange.gather(mine));
  Timing slowest{bytes, 0, 0};
  for (const Blob& times : all) {
    WireReader reader(times);
    slowest.nccl = std::max(slowest.nccl, reader.getDouble());
    slowest.bps = std::max(slowest.bps, reader.getDouble());
  }
  return slowest;
}

// After a failed call the measurement ends on all ranks, and bps serves nothing.
Result<size_t> measure(NcclExchange& exchange, const Shadow& shadow, size_t maxProbeBytes, const NegotiatedTerms& terms,
                       UniqueComm& joined) {
  constexpr size_t kFirstBytes = 64U << 10, kGrowth = 4;
  constexpr double kSlowSeconds = 0.2;  // on a network this slow, larger sizes would take too long
  std::vector<Timing> timings;
  for (size_t bytes = kFirstBytes; bytes <= std::max(maxProbeBytes, kFirstBytes); bytes *= kGrowth) {
    timings.push_back(BPS_TRY(timeOne(exchange, bytes, terms, joined)));
    const Timing& last = timings.back();
    if (shadow.rank() == 0)
      logInfo(Subsystem::kInit, "{} bytes: NCCL {:.0f} us, bps {:.0f} us", bytes, last.nccl * 1e6, last.bps * 1e6);
    if (last.bps >= kFailedSeconds) {
      if (terms.gpuGroup != nullptr) terms.gpuGroup->end(true);
      joined.abort();
      return kServeNone;
    }
    if (std::max(last.nccl, last.bps) > kSlowSeconds) break;
  }
  return crossOver(timings);
}

void logTerms(const Shadow& shadow, const NegotiationResult& result, const NegotiatedTerms& terms,
              const std::string& noGroupReason) {
  if (shadow.rank() != 0) return;
  const nccl::RealNccl* real = nccl::realNccl();
  const std::string head =
      fmt::format("NCCL communicator of {} ranks on {} machines: ", shadow.nRanks(), result.machines);
  if (terms.servedComm == nullptr) {
    logInfo(Subsystem::kInit, "{}all by NCCL ({}): {}", head, real->path, result.reason);
    return;
  }
  std::vector<char> facts(64U << 10);
  (void)bpsCommDescribe(terms.servedComm, facts.data(), facts.size());
  logInfo(Subsystem::kInit,
          "{}all-reduces of {} bytes and more by bps ({}); smaller ones, captured ones and all other "
          "calls by NCCL ({})",
          head, terms.minBytes, result.reason, real->path);
  logInfo(Subsystem::kInit, "bps: {}", facts.data());
  if (terms.gpuGroup != nullptr)
    logInfo(
        Subsystem::kInit, "inside machines: {}{}", terms.gpuGroup->describe(),
        preloadConfig().env.topoCounters.empty() ? "" : "; what NCCL copies for it is not in BPS_TOPO_COUNTERS' files");
  else logInfo(Subsystem::kInit, "inside machines: by bps, in host memory ({})", noGroupReason);
}

Result<std::vector<Capabilities>> gatherCapabilities(NcclExchange& exchange, int device) {
  const std::vector<Blob> records = BPS_TRY(exchange.gather(ownCapabilities(exchange.maxProbeBytes(), device).bytes()));
  std::vector<Capabilities> all;
  all.reserve(records.size());
  for (const Blob& record : records) all.push_back(BPS_TRY(Capabilities::parse(record)));
  return all;
}

Result<int> deviceOf(const Shadow& shadow) {
  int device = 0;
  const ncclResult_t asked = BPS_REAL(ncclCommCuDevice, shadow.comm(), &device);
  if (asked != ncclSuccess)
    return failure(static_cast<Code>(asked), "ncclCommCuDevice: error {}", static_cast<int>(asked));
  return device;
}

struct Outcome {
  NegotiationResult& result;
  NegotiatedTerms& terms;
};

// Creates the bps communicator and the local GPU group that serve the NCCL communicator, and measures them. Returns the
// reason why there are no local GPU groups, or an empty text if there are.
Result<std::string> serve(NcclExchange& exchange, Shadow& shadow, const std::vector<Capabilities>& all, Outcome out) {
  NegotiatedTerms served;
  UniqueComm joined;  // declared after `served`: aborts before the group ends
  if (std::string why = BPS_TRY(joinAll(exchange, shadow, joined)); !why.empty()) {
    out.result.reason = std::move(why);
    if (shadow.rank() == 0) logWarn(Subsystem::kInit, "bps serves nothing, NCCL does all: {}", out.result.reason);
    return std::string();
  }
  served.device = out.terms.device;
  served.servedComm = joined.get();
  nccl::FormedGroup formed =
      BPS_TRY(nccl::joinLocalGpuGroup(std::vector<nccl::PeerInfo>(all.begin(), all.end()), shadow.rank(),
                                      formationSteps(exchange, shadow, served.device, joined.get())));
  served.gpuGroup = std::move(formed.group);
  if (served.gpuGroup != nullptr) served.gpuGroup->linkToParent(joined.get(), formed.partName);
  served.minBytes = out.result.measure ? BPS_TRY(measure(exchange, shadow, out.result.maxProbeBytes, served, joined))
                                       : out.result.minBytes;
  if (served.minBytes != kServeNone) {
    (void)joined.release();
    out.terms = std::move(served);
  } else {
    out.result.reason = joined.get() == nullptr ? "a measured call failed" : "NCCL was quicker at all sizes";
    if (served.gpuGroup != nullptr) served.gpuGroup->end(false);
    if (joined.get() != nullptr) (void)bpsCommDestroy(joined.release());
  }
  return std::move(formed.why);
}

}  // namespace

Result<NegotiatedTerms> negotiateTerms(Shadow& shadow) {
  const size_t record = std::max(Capabilities::kBytes, RankStatus::kBytes);
  NegotiatedTerms terms;
  terms.device = BPS_TRY(deviceOf(shadow));
  const ScopedDevice here = BPS_TRY(ScopedDevice::enter(terms.device));
  NcclExchange exchange = BPS_TRY(NcclExchange::open(shadow, terms.device, record));
  BPS_TRY(exchange.waitIdle());  // a non-blocking communicator may not have finished the group of this call yet
  const std::vector<Capabilities> all = BPS_TRY(gatherCapabilities(exchange, terms.device));
  NegotiationResult result = concludeNegotiation(all);
  const std::string noGroupReason =
      result.join ? BPS_TRY(serve(exchange, shadow, all, {result, terms})) : std::string();
  logTerms(shadow, result, terms, noGroupReason);
  return terms;
}

}  // namespace bps::interpose
