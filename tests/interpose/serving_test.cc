// These tests check which all-reduces bps serves and which go to NCCL. All ranks make the same
// choice, whatever settings each rank has.

#include <cstdlib>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

BPS_SCENARIO(BpsServesLargeCallsAndNcclSmallOnes, 3, ) {
  const ncclComm_t comm = self.makeComm();
  for (const size_t count : {kLarge, kSmall, kLarge + 1}) BPS_NCCL(allReduce(self, comm, count));
  const std::string calls = takeNcclCalls();
  BPS_CHECK(contains(calls, "ncclAllReduce:8 "));
  BPS_CHECK(!contains(calls, "ncclAllReduce:4096") && !contains(calls, "ncclAllReduce:4097"));
  BPS_NCCL(ncclCommFinalize(comm));
  BPS_NCCL(ncclCommDestroy(comm));
}

// As in most jobs, each machine has several GPUs, and each rank has one GPU.
BPS_SCENARIO(RanksThatShareMachinesAreServed, 4, ) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  for (const size_t count : {kLarge, kSmall, 64 * kLarge, kLarge + 1}) BPS_NCCL(allReduce(self, comm, count));
  const Buffer data(kLarge, static_cast<float>(self.rank + 1));
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, ncclAvg, comm, stream()));
  synchronize();
  BPS_CHECK(data.all(2.5F));
  const std::string calls = takeNcclCalls();
  BPS_CHECK(contains(calls, "ncclAllReduce:8 "));
  BPS_CHECK(!contains(calls, "ncclAllReduce:4096") && !contains(calls, "ncclAllReduce:262144") &&
            !contains(calls, "ncclAllReduce:4097"));
  // If a communicator has only the two ranks of one machine, NCCL serves the communicator.
  ncclComm_t half = nullptr;
  BPS_NCCL(ncclCommSplit(comm, self.rank / 2, 0, &half, nullptr));
  BPS_NCCL(allReduce(Rank{self.rank % 2, 2, self.page}, half, kLarge));
  BPS_CHECK(contains(takeNcclCalls(), "ncclAllReduce:4096 "));
  BPS_NCCL(ncclCommDestroy(half));
  BPS_NCCL(ncclCommDestroy(comm));
}

BPS_SCENARIO(TheCrossOverIsMeasuredOnSharedMachines, 4, {"BPS_NCCL_MIN_BYTES", nullptr}) {
  self.placeRanksOnMachines(2);
  const ncclComm_t comm = self.makeComm();
  // If a device has less than 16 MiB free, the measurement uses smaller sizes on all ranks. The
  // test allocates two buffers before the measurement, so the third allocation fails.
  stream();  // loads the fake CUDA driver
  if (self.rank == 0) failCuda("cuMemAlloc_v2", 3, 2);
  BPS_NCCL(allReduce(self, comm, kSmall));
  // The measurement makes the same NCCL calls as later calls.
  BPS_EQUAL(contains(takeNcclCalls(), "ncclReduceScatter:32768 "), onDevice());
  for (const size_t count : {kLarge, kGpuGroupCount}) BPS_NCCL(allReduce(self, comm, count));
}

BPS_SCENARIO(WhenDisabledAllCallsGoToNccl, 2, {"BPS_DISABLE", "1"}) {
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclCommInitRank ncclAllReduce:4096 "));
  BPS_NCCL(ncclCommDestroy(comm));
}

// Rank 1 also has an invalid BPS_TIMEOUT, and must still count as a rank on which bps is disabled.
BPS_SCENARIO(DisableWinsOverInvalidSettings, 2, {"BPS_DISABLE", "yes"}, {"BPS_DEBUG", "NONE"}) {
  if (self.rank == 1) ::setenv("BPS_TIMEOUT", "soon", 1);
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclCommInitRank ncclAllReduce:4096 "));
  BPS_NCCL(ncclCommDestroy(comm));
}

BPS_SCENARIO(WithoutDevicesAllGoesToNccl, 2, {"BPS_DEVICE", "host"}) {
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclCommInitRank ncclAllReduce:4096 "));
  BPS_NCCL(ncclCommDestroy(comm));
}

BPS_SCENARIO(OneMachineStaysWithNccl, 2, {"BPS_HOSTID", "the same"}) {
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_CHECK(contains(takeNcclCalls(), "ncclAllReduce:4096 "));
}

BPS_SCENARIO(WithoutServersNcclDoesAll, 2, {"BPS_SERVERS", nullptr}, {"BPS_NCCL_MIN_BYTES", nullptr}) {
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_CHECK(contains(takeNcclCalls(), "ncclAllReduce:4096 "));
}

BPS_SCENARIO(TheCrossOverIsMeasuredAndAgreed, 2, {"BPS_NCCL_MIN_BYTES", nullptr}) {
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kLarge));
  const std::string calls = takeNcclCalls();
  // The ranks measure these two sizes.
  BPS_CHECK(contains(calls, "ncclAllReduce:16384 ") && contains(calls, "ncclAllReduce:65536 "));
  for (const size_t count : {kSmall, kLarge, 16 * kLarge, kGpuGroupCount}) BPS_NCCL(allReduce(self, comm, count));
}

BPS_SCENARIO(RankZerosMinBytesApplyToAllRanks, 2, ) {
  if (self.rank == 1) ::setenv("BPS_NCCL_MIN_BYTES", "1G", 1);
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce:4096 "));
}

