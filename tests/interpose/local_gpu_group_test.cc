// Ranks of one machine combine their buffers by NCCL on their GPUs; bps all-reduces between the machines.
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <thread>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {

constexpr size_t kTwoPieceCount = 2U << 20;  // a call of the local GPU group with two pieces

// Returns whether NCCL combined the buffers. For a call that bps serves, NCCL runs no other collective.
bool combinedByNccl() {
  const std::string calls = takeNcclCalls();
  BPS_CHECK(!contains(calls, "ncclAllReduce"));
  return contains(calls, "ncclReduce") && (contains(calls, "ncclAllGather") || contains(calls, "ncclBroadcast"));
}

}  // namespace

// Each machine has two GPUs. The sum of two numbers is the same in any order.
BPS_SCENARIO(TwoGpusOfAMachineCombineByNccl, 4, ) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kGpuGroupCount));
  std::string calls = takeNcclCalls();
  BPS_EQUAL(
      contains(calls, fmt::format("ncclReduceScatter:{} ncclAllGather:{} ", kGpuGroupCount / 2, kGpuGroupCount / 2)),
      onDevice());
  BPS_EQUAL(contains(calls, "ncclCommSplit "), onDevice());
  BPS_CHECK(!contains(calls, "ncclAllReduce"));
  // Several pieces; the parts of the last piece differ in size.
  BPS_NCCL(allReduce(self, comm, kTwoPieceCount + 1));
  calls = takeNcclCalls();
  BPS_EQUAL(contains(calls, "ncclReduceScatter:524289 ncclGroupStart ncclReduce:524287 ncclReduce:524288 "),
            onDevice());
  BPS_EQUAL(contains(calls, "ncclAllGather:524289 ncclGroupStart ncclBroadcast:524287 ncclBroadcast:524288 "),
            onDevice());
  for (const size_t count : {kLarge, kGpuGroupCount}) {
    const Buffer data(count, static_cast<float>(self.rank));
    const uint64_t before = copiedBytes();
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), count, ncclFloat32, ncclSum, comm, stream()));
    synchronize();
    BPS_CHECK(data.all(6));
    // Copies to the host and back: one part per GPU, or the whole buffer.
    const size_t parts = count == kLarge ? 1 : 2;
    BPS_EQUAL(copiedBytes() - before, onDevice() ? 2 * count * sizeof(float) / parts : 0);
  }
  BPS_EQUAL(combinedByNccl(), onDevice());
  BPS_NCCL(ncclCommFinalize(comm));
  BPS_NCCL(ncclCommDestroy(comm));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclCommFinalize ncclCommDestroy ") + (onDevice() ? "ncclCommDestroy " : ""));
}

// Calls whose bits depend on the order, small calls, and divided or multiplied calls run in bps alone.
BPS_SCENARIO(OnlyOrderIndependentCallsUseNccl, 4, ) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const auto call = [&](size_t count, ncclDataType_t type, ncclRedOp_t op) {
    const Buffer data(count);
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), count, type, op, comm, stream()));
    synchronize();
    return combinedByNccl();
  };
  constexpr auto kMax = static_cast<ncclRedOp_t>(2);
  constexpr auto kInt32 = static_cast<ncclDataType_t>(2);
  BPS_CHECK(!call(kGpuGroupCount / 4 - 1, ncclFloat32, ncclSum) && !call(kGpuGroupCount, ncclFloat32, ncclAvg));
  BPS_CHECK(!call(kGpuGroupCount, ncclFloat32, kMax) && !call(4 * kGpuGroupCount, ncclFloat8e4m3, ncclSum));
  BPS_EQUAL(call(kGpuGroupCount, kInt32, kMax), onDevice());
  BPS_CHECK(!call(kGpuGroupCount, kInt32, ncclAvg));
  float factor = 2;
  ncclRedOp_t op = ncclSum;
  BPS_NCCL(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
  BPS_CHECK(!call(kGpuGroupCount, ncclFloat32, op));
}

BPS_SCENARIO(ThreeGpusCombineByNcclWhenAnyOrderIsAllowed, 4, {"BPS_NCCL_LOCAL", "any"}) {
  // Three GPUs in one machine and one in the other: there is one part, and NCCL reduces to its owner.
  ::setenv("BPS_HOSTID", self.rank < 3 ? "three" : "one", 1);
  ::setenv("FAKE_CUDA_DEVICES", "3", 1);
  ::setenv("FAKE_NCCL_DEVICE", fmt::format("{}", self.rank % 3).c_str(), 1);
  const ncclComm_t comm = self.makeComm();
  for (const size_t count : {kGpuGroupCount, kTwoPieceCount + 1}) BPS_NCCL(allReduce(self, comm, count));
  BPS_EQUAL(combinedByNccl(), onDevice() && self.rank < 3);
}

BPS_SCENARIO(OneRankCanTurnNcclCombiningOff, 3, ) {
  ::setenv("BPS_HOSTID", self.rank < 2 ? "two" : "one", 1);
  if (self.rank == 1) ::setenv("BPS_NCCL_LOCAL", "off", 1);  // one rank can turn it off for all
  ::setenv("FAKE_CUDA_DEVICES", "2", 1);
  ::setenv("FAKE_NCCL_DEVICE", self.rank == 1 ? "1" : "0", 1);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  BPS_NCCL(allReduce(self, comm, kGpuGroupCount));
  BPS_CHECK(!combinedByNccl());
}

