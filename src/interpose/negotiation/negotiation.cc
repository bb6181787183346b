#include "src/interpose/negotiation/negotiation.h"

#include <algorithm>
#include <functional>

#include "bps/bps_ext.h"
#include "src/base/format.h"
#include "src/base/io/wire_io.h"
#include "src/base/log.h"
#include "src/interpose/negotiation/capabilities.h"
#include "src/interpose/negotiation/nccl_exchange.h"
#include "src/interpose/negotiation/scratch_memory.h"
#include "src/interpose/preload_config.h"
#include "src/nccl/real_nccl.h"

namespace bps::interpose {
namespace {

Result<cuda::Device*> openDevice(int ordinal) {
  const cuda::Api* driver = BPS_TRY(cuda::driver());
  return cuda::Device::open(*driver, ordinal);
}

// What keeps this rank from a team; empty: nothing.
std::string noGpuGroupReason(int ordinal) {
  if (!preloadConfig().envError.ok()) return preloadConfig().envError.message();
  if (buffersAreOnHost()) return "buffers are in host memory";
  Result<cuda::Device*> device = openDevice(ordinal);
  return device.ok() ? LocalGpuGroup::unsupportedReason(*std::move(device).value())
                     : std::string(device.error().message());
}

Capabilities ownCapabilities(size_t maxProbeBytes, int device) {
  const PreloadConfig& mine = preloadConfig();
  Capabilities capabilities;
  static_cast<nccl::PeerInfo&>(capabilities) = nccl::PeerInfo::detect(device, mine.env, noGpuGroupReason(device));
  capabilities.minBytes = mine.env.ncclMinBytes.value;
  capabilities.maxProbeBytes = maxProbeBytes;
  capabilities.canServe = mine.envError.ok();
  if (!capabilities.canServe) capabilities.why = mine.envError.message();
  return capabilities;
}

// A communicator of bps that is not yet anybody's; left again unless release() is called.
class UniqueComm {
 public:
  UniqueComm() = default;
  ~UniqueComm() {
    if (comm_ != nullptr) (void)bpsCommAbort(comm_);
  }
  UniqueComm(const UniqueComm&) = delete;
  UniqueComm& operator=(const UniqueComm&) = delete;
  bpsComm_t get() const { return comm_; }
  bpsComm_t release() { return std::exchange(comm_, nullptr); }

  // Waits for the other ranks, or until the shadow ends.
  Status join(const Shadow& shadow, const bpsUniqueId& id) {
    bpsConfig_t config = BPS_CONFIG_INITIALIZER;
    config.blocking = 0;
    const bpsResult_t asked = bpsCommInitRankConfig(&comm_, shadow.nRanks(), id, shadow.rank(), &config);
    if (asked != bpsSuccess && asked != bpsInProgress) return {static_cast<Code>(asked), bpsGetLastError(nullptr)};
    return await(shadow);
  }
  // With the other owners of the part, of `parent`, in the order of their teams; without one: with nobody.
  Status split(const Shadow& shadow, bpsComm_t parent, int part, int lead) {
    bpsConfig_t config = BPS_CONFIG_INITIALIZER;
    config.blocking = 0;
    const bpsResult_t asked = bpsCommSplit(parent, part, lead, &comm_, &config);
    if (asked != bpsSuccess && asked != bpsInProgress) return {static_cast<Code>(asked), bpsGetLastError(parent)};
    return comm_ != nullptr ? await(shadow) : Status();
  }

