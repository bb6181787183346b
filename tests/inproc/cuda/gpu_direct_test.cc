// GPUDirect RDMA with a fake CUDA driver and a net plugin that accesses the fake's device memory.
// The tests check which chunks bypass host memory.
#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <string>

#include "src/cuda/memory/gpu_memory.h"
#include "tests/inproc/fake_cuda_harness.h"

namespace bps::test {
namespace {

// Two machines and a server use a net plugin that accesses the memory of a GPU, or only claims to
// access it.
class GpuDirect : public ::testing::Test {
 protected:
  GpuDirect() {
    env_.netPlugin = siblingPath("libnccl-net-fault.so");
    env_.topoFile = "cpu[sw[nic gpu]]";
    env_.partitionBytes.value = 256U << 10;
  }
  ~GpuDirect() override { ::unsetenv("FAULT_PLUGIN_SPEC"); }

  // Runs calls in place and out of place on buffers of several kinds. Returns the bytes on the
  // links of rank 0's GPU.
  std::map<std::string, uint64_t> run(const char* spec) {
    ::setenv("FAULT_PLUGIN_SPEC", spec, 1);
    const Inputs large(DataType::kFloat32, kCount, 2), small(DataType::kBfloat16, 1001, 2);
    std::string described;
    const auto body = [&](Communicator& comm) -> Status {
      const AppStream stream;
      for (const bool inPlace : {false, true}) BPS_TRY(callAndCheck(comm, stream, large, {.inPlace = inPlace}));
      if (comm.rank() == 0) described = comm.describeTraffic();
      BPS_TRY(callAndCheck(comm, stream, small, {}));
      BPS_TRY(callAndCheck(comm, stream, large, {.recv = Memory::kPageable}));
      return callAndCheck(comm, stream, large, {.send = Memory::kPinned});
    };
    EXPECT_EQ(onMachines(body), "");
    return gpuLinksOf(described)["GPU 0"];
  }
  std::string onMachines(const Body& body) const {
    const Servers cluster(1, env_);
    Job job;
    job.ranks = 2;
    job.servers = cluster.list();
    job.env = env_;
    return failures(runRanks(job, [&](Communicator& comm) -> Status {
      const cuda::ScopedContext scope(device(0));
      return body(comm);
    }));
  }

  static constexpr size_t kCount = 1 << 20;
  static constexpr uint64_t kBytes = 2 * 4 * kCount;  // bytes of the two calls that are counted
  Env env_ = cudaEnv();
};

TEST_F(GpuDirect, RemoteChunksBypassHostMemory) {
  auto links = run("gpu:claims=1,takes=1");
  EXPECT_GT(links["nic up"], 0U);
  EXPECT_EQ(links["nic up"], links["nic down"]);
  EXPECT_EQ(links["staging up"] + links["nic up"], kBytes);
  EXPECT_EQ(links["staging down"] + links["nic down"], kBytes);
  EXPECT_GT(links["staging up"], 0U) << "this machine's own share is summed by its CPU";
}

TEST_F(GpuDirect, MemoryTheNicRefusesIsStaged) {
  auto links = run("gpu:claims=1,takes=0");
  EXPECT_EQ(links["nic up"], 0U);
  EXPECT_EQ(links["staging up"], kBytes);
}

// A successful registration does not prove that the NIC can access the memory.
TEST_F(GpuDirect, MemoryTheNicCannotReachIsStaged) {
  auto links = run("gpu:claims=1,takes=1,reaches=0");
  EXPECT_EQ(links["nic up"], 0U);
  EXPECT_EQ(links["staging up"], kBytes);
}

TEST_F(GpuDirect, UsedOnlyUnderOneSwitchAndIfEnabled) {
  env_.topoFile = "cpu[sw[gpu*2] nic]";
  EXPECT_EQ(run("gpu:claims=1,takes=1")["nic up"], 0U);
  env_.topoFile = "cpu[sw[nic gpu]]";
  env_.gpuDirect = false;
  EXPECT_EQ(run("gpu:claims=1,takes=1")["nic up"], 0U);
}

// Without a topology file there is no machine plan. bps then does not use GPUDirect and does not
// check the strategy.
TEST_F(GpuDirect, WithoutAPlanHostMemoryIsUsed) {
  ::setenv("FAULT_PLUGIN_SPEC", "gpu:claims=1,takes=1", 1);
  env_.topoFile.clear();
  const Inputs inputs(DataType::kFloat32, 1000, 2);
  const auto body = [&](Communicator& comm) -> Status {
    if (!comm.describeTraffic().empty()) return {Code::kInternal, "there is a plan"};
    return callAndCheck(comm, AppStream(), inputs, {});
  };
  for (const char* strategy : {"auto", "sideways"}) {
    env_.strategy = strategy;
    EXPECT_EQ(onMachines(body), "");
  }
}

// Staging memory is not freed, because freeing device memory could wait for kernels that never end.
TEST_F(GpuDirect, StagingMemoryIsReused) {
  constexpr size_t kSome = 3U << 20;
  const auto make = [](size_t bytes) { return std::move(cuda::GpuMemory::create(device(0), bytes)).value(); };
  const uint64_t freed = fakeCuda().calls("cuMemFree_v2");
  auto first = make(kSome);
  const uint8_t* const place = first->data();
  EXPECT_NE(make(kSome)->data(), place);
  first.reset();
  EXPECT_EQ(fakeCuda().calls("cuMemFree_v2"), freed);
  const uint64_t made = fakeCuda().calls("cuMemAlloc_v2");
  const auto again = make(kSome), other = make(kSome / 2);
  EXPECT_EQ(fakeCuda().calls("cuMemAlloc_v2"), made);
  EXPECT_NE(again->data(), other->data());
  EXPECT_EQ(other->size(), kSome / 2);
  EXPECT_NE(make(2 * kSome), nullptr);
}

}  // namespace
}  // namespace bps::test