BPS_SCENARIO(AFailedNcclSplitLeavesAllRanksToBps, 4, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  if (self.rank == 3) fakeNcclFail("ncclCommSplit", ncclSystemError);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  BPS_NCCL(allReduce(self, comm, kGpuGroupCount));
  BPS_CHECK(!combinedByNccl());
}

// With counters the results are the same, and each part's communicator writes a file: here, of its owner's copies.
BPS_SCENARIO(TopologyCountersDoNotChangeGpuGroups, 4, {"BPS_TOPO_FILE", "cpu[sw[gpu*2]]"}) {
  self.placeRanksOnMachines(2);
  const std::string files =
      std::string(std::getenv("FAKE_NCCL_DIR")) + "/counters." + std::to_string(::getppid()) + ".";
  ::setenv("BPS_TOPO_COUNTERS", (files + std::to_string(self.rank) + ".%c").c_str(), 1);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  BPS_NCCL(allReduce(self, comm, kGpuGroupCount));
  BPS_EQUAL(combinedByNccl(), onDevice());
  BPS_NCCL(ncclCommFinalize(comm));
  if (!onDevice()) return;
  std::stringstream text;  // the first file is that of the part
  text << std::ifstream(files + std::to_string(self.rank) + ".0").rdbuf();
  BPS_CHECK(contains(text.str(), fmt::format("\"staging\": {}", kGpuGroupCount * sizeof(float) / 2)));
  BPS_EQUAL(std::ifstream(files + std::to_string(self.rank) + ".1").good(), self.rank % 2 == 0);  // the machine's file
}

// The collectives of a group run before its sends, also the collectives that NCCL runs for bps.
BPS_SCENARIO(ANcclGroupMayMixGpuGroupCallsAndSends, 4, ) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const Buffer token(1, self.rank % 2 == 0 ? 42 : 0), data(kGpuGroupCount, 1);
  if (self.rank % 2 == 0) {
    BPS_NCCL(ncclGroupStart());
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream()));
    BPS_NCCL(ncclSend(token.data(), 1, ncclFloat32, self.rank + 1, comm, stream()));
    BPS_NCCL(ncclGroupEnd());
  } else {
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), kGpuGroupCount, ncclFloat32, ncclSum, comm, stream()));
    BPS_NCCL(ncclRecv(token.data(), 1, ncclFloat32, self.rank - 1, comm, stream()));
  }
  synchronize();
  BPS_CHECK(token.all(42) && data.all(4));
  BPS_EQUAL(combinedByNccl(), onDevice());
}

// No data of the groups crosses between the switches; host memory combines their sums.
BPS_SCENARIO(GpusUnderEachSwitchFormAGpuGroup, 6, {"BPS_NCCL_LOCAL", "any"},
             {"BPS_TOPO_FILE", "cpu[sw[gpu*2] nic] cpu[sw[gpu*2]]"}) {
  ::setenv("BPS_HOSTID", self.rank < 4 ? "four" : "two", 1);
  ::setenv("FAKE_CUDA_DEVICES", "4", 1);
  ::setenv("FAKE_NCCL_DEVICE", fmt::format("{}", self.rank % 4).c_str(), 1);
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kGpuGroupCount));
  BPS_EQUAL(contains(takeNcclCalls(), fmt::format("ncclReduceScatter:{} ", kGpuGroupCount / 2)), onDevice());
}

// NVLink, and a NIC under one of the switches. The GPU under the other switch is the root, and only the root copies.
BPS_SCENARIO(APlanWithRootsReducesToTheRoot, 4, {"BPS_TOPO_FILE", "cpu[sw[gpu nic] sw[gpu]] nvlink=150"}) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const uint64_t before = copiedBytes();
  BPS_NCCL(allReduce(self, comm, kGpuGroupCount));
  if (!onDevice()) return;
  BPS_CHECK(contains(takeNcclCalls(), fmt::format("ncclReduce:{} ncclGroupEnd ncclGroupStart ncclBroadcast:{} ",
                                                  kGpuGroupCount, kGpuGroupCount)));
  // These bytes exclude the scenario's own copy, which reads the sum.
  BPS_EQUAL(copiedBytes() - before, self.rank % 2 == 1 ? 2 * kGpuGroupCount * sizeof(float) : 0);
}

// The group's part must not mix with the NCCL group that carries NCCL's calls.
BPS_SCENARIO(FirstCallsOfAGpuGroupMayBeAGroup, 4, ) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  const Buffer small(kSmall, 1), large(kGpuGroupCount, 1);
  BPS_NCCL(ncclGroupStart());
  for (const Buffer* data : {&small, &large})
    BPS_NCCL(ncclAllReduce(data->data(), data->data(), data->size(), ncclFloat32, ncclSum, comm, stream()));
  BPS_NCCL(ncclGroupEnd());
  synchronize();
  BPS_CHECK(small.all(4) && large.all(4));
  BPS_EQUAL(contains(takeNcclCalls(), "ncclReduceScatter"), onDevice());
}

// Otherwise streams of other communicators would block behind a stream that waits at a failed part.
BPS_SCENARIO(WithoutStreamMemOpsThereAreNoGpuGroups, 4, {"FAKE_CUDA_MEM_OPS", "0"}, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  BPS_NCCL(allReduce(self, comm, kGpuGroupCount));
  BPS_CHECK(!combinedByNccl());
}