BPS_SCENARIO(ARankWithInvalidSettingsMakesAllUseNccl, 3, {"BPS_DEBUG", "NONE"}) {
  if (self.rank == 2) ::setenv("BPS_TIMEOUT", "soon", 1);
  const ncclComm_t comm = self.makeComm();
  for (int i = 0; i < 2; ++i) BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_CHECK(contains(takeNcclCalls(), "ncclAllReduce:4096 ncclAllReduce:4096 "));
}

BPS_SCENARIO(ARankThatCannotJoinMakesAllUseNccl, 3, {"BPS_DEBUG", "NONE"}, {"BPS_TIMEOUT", "2"}) {
  if (self.rank == 1) ::setenv("BPS_NET_PLUGIN", "/nonexistent/plugin.so", 1);
  const ncclComm_t comm = self.makeComm();
  for (int i = 0; i < 2; ++i) BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_CHECK(contains(takeNcclCalls(), "ncclAllReduce:4096 ncclAllReduce:4096 "));
}

// Rank 1's device lacks stream memory operations, which settles the choice for all ranks.
BPS_SCENARIO(ADeviceWithoutStreamMemOpsMakesAllUseNccl, 3, {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  if (self.rank == 1) ::setenv("FAKE_CUDA_MEM_OPS", "0", 1);
  const ncclComm_t comm = self.makeComm();
  for (int i = 0; i < 2; ++i) BPS_NCCL(allReduce(self, comm, kLarge));
  BPS_CHECK(contains(takeNcclCalls(), "ncclAllReduce:4096 ncclAllReduce:4096 "));
}

// Rank 1 cannot register the memory that a call needs, and the ranks find out while they measure.
BPS_SCENARIO(AMeasuredCallThatFailsOnOneRankMakesAllUseNccl, 3, {"BPS_NCCL_MIN_BYTES", nullptr},
             {"BPS_DEBUG", "NONE"}) {
  if (!onDevice()) return;
  stream();  // loads the fake CUDA driver
  // The first registration is part of a check of the device.
  if (self.rank == 1) failCuda("cuMemHostRegister_v2", 2, 2);
  const ncclComm_t comm = self.makeComm();
  BPS_NCCL(allReduce(self, comm, kLarge));
  fakeNcclClearCalls();
  for (int i = 0; i < 2; ++i) BPS_NCCL(allReduce(self, comm, kGpuGroupCount));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclAllReduce:262144 ncclAllReduce:262144 "));
  BPS_NCCL(ncclCommDestroy(comm));
}

BPS_SCENARIO(EmptyCallsAndSingleRanksGoToNccl, 2, ) {
  const ncclComm_t comm = self.makeComm();
  const Buffer one(1);
  fakeNcclClearCalls();
  BPS_NCCL(ncclAllReduce(one.data(), one.data(), 0, ncclFloat32, ncclSum, comm, stream()));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclAllReduce:0 "));  // an empty call does not negotiate
  negotiate(self, comm);
  BPS_NCCL(ncclAllReduce(one.data(), one.data(), 0, ncclFloat32, ncclSum, comm, stream()));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclAllReduce:0 "));
  ncclComm_t alone = nullptr;
  BPS_NCCL(ncclCommSplit(comm, self.rank, 0, &alone, nullptr));
  fakeNcclClearCalls();
  BPS_NCCL(allReduce(Rank{0, 1, self.page}, alone, kLarge));
  BPS_EQUAL(takeNcclCalls(), std::string("ncclAllReduce:4096 "));
}

BPS_SCENARIO(InPlaceSumAndAvgAreServed, 2, ) {
  const ncclComm_t comm = self.makeComm();
  for (const auto& [op, expected] : {std::pair(ncclSum, 3.F), std::pair(ncclAvg, 1.5F)}) {
    const Buffer data(kLarge, static_cast<float>(self.rank + 1));
    BPS_NCCL(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, op, comm, stream()));
    synchronize();
    BPS_CHECK(data.all(expected));
  }
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce"));
}

BPS_SCENARIO(UserDefinedOperationsAreServed, 2, ) {
  const ncclComm_t comm = self.makeComm();
  float factor = self.rank == 0 ? 0.5F : 4;
  ncclRedOp_t op = ncclSum;
  BPS_NCCL(ncclRedOpCreatePreMulSum(&op, &factor, ncclFloat32, ncclScalarHostImmediate, comm));
  factor = 100;  // bps read the scalar when the operation was created
  const Buffer data(kLarge, 2);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, op, comm, stream()));
  synchronize();
  BPS_CHECK(data.all(9));
  BPS_NCCL(ncclRedOpDestroy(op, comm));
  // bps reads a scalar in device memory when the stream reaches the call.
  const Buffer scalar(1, 7), again(kLarge, 2);
  BPS_NCCL(ncclRedOpCreatePreMulSum(&op, scalar.data(), ncclFloat32, ncclScalarDevice, comm));
  *scalar.begin() = self.rank == 0 ? 1.5F : 3;
  BPS_NCCL(ncclAllReduce(again.data(), again.data(), kLarge, ncclFloat32, op, comm, stream()));
  synchronize();
  BPS_CHECK(again.all(9));
  BPS_NCCL(ncclRedOpDestroy(op, comm));
  BPS_CHECK(!contains(takeNcclCalls(), "ncclAllReduce"));
  BPS_CHECK(ncclAllReduce(data.data(), data.data(), kLarge, ncclFloat32, op, comm, stream()) == ncclInvalidArgument);
  BPS_EQUAL(takeNcclCalls(), std::string("ncclAllReduce:4096 "));  // NCCL refuses the freed operation
}
