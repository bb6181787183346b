// BPS_NCCL_LOCAL=exact with more than two GPUs per machine: the sums have bps's order, and cross the links of a machine
// as seldom as with NCCL's reduce-scatter.
#include <algorithm>
#include <cstdlib>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

using namespace bps::test;

namespace {

constexpr size_t kTwoPieceCount = 2U << 20;  // elements of a call that the local GPU group splits into two pieces
constexpr auto kMax = static_cast<ncclRedOp_t>(2);
constexpr auto kInt32 = static_cast<ncclDataType_t>(2);

// The contribution of a rank. Their sum is different in almost every other order.
float contributionOf(int rank, size_t index) {
  constexpr float kScales[] = {16777216, 1, -16777214, 0.5F, 3, -7.25F};
  return kScales[(static_cast<size_t>(rank) + index) % 6] * (1 + static_cast<float>(index % 5));
}

// The sum in bps's order: the ranks of each machine, then the machines.
float sumOf(int ranks, int ranksOfOne, size_t index) {
  float total = 0;
  for (int machine = 0; machine < ranks; machine += ranksOfOne) {
    float sum = contributionOf(machine, index);
    for (int rank = machine + 1; rank < std::min(machine + ranksOfOne, ranks); ++rank)
      sum += contributionOf(rank, index);
    total = machine == 0 ? sum : total + sum;
  }
  return total;
}

void checkSums(const Rank& self, ncclComm_t comm, int ranksOfOne, size_t count, bool inPlace) {
  const Buffer send(count), other(inPlace ? 1 : count);
  const Buffer& recv = inPlace ? send : other;
  for (size_t i = 0; i < count; ++i) send.begin()[i] = contributionOf(self.rank, i);
  BPS_NCCL(ncclAllReduce(send.data(), recv.data(), count, ncclFloat32, ncclSum, comm, stream()));
  synchronize();
  for (size_t i = 0; i < count; ++i) BPS_EQUAL(recv.begin()[i], sumOf(self.nRanks, ranksOfOne, i));
}

void usesRankOrder(bool expected) {
  const std::string calls = takeNcclCalls();
  BPS_EQUAL(contains(calls, "ncclSend:") || contains(calls, "ncclRecv:"), expected);
  if (expected) BPS_CHECK(!contains(calls, "ncclReduce"));
}

}  // namespace

BPS_SCENARIO(ExactSumsOfThreeGpusHaveTheOrderOfTheRanks, 6, {"BPS_NCCL_LOCAL", "exact"}) {
  self.placeRanksOnMachines(3);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  for (const size_t count : {kGpuGroupCount + 1, kTwoPieceCount}) {
    const uint64_t before = copiedBytes();
    checkSums(self, comm, 3, count, count == kTwoPieceCount);
    if (onDevice()) BPS_CHECK(copiedBytes() - before <= 2 * (count / 3 + 2) * sizeof(float));
    usesRankOrder(onDevice());
  }
  // NCCL combines integers, because their result does not depend on the order.
  const Buffer data(kGpuGroupCount);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), kInt32, kMax, comm, stream()));
  synchronize();
  usesRankOrder(false);
}

// One machine has three GPUs, and the other has one. So there is one owner.
BPS_SCENARIO(ExactSumsWithOneOwnerHaveTheOrderOfTheRanks, 4, {"BPS_NCCL_LOCAL", "exact"}) {
  ::setenv("BPS_HOSTID", self.rank < 3 ? "three" : "one", 1);
  ::setenv("FAKE_CUDA_DEVICES", "3", 1);
  ::setenv("FAKE_NCCL_DEVICE", fmt::format("{}", self.rank % 3).c_str(), 1);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  checkSums(self, comm, 3, kTwoPieceCount + 1, false);
  usesRankOrder(onDevice() && self.rank < 3);
}

// Without the kernel on one rank, all ranks leave sums of floats to bps, and NCCL still combines integers.
BPS_SCENARIO(ARankWithoutTheKernelLeavesFloatsToBps, 6, {"BPS_NCCL_LOCAL", "exact"}, {"BPS_DEBUG", "NONE"}) {
  self.placeRanksOnMachines(3);
  constexpr int kNotSupported = 801;
  const Buffer data(kGpuGroupCount);  // loads the driver
  if (self.rank == 4) failCuda("cuModuleLoadData", 1, kNotSupported);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  checkSums(self, comm, 3, kGpuGroupCount, true);
  usesRankOrder(false);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), kInt32, kMax, comm, stream()));
  synchronize();
  BPS_EQUAL(contains(takeNcclCalls(), "ncclReduce"), onDevice());
}

namespace {

// The two machines have the topology of the BytePS paper's PCIe machine: four GPUs under each of two switches. Of a
// call of M bytes, each GPU's link carries 7M/4 bytes in each direction: 3M/4 for the reduce-scatter, 3M/4 for the
// all-gather and M/4 to host memory or back. So M bytes of four GPUs cross each link between a switch and a CPU.
void checkLinks(const Rank& self) {
  self.placeRanksOnMachines(8);
  const ncclComm_t comm = self.makeComm();
  negotiate(self, comm);
  constexpr size_t kBytes = kGpuGroupCount * sizeof(float);
  const uint64_t sent = fakeNcclSentBytes(), copied = copiedBytes();
  const Buffer data(kGpuGroupCount, 1);
  BPS_NCCL(ncclAllReduce(data.data(), data.data(), data.size(), ncclFloat32, ncclSum, comm, stream()));
  synchronize();
  BPS_CHECK(data.all(16));
  if (!onDevice()) return;
  const uint64_t staged = (copiedBytes() - copied) / 2;  // each way
  BPS_EQUAL(staged, kBytes / 4);
  BPS_EQUAL(4 * (fakeNcclSentBytes() - sent + staged), 7 * kBytes);
}

constexpr const char* kPcieMachine = "tests/data/topo/pcie_only.xml";

}  // namespace

BPS_SCENARIO(ExactSumsLoadTheLinksAsThePlanSays, 16, {"BPS_NCCL_LOCAL", "exact"}, {"BPS_TOPO_FILE", kPcieMachine}) {
  checkLinks(self);
}

BPS_SCENARIO(SumsInAnyOrderLoadTheLinksAsThePlanSays, 16, {"BPS_NCCL_LOCAL", "any"}, {"BPS_TOPO_FILE", kPcieMachine}) {
  checkLinks(self);
}
