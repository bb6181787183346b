// Fuzzes the decoders of the data that ranks gather and that a machine's leader distributes. Another rank or a hub
// might send any bytes instead of this data. The first byte of the input selects the decoder. The fuzzer uses accepted
// data in the same way as the ranks do.
#include <cmath>
#include <cstdint>
#include <cstdlib>

#include "src/comm/local/machine/machine_plan.h"
#include "src/comm/startup/probe_times.h"
#include "src/interpose/negotiation/capabilities.h"
#include "src/plan/job_plan.h"
#include "src/plan/rails.h"
#include "src/plan/tuning/tuning.h"
#include "src/wire/split_request.h"

namespace {

using namespace bps;

void require(bool holds) {
  if (!holds) std::abort();
}

Roster twoRanks() {
  Roster roster;
  roster.ranks = {{"a", "hostA", 1, 0, 0}, {"b", "hostB", 2, 1, 0}};
  roster.machines = {{{0}, 0}, {{1}, 0}};
  return roster;
}

// Splits the bytes after the first one into two blobs. The first byte gives the size of the first blob.
std::vector<Blob> twoBlobs(std::span<const uint8_t> bytes) {
  if (bytes.empty()) return {{}, {}};
  const size_t first = std::min<size_t>(bytes[0], bytes.size() - 1);
  const auto rest = bytes.subspan(1);
  return {{rest.begin(), rest.begin() + static_cast<std::ptrdiff_t>(first)},
          {rest.begin() + static_cast<std::ptrdiff_t>(first), rest.end()}};
}

void split(std::span<const uint8_t> bytes) {
  const auto wishes = twoBlobs(bytes);
  Result<std::vector<uint32_t>> group = splitGroup(wishes, 1, twoRanks());
  if (!group.ok()) return;
  for (const uint32_t rank : std::move(group).value()) require(rank < 2);
}

void rails(std::span<const uint8_t> bytes) {
  constexpr size_t kRails = 4;
  std::vector<std::vector<uint64_t>> machines;
  for (const Blob& blob : twoBlobs(bytes)) {
    Result<std::vector<uint64_t>> weights = decodeRailWeights(blob, kRails);
    if (!weights.ok()) return;
    machines.push_back(std::move(weights).value());
  }
  const Rails common = commonRails(machines);
  require(common.drives(common.mainRail()));
  for (const uint64_t whole : {uint64_t{0}, uint64_t{4}, uint64_t{1} << 22, uint64_t{1} << 40}) {
    uint64_t end = 0;
    for (size_t rail = 0; common.hasSeveral() && rail < kRails; ++rail) {
      const ByteRange part = common.rangeOf(rail, whole, 4, true);
      require(part.begin == end && part.begin <= part.end);
      end = part.end;
    }
    require(!common.hasSeveral() || end == whole);
  }
}

void tuning(std::span<const uint8_t> bytes) {
  Result<double> slowest = slowestSeconds(twoBlobs(bytes), twoRanks());
  if (!slowest.ok()) return;
  const double seconds = std::max(std::move(slowest).value(), 1e-9);  // times that a rank measures are positive
  const JobPlan plan = std::move(JobPlan::make([] {
                         Roster roster = twoRanks();
                         roster.settings = {4U << 20, Bytes::kMeasured, Bytes::kMeasured, 1000, 1};
                         return roster;
                       }()))
                           .value();
  const auto fake = [&](size_t, int, const CutLimits&) -> Result<double> { return seconds; };
  const Tuning tuned = std::move(chooseTuning(plan, twoRanks(), fake)).value();
  require(tuned.limits.targetChunkBytes > 0 && tuned.limits.targetChunkBytes <= plan.limits.targetChunkBytes);
}

void machineBrief(std::span<const uint8_t> bytes) {
  Result<MachineSpec> machineSpec = decodeMachineSpec(bytes);
  if (!machineSpec.ok()) return;
  const MachineSpec read = std::move(machineSpec).value();
  if (read.devices.size() > 16) return;
  Result<std::unique_ptr<const MachinePlan>> plan = MachinePlan::make(read);
  if (!plan.ok()) return;
  const auto made = std::move(plan).value();
  for (size_t rank = 0; rank < read.devices.size(); ++rank) (void)made->assignmentOf(rank);
}

void allCapabilities(std::span<const uint8_t> bytes) {
  std::vector<interpose::Capabilities> shown;
  for (Blob& blob : twoBlobs(bytes)) {
    blob.resize(interpose::Capabilities::kBytes);
    Result<interpose::Capabilities> capabilities = interpose::Capabilities::parse(blob);
    if (!capabilities.ok()) return;
    shown.push_back(std::move(capabilities).value());
  }
  const interpose::NegotiationResult what = interpose::concludeNegotiation(shown);
  require(what.join || !what.reason.empty());
  const nccl::LocalGpuGroups gpuGroups =
      nccl::formLocalGpuGroups(std::vector<nccl::PeerInfo>(shown.begin(), shown.end()));
  for (int rank = 0; rank < 2; ++rank)
    require(gpuGroups.sizeOf(rank) > 0 && gpuGroups.groupRankOf(rank) < gpuGroups.sizeOf(rank));
}

void outcomes(std::span<const uint8_t> bytes) {
  std::vector<Blob> all = twoBlobs(bytes);
  for (Blob& record : all) record.resize(nccl::RankStatus::kBytes);
  const std::string failure = nccl::RankStatus::firstFailure(all);
  require(failure.empty() == (all[0][0] == 0 && all[1][0] == 0));
  bpsUniqueId id;
  nccl::RankStatus::readId(all[0], id.internal);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  constexpr void (*kTries[])(std::span<const uint8_t>) = {split,        rails,           tuning,
                                                          machineBrief, allCapabilities, outcomes};
  kTries[data[0] % std::size(kTries)]({data + 1, size - 1});
  return 0;
}
