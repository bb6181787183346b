// NCCL combines the buffers of one machine's ranks on their GPUs, and bps all-reduces between the
// machines.
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

constexpr size_t kTwoPieceCount = 2U << 20;  // elements of a call that the local GPU group splits into two pieces

// Returns whether NCCL combined the buffers. For a call that bps serves, NCCL runs no other
// collective.
bool combinedByNccl() {
  const std::string calls = takeNcclCalls();
  BPS_CHECK(!contains(calls, "ncclAllReduce"));
  return contains(calls, "ncclReduce") && (contains(calls, "ncclAllGather") || contains(calls, "ncclBroadcast"));
}

}  // namespace

// Each machine has two GPUs. The sum of two numbers does not depend on their order.
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
  // A larger call has several pieces. In the last piece, the parts of the two GPUs differ in size.
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
    // Each rank copies either one of two parts or the entire buffer to the host and back.
    const size_t parts = count == kLarge ? 1 : 2;
    BPS_EQUAL(copiedBytes() - before, onDevice() ? 2 * count * sizeof(float) / parts : 0);
  }
  BPS_EQUAL(combinedByNccl(), onDevice());
  BPS_NCCL(ncclCommFinalize(comm));
  BPS_NCCL(ncclCommDestroy(comm));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclCommFinalize ncclCommDestroy ") + (onDevice() ? "ncclCommDestroy " : ""));
}

// NCCL adds no small calls, calls whose result depends on the order of summation, averages and
// multiplied sums.
BPS_SCENARIO(OnlyOrderIndependentCallsAreAddedByNccl, 4, {"BPS_NCCL_LOCAL", "exact"}) {
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

// Without BPS_NCCL_LOCAL, a program that calls NCCL gets NCCL's order.
BPS_SCENARIO(ThreeGpusCombineByNcclByDefault, 4, ) {
  // One machine has three GPUs, and the other machine has one GPU. The buffer therefore is a single
  // part, which NCCL reduces to one rank.
  ::setenv("BPS_HOSTID", self.rank < 3 ? "three" : "one", 1);
  ::setenv("FAKE_CUDA_DEVICES", "3", 1);
  ::setenv("FAKE_NCCL_DEVICE", fmt::format("{}", self.rank % 3).c_str(), 1);
  const ncclComm_t comm = self.makeComm();
  for (const size_t count : {kGpuGroupCount, kTwoPieceCount + 1}) BPS_NCCL(allReduce(self, comm, count));
  BPS_EQUAL(combinedByNccl(), onDevice() && self.rank < 3);
}

BPS_SCENARIO(OneRankCanTurnNcclCombiningOff, 3, ) {
  ::setenv("BPS_HOSTID", self.rank < 2 ? "two" : "one", 1);
  if (self.rank == 1) ::setenv("BPS_NCCL_LOCAL", "off", 1);  // one rank's setting turns combining off for all ranks
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

// Traffic counters do not change the results. The communicator of each part writes a file about the
// copies of the rank that sums the part.
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
  std::stringstream text;  // file 0 is the file of the part
  text << std::ifstream(files + std::to_string(self.rank) + ".0").rdbuf();
  BPS_CHECK(contains(text.str(), fmt::format("\"staging\": {}", kGpuGroupCount * sizeof(float) / 2)));
  // File 1 is the file of the machine.
  BPS_EQUAL(std::ifstream(files + std::to_string(self.rank) + ".1").good(), self.rank % 2 == 0);
}

// In a group, all collectives run before the sends, including the collectives that NCCL runs for
// bps.
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

// Data of a GPU group does not cross from switch to switch. The host memory combines the sums of
// the groups.
BPS_SCENARIO(GpusUnderEachSwitchFormAGpuGroup, 6, {"BPS_TOPO_FILE", "cpu[sw[gpu*2] nic] cpu[sw[gpu*2]]"}) {
  ::setenv("BPS_HOSTID", self.rank < 4 ? "four" : "two", 1);
  ::setenv("FAKE_CUDA_DEVICES", "4", 1);
  ::setenv("FAKE_NCCL_DEVICE", fmt::format("{}", self.rank % 4).c_str(), 1);
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kGpuGroupCount));
  BPS_EQUAL(contains(takeNcclCalls(), fmt::format("ncclReduceScatter:{} ", kGpuGroupCount / 2)), onDevice());
}

// The GPUs have NVLink, and one switch has a NIC. The root is the GPU under the switch without a
// NIC, and only the root copies.
BPS_SCENARIO(APlanWithRootsReducesToTheRoot, 4, {"BPS_TOPO_FILE", "cpu[sw[gpu nic] sw[gpu]] nvlink=150"}) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  const uint64_t before = copiedBytes();
  BPS_NCCL(allReduce(self, comm, kGpuGroupCount));
  if (!onDevice()) return;
  BPS_CHECK(contains(takeNcclCalls(), fmt::format("ncclReduce:{} ncclGroupEnd ncclGroupStart ncclBroadcast:{} ",
                                                  kGpuGroupCount, kGpuGroupCount)));
  // These bytes do not include the copy with which the scenario reads the sum.
  BPS_EQUAL(copiedBytes() - before, self.rank % 2 == 1 ? 2 * kGpuGroupCount * sizeof(float) : 0);
}

// The NCCL calls of the local GPU group must not run inside the NCCL group that carries the small
// calls.
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