 private:
  Status await(const Shadow& shadow) const {
    for (Backoff backoff;; backoff.pause()) {
      bpsResult_t state = bpsSuccess;
      if (bpsCommGetAsyncError(comm_, &state) != bpsSuccess) return {Code::kInternal, bpsGetLastError(nullptr)};
      if (state == bpsSuccess) return {};
      if (state != bpsInProgress) return {static_cast<Code>(state), bpsGetLastError(comm_)};
      if (shadow.ending()) return {Code::kInvalidUsage, "the communicator was ended by another thread"};
    }
  }
  bpsComm_t comm_ = nullptr;
};

// All ranks join a communicator of bps, and the text is empty; or all are told why not.
Result<std::string> joinAll(NcclExchange& exchange, const Shadow& shadow, UniqueComm& joined) {
  bpsUniqueId id{};
  Status made;
  if (shadow.rank() == 0 && bpsGetUniqueId(&id) != bpsSuccess) made = {Code::kSystem, bpsGetLastError(nullptr)};
  std::vector<uint8_t> all = BPS_TRY(exchange.gather(RankStatus::bytes(made, id)));
  if (std::string why = RankStatus::firstFailure(all); !why.empty()) return why;
  const Status mine = joined.join(shadow, RankStatus::id(all));
  all = BPS_TRY(exchange.gather(RankStatus::bytes(mine, id)));
  return RankStatus::firstFailure(all);
}

// NCCL's communicator of this rank's team; null if it is alone in it.
Result<ncclComm_t> splitNccl(NcclExchange& exchange, const Shadow& shadow, const nccl::LocalGpuGroups& gpuGroups) {
  constexpr int kNoColor = -1;  // NCCL_SPLIT_NOCOLOR
  const bool alone = gpuGroups.sizeOf(shadow.rank()) == 1;
  const int color = alone ? kNoColor : gpuGroups.leaderOf(shadow.rank());
  ncclComm_t made = nullptr;
  const ncclResult_t asked =
      BPS_REAL(ncclCommSplit, shadow.comm(), color, gpuGroups.groupRankOf(shadow.rank()), &made, nullptr);
  if (asked == ncclSuccess) return made;
  if (asked != ncclInProgress)
    return failure(static_cast<Code>(asked), "ncclCommSplit: {}", BPS_REAL(ncclGetErrorString, asked));
  // Its calls might return before they are in their streams, as those of the communicator that it comes from.
  exchange.markNonBlocking();
  BPS_TRY(exchange.waitIdle());
  if (made != nullptr) (void)BPS_REAL(ncclCommAbort, made);
  return Status(Code::kInvalidUsage, "the communicator is non-blocking");
}

Result<std::unique_ptr<LocalGpuGroup>> createGpuGroup(NcclExchange& exchange, const Shadow& shadow,
                                                      const nccl::LocalGpuGroups& gpuGroups, int ordinal,
                                                      bpsComm_t comm) {
  const int groupRank = gpuGroups.groupRankOf(shadow.rank());
  const bool isOwner = groupRank < gpuGroups.owners;
  UniqueComm ownersComm;
  const Status joined =
      ownersComm.split(shadow, comm, isOwner ? groupRank : BPS_SPLIT_NOCOLOR, gpuGroups.leaderOf(shadow.rank()));
  // In any case: all ranks have to come. What may fail on this one alone comes later.
  Result<ncclComm_t> localComm = splitNccl(exchange, shadow, gpuGroups);
  if (!localComm.ok()) return std::move(localComm).status();
  const auto made = std::move(localComm).value();
  Result<cuda::Device*> device = openDevice(ordinal);
  if (!device.ok()) {
    if (made != nullptr) (void)BPS_REAL(ncclCommAbort, made);
    return std::move(device).status();
  }
  Result<std::unique_ptr<LocalGpuGroup>> gpuGroup =
      LocalGpuGroup::create({groupRank, gpuGroups.sizeOf(shadow.rank()), gpuGroups.owners, gpuGroups.allowsAnyOrder},
                            *std::move(device).value(), made, ownersComm.release());
  if (!joined.ok()) return joined.clone();
  return gpuGroup;
}

struct GpuGroupOrReason {
  std::shared_ptr<LocalGpuGroup> gpuGroup;  // null unless every rank could
  std::string why;                          // not
};

// Fails with what ends the communicator.
Result<GpuGroupOrReason> createGpuGroupOnAll(NcclExchange& exchange, const Shadow& shadow,
                                             const nccl::LocalGpuGroups& gpuGroups, int device, bpsComm_t comm) {
  if (gpuGroups.owners == 0) return GpuGroupOrReason{nullptr, gpuGroups.why};
  Result<std::unique_ptr<LocalGpuGroup>> mine = createGpuGroup(exchange, shadow, gpuGroups, device, comm);
  const std::vector<uint8_t> all =
      BPS_TRY(exchange.gather(RankStatus::bytes(mine.ok() ? Status() : mine.error().clone(), bpsUniqueId{})));
  std::string why = RankStatus::firstFailure(all);
  if (!why.empty()) return GpuGroupOrReason{nullptr, std::move(why)};
  GpuGroupOrReason up{std::move(mine).value(), {}};
  up.gpuGroup->linkToParent(comm, "in the part of ranks " + gpuGroups.ownersOf(gpuGroups.groupRankOf(shadow.rank())));
  return up;
}

Result<double> bestOfTwo(const std::function<Result<double>()>& once) {
  BPS_TRY(once());  // connects, registers, warms up
  const double first = BPS_TRY(once());
  return std::min(first, BPS_TRY(once()));
}

constexpr double kFailedSeconds = 1e9;  // seconds, for what has failed

// One size by both; the slowest rank's times, the same on all ranks.
Result<Timing> timeOne(NcclExchange& exchange, const Shadow& shadow, size_t bytes, const NegotiatedTerms& terms) {
  const double nccl = BPS_TRY(bestOfTwo([&] { return exchange.timeNccl(bytes); }));
  Result<double> ours = bestOfTwo([&] { return exchange.timeBps(bytes, terms); });
  if (!ours.ok()) {
    logWarn(Subsystem::kInit, "measuring bps: {}", ours.error().message());
    if (terms.gpuGroup != nullptr)
      terms.gpuGroup->end(true);  // what is shown next comes behind its calls in the stream
  }
  const double bps = ours.ok() ? std::move(ours).value() : kFailedSeconds;
  const Blob mine = WireWriter().put(nccl).put(bps).bytes();
  const std::vector<uint8_t> all = BPS_TRY(exchange.gather(mine));
  Timing slowest{bytes, 0, 0};
  WireReader reader(all);
  for (int rank = 0; rank < shadow.nRanks(); ++rank) {
    slowest.nccl = std::max(slowest.nccl, reader.getDouble());
    slowest.bps = std::max(slowest.bps, reader.getDouble());
  }
  return slowest;
}

Result<size_t> measure(NcclExchange& exchange, const Shadow& shadow, size_t maxProbeBytes,
                       const NegotiatedTerms& terms) {
  constexpr size_t kFirstBytes = 64U << 10, kGrowth = 4;
  constexpr double kSlowSeconds = 0.2;  // seconds: a network as slow as that need not be asked further
  std::vector<Timing> timings;
  for (size_t bytes = kFirstBytes; bytes <= std::max(maxProbeBytes, kFirstBytes); bytes *= kGrowth) {
    timings.push_back(BPS_TRY(timeOne(exchange, shadow, bytes, terms)));
    const Timing& last = timings.back();
    if (shadow.rank() == 0)
      logInfo(Subsystem::kInit, "{} bytes: NCCL {:.0f} us, bps {:.0f} us", bytes, last.nccl * 1e6, last.bps * 1e6);
    if (std::max(last.nccl, last.bps) > kSlowSeconds) break;
  }
  return crossOver(timings);
}

void logTerms(const Shadow& shadow, const NegotiationResult& what, const NegotiatedTerms& terms,
              const std::string& fallbackReason) {
  if (shadow.rank() != 0) return;
  const nccl::RealNccl* real = nccl::realNccl();
  const std::string head =
      fmt::format("NCCL communicator of {} ranks on {} machines: ", shadow.nRanks(), what.machines);
  if (terms.servedComm == nullptr) {
    logInfo(Subsystem::kInit, "{}all by NCCL ({}): {}", head, real->path, what.reason);
    return;
  }
  std::vector<char> facts(64U << 10);
  (void)bpsCommDescribe(terms.servedComm, facts.data(), facts.size());
  logInfo(Subsystem::kInit,
          "{}all-reduces of {} bytes and more by bps ({}); smaller ones, captured ones and all other "
          "calls by NCCL ({})",
          head, terms.minBytes, what.reason, real->path);
  logInfo(Subsystem::kInit, "bps: {}", facts.data());
  if (terms.gpuGroup != nullptr)
    logInfo(
        Subsystem::kInit, "inside machines: {}{}", terms.gpuGroup->describe(),
        preloadConfig().env.topoCounters.empty() ? "" : "; what NCCL copies for it is not in BPS_TOPO_COUNTERS' files");
  else logInfo(Subsystem::kInit, "inside machines: by bps, in host memory ({})", fallbackReason);
}

Result<std::vector<Capabilities>> gatherCapabilities(NcclExchange& exchange, const Shadow& shadow, int device) {
  const std::vector<uint8_t> all = BPS_TRY(exchange.gather(ownCapabilities(exchange.maxProbeBytes(), device).bytes()));
  std::vector<Capabilities> allCapabilities;
  allCapabilities.reserve(static_cast<size_t>(shadow.nRanks()));
  for (int rank = 0; rank < shadow.nRanks(); ++rank)
    allCapabilities.push_back(BPS_TRY(Capabilities::parse(
        std::span(all).subspan(static_cast<size_t>(rank) * Capabilities::kBytes, Capabilities::kBytes))));
  return allCapabilities;
}

Result<int> deviceOf(const Shadow& shadow) {
  int device = 0;
  const ncclResult_t asked = BPS_REAL(ncclCommCuDevice, shadow.comm(), &device);
  if (asked != ncclSuccess)
    return failure(static_cast<Code>(asked), "ncclCommCuDevice: error {}", static_cast<int>(asked));
  return device;
}

}  // namespace

Result<NegotiatedTerms> negotiateTerms(Shadow& shadow) {
  nccl::leaveGpuGroupsToInterposer();
  const size_t record = std::max(Capabilities::kBytes, RankStatus::kBytes);
  const int device = BPS_TRY(deviceOf(shadow));
  const ScopedDevice here = BPS_TRY(ScopedDevice::enter(device));
  NcclExchange exchange = BPS_TRY(NcclExchange::open(shadow, device, record));
  BPS_TRY(exchange.waitIdle());  // a non-blocking communicator may not have ended what its group has begun
  const std::vector<Capabilities> allCapabilities = BPS_TRY(gatherCapabilities(exchange, shadow, device));
  NegotiationResult what = concludeNegotiation(allCapabilities);
  NegotiatedTerms terms;
  terms.device = device;
  std::string fallbackReason;  // why
  if (what.join) {
    UniqueComm joined;
    const std::string why = BPS_TRY(joinAll(exchange, shadow, joined));
    if (why.empty()) {
      terms.servedComm = joined.get();
      GpuGroupOrReason up = BPS_TRY(createGpuGroupOnAll(
          exchange, shadow,
          formLocalGpuGroups(std::vector<nccl::PeerInfo>(allCapabilities.begin(), allCapabilities.end())), device,
          joined.get()));
      terms.gpuGroup = std::move(up.gpuGroup);
      fallbackReason = std::move(up.why);
      terms.minBytes = what.measure ? BPS_TRY(measure(exchange, shadow, what.maxProbeBytes, terms)) : what.minBytes;
      if (terms.minBytes != kServeNone) {
        (void)joined.release();
      } else {
        what.reason = "NCCL was quicker at all sizes";
        if (terms.gpuGroup != nullptr) terms.gpuGroup->end(false);
        (void)bpsCommDestroy(joined.release());
        terms = NegotiatedTerms();
        terms.device = device;
      }
    } else {
      what.reason = why;
      if (shadow.rank() == 0) logWarn(Subsystem::kInit, "bps serves nothing, NCCL does all: {}", what.reason);
    }
  }
  logTerms(shadow, what, terms, fallbackReason);
  return terms;
}

}  // namespace bps::interpose
