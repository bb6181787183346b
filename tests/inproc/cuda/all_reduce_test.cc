// All-reduces of CUDA device buffers with a fake driver. The CPU cannot access device memory, and
// streams are real queues. The results have the same bits as results on the host, streams keep
// their order, and callers never block.
#include <gmock/gmock.h>
#include <unistd.h>

#include <array>
#include <barrier>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>

#include "tests/inproc/fake_cuda_harness.h"

namespace bps::test {
namespace {

using testing::HasSubstr;

constexpr size_t kChunk = 256U << 10;  // bytes of the largest chunk

// Runs `body` on each of n ranks. Each rank has a machine, and the context of its device is
// current.
std::string onRanks(size_t ranks, const Body& body, size_t servers = 0, Env env = cudaEnv()) {
  const Servers cluster(servers, env);
  Job job;
  job.ranks = ranks;
  job.servers = cluster.list();
  job.env = std::move(env);
  return failures(runRanks(job, [&](Communicator& comm) -> Status {
    const cuda::ScopedContext scope(device(comm.device().value_or(0)));
    return body(comm);
  }));
}

// Runs `body` on one rank for each listed device. Rank i uses the i-th device of the list. If
// `topology` describes a machine, all ranks are on that machine.
std::string onDevices(const std::vector<int>& devices, const Body& body, const std::string& topology = "") {
  const UniqueId id = std::move(UniqueId::create(cudaEnv())).value();
  std::vector<std::future<Status>> ranks;
  for (uint32_t rank = 0; rank < devices.size(); ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank]() -> Status {
      const cuda::ScopedContext scope(device(devices[rank]));
      Env env = cudaEnv();
      env.hostId = "machine" + std::to_string(topology.empty() ? rank : 0);
      env.topoFile = topology;
      const auto comm = BPS_TRY(Communicator::create(env, {id, rank, static_cast<uint32_t>(devices.size())}));
      if (comm->device() != devices[rank]) return {Code::kInternal, "not on the thread's device"};
      BPS_TRY(comm->start());
      BPS_TRY(body(*comm));
      return comm->finalize();
    }));
  std::vector<Status> outcomes;
  for (auto& rank : ranks) outcomes.push_back(rank.get());
  return failures(outcomes);
}

TEST(Cuda, GivesTheSameBitsAsOnTheHost) {
  std::vector<Inputs> cases;
  for (const size_t count :
       {size_t{0}, size_t{1}, size_t{1000}, kChunk / 4 - 1, kChunk / 4, kChunk / 4 + 1, 3 * kChunk})
    cases.emplace_back(DataType::kFloat32, count, 2);
  for (const DataType type : {DataType::kInt8, DataType::kUint64, DataType::kFloat16, DataType::kBfloat16,
                              DataType::kFloat64, DataType::kFloat8e4m3})
    cases.emplace_back(type, 70001, 2);
  for (const CallOp op : {CallOp::kAvg, CallOp::kMax, CallOp::kPreMulSum})
    cases.emplace_back(DataType::kBfloat16, 70001, 2, op);
  for (const size_t servers : {0U, 2U})
    EXPECT_EQ(onRanks(
                  2,
                  [&](Communicator& comm) -> Status {
                    const AppStream stream;
                    for (const Inputs& inputs : cases)
                      for (const bool inPlace : {false, true})
                        BPS_TRY(callAndCheck(comm, stream, inputs, {Memory::kDevice, Memory::kDevice, inPlace}));
                    return {};
                  },
                  servers),
              "");
}

TEST(Cuda, WorksForOneRankAlone) {
  const Inputs plain(DataType::kFloat32, 200000, 1), scaled(DataType::kFloat16, 200000, 1, CallOp::kPreMulSum);
  EXPECT_EQ(onRanks(1,
                    [&](Communicator& comm) -> Status {
                      const AppStream stream;
                      for (const Inputs* inputs : {&plain, &scaled})
                        for (const bool inPlace : {false, true})
                          BPS_TRY(callAndCheck(comm, stream, *inputs, {Memory::kDevice, Memory::kDevice, inPlace}));
                      return {};
                    }),
            "");
}

TEST(Cuda, AcceptsEveryKindOfMemory) {
  const Inputs inputs(DataType::kFloat32, 100000, 2);
  const auto kinds = {Memory::kDevice, Memory::kManaged, Memory::kPinned, Memory::kRegistered, Memory::kPageable};
  EXPECT_EQ(onRanks(2,
                    [&](Communicator& comm) -> Status {
                      const AppStream stream;
                      for (const Memory send : kinds) {
                        for (const Memory recv : kinds)
                          BPS_TRY(callAndCheck(comm, stream, inputs, {send, recv, false}));
                        BPS_TRY(callAndCheck(comm, stream, inputs, {send, send, true}));
                      }
                      return {};
                    }),
            "");
  EXPECT_EQ(fakeCuda().calls("pageable copy"), 0U) << "a copy that a real driver might do at once";
}

// The buffers of rank 1 are on a device that is not the device of its communicator.
TEST(Cuda, AcceptsMemoryOfAnotherDevice) {
  const Inputs inputs(DataType::kFloat32, 100000, 2);
  EXPECT_EQ(onRanks(2,
                    [&](Communicator& comm) -> Status {
                      const AppStream stream;
                      const cuda::ScopedContext other(device(static_cast<int>(comm.rank())));
                      const Buffer send(Memory::kDevice, inputs.of[comm.rank()]);
                      const Buffer recv(Memory::kDevice, send.content().size());
                      const cuda::ScopedContext own(device(0));
                      BPS_TRY(comm.allReduce(callOn(stream.get(), send.get(), recv.get(), inputs.count, inputs.type)));
                      stream.synchronize();
                      return compare(recv, inputs.want, "recvbuff");
                    }),
            "");
}

// Machines with several ranks. The expected result is the result for host memory in the same
// communicator. local_strategy_test.cc tests the order in which each strategy sums.
struct Machines {
  std::vector<size_t> ranks;
  size_t servers = 0;
  std::string strategy, topology;
};

class CudaOnMultiRankMachines : public testing::TestWithParam<Machines> {
 protected:
  static Job jobOf(const Servers& servers) {
    Job job;
    job.machines = GetParam().ranks;
    job.ranks = std::accumulate(job.machines.begin(), job.machines.end(), size_t{0});
    job.servers = servers.list();
    job.env = cudaEnv();
    job.env.partitionBytes.value = 16384;
    job.env.strategy = GetParam().strategy;
    job.env.topoFile = GetParam().topology;
    return job;
  }
};

Status onTheHost(Communicator& comm, const Inputs& inputs, Bytes& result) {
  const Bytes& mine = inputs.of[comm.rank()];
  result = Bytes(mine.size());
  AllReduceCall call = callOn(nullptr, mine.data(), result.data(), inputs.count, inputs.type);
  call.op = inputs.op;
  call.scalar = inputs.scalars[comm.rank()];
  call.stream = HostStream::create();
  call.handle = call.stream.get();
  BPS_TRY(comm.allReduce(call));
  Status done = call.stream->synchronize();
  HostStream::destroy(call.handle);
  return done;
}

TEST_P(CudaOnMultiRankMachines, GivesTheSameBitsAsOnTheHost) {
  const Servers servers(GetParam().servers);
  const Job job = jobOf(servers);
  // With `flat_ring`, the order of summation depends on the cut, which differs from call to call.
  // Only operations that give the same result in any order are therefore compared.
  const bool exact = GetParam().strategy == "flat_ring";
  std::vector<Inputs> cases;
  for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{4096}, size_t{4097}, size_t{100003}})
    cases.emplace_back(exact ? DataType::kInt32 : DataType::kFloat32, count, job.ranks);
  cases.emplace_back(exact ? DataType::kUint64 : DataType::kFloat16, 30001, job.ranks, CallOp::kPreMulSum);
  cases.emplace_back(DataType::kBfloat16, 30001, job.ranks, exact ? CallOp::kMax : CallOp::kAvg);
  const auto body = [&](Communicator& comm) -> Status {
    const cuda::ScopedContext scope(device(0));
    const AppStream stream;
    for (Inputs inputs : cases) {
      BPS_TRY(onTheHost(comm, inputs, inputs.want));
      for (const bool inPlace : {false, true})
        BPS_TRY(callAndCheck(comm, stream, inputs, {Memory::kDevice, Memory::kDevice, inPlace}));
    }
    return {};
  };
  EXPECT_EQ(failures(runRanks(job, body)), "");
}

// Calls with all kinds of memory are in flight at once. bps copies the buffers of some kinds and
// uses the others in place.
TEST_P(CudaOnMultiRankMachines, AcceptsEveryKindOfMemoryInOneQueue) {
  const Servers servers(GetParam().servers);
  const Job job = jobOf(servers);
  const Inputs inputs(DataType::kInt32, 20011, job.ranks);
  const std::array kinds = {Memory::kDevice, Memory::kPinned, Memory::kManaged, Memory::kPageable, Memory::kRegistered};
  const auto body = [&](Communicator& comm) -> Status {
    const cuda::ScopedContext scope(device(0));
    const Bytes& mine = inputs.of[comm.rank()];
    const AppStream one, other;
    std::vector<std::unique_ptr<Buffer>> sends, recvs;
    for (size_t i = 0; i < 15; ++i) {
      sends.push_back(std::make_unique<Buffer>(kinds[(i + comm.rank()) % kinds.size()], mine));
      recvs.push_back(std::make_unique<Buffer>(kinds[(i * 3 + comm.rank()) % kinds.size()], mine.size()));
      const AppStream& stream = i % 2 == 0 ? one : other;
      BPS_TRY(comm.allReduce(callOn(stream.get(), sends[i]->get(), recvs[i]->get(), inputs.count, inputs.type)));
    }
    one.synchronize();
    other.synchronize();
    BPS_TRY(comm.failure());
    for (const auto& recv : recvs) BPS_TRY(compare(*recv, inputs.want, "recvbuff"));
    return {};
  };
  fakeCuda().setCopyRate(1e9);
  EXPECT_EQ(failures(runRanks(job, body)), "");
  fakeCuda().setCopyRate(0);
  EXPECT_EQ(fakeCuda().calls("pageable copy"), 0U) << "the areas that ranks share are not pinned: no copy may go there";
}

const char* const kEight = "cpu[sw[gpu*2] sw[gpu*2 nic]] cpu[sw[gpu*2] sw[gpu*2 nic]]";
INSTANTIATE_TEST_SUITE_P(Shapes, CudaOnMultiRankMachines,
                         testing::Values(Machines{{4}, 0, "", ""}, Machines{{2, 2}, 2, "", ""},
                                         Machines{{3, 1}, 1, "cpu_assisted", kEight},
                                         Machines{{4, 3}, 0, "scatter", kEight}, Machines{{4}, 0, "rooted", kEight},
                                         Machines{{3, 3}, 1, "flat_ring", kEight}));

// The buffers of rank 0, the result of rank 1 and the contribution of rank 2 are on a device. All
// other buffers are on the host.
TEST(Cuda, CopiesAreChargedToTheLinksOfEachRanksDevice) {
  const Inputs inputs(DataType::kInt32, 100003, 4);
  const uint64_t bytes = inputs.count * 4;
  Job job;
  job.ranks = job.ranksPerMachine = 4;
  job.env = cudaEnv();
  job.env.topoFile = "cpu[sw[nic gpu] gpu*2] cpu[gpu]";  // the file has no bus ids, so ranks take its GPUs in order
  std::string described;
  std::barrier everybody(4);
  EXPECT_EQ(failures(runRanks(job,
                              [&](Communicator& comm) -> Status {
                                const cuda::ScopedContext scope(device(0));
                                const AppStream stream;
                                const BufferPlacement place{comm.rank() % 2 == 0 ? Memory::kDevice : Memory::kPinned,
                                                            comm.rank() < 2 ? Memory::kDevice : Memory::kPageable,
                                                            false};
                                Status done = callAndCheck(comm, stream, inputs, place);
                                everybody.arrive_and_wait();
                                if (comm.rank() == 0) described = comm.describeTraffic();
                                return done;
                              })),
            "");
  const GpuLinks want = {{"GPU 0", {{"staging up", bytes}, {"staging down", bytes}}},
                         {"GPU 1", {{"staging down", bytes}}},
                         {"GPU 2", {{"staging up", bytes}}}};
  EXPECT_EQ(gpuLinksOf(described), want);
  EXPECT_EQ(nlohmann::json::parse(described)["ranks"].dump(), R"(["CPU 0","CPU 0","CPU 0","CPU 1"])");
}

// Writes a topology file of a machine with GPUs at these bus ids. Each GPU is below a separate CPU.
class MachineFile {
 public:
  explicit MachineFile(const std::vector<std::string>& buses)
      : path_(testing::TempDir() + "/bps-cuda-machine-" + std::to_string(::getpid()) + ".xml") {
    std::ofstream file(path_);
    file << R"(<system version="1">)";
    for (size_t cpu = 0; cpu < buses.size(); ++cpu)
      file << R"(<cpu numaid=")" << cpu << R"("><pci busid=")" << buses[cpu] << R"(" class="0x030200"><gpu dev=")"
           << cpu << R"(" sm="80"/></pci></cpu>)";
    file << "</system>";
  }
  ~MachineFile() { std::filesystem::remove(path_); }
  MachineFile(const MachineFile&) = delete;
  MachineFile& operator=(const MachineFile&) = delete;
  const std::string& path() const { return path_; }

 private:
  const std::string path_;
};

// Device 0 of the fake driver has the bus id 0000:01:00.0.
TEST(Cuda, DeviceIsFoundInTheTopologyByItsBusId) {
  const Inputs inputs(DataType::kInt32, 1000, 1);
  const MachineFile file({"0000:00:00.0", "0000:01:00.0", "0000:02:00.0"});
  const auto linksIn = [&](const std::string& machine) {
    Env env = cudaEnv();
    env.topoFile = machine;
    std::string described;
    const auto body = [&](Communicator& comm) -> Status {
      const AppStream stream;
      BPS_TRY(callAndCheck(comm, stream, inputs, {}));
      described = comm.describeTraffic();
      return {};
    };
    EXPECT_EQ(onRanks(1, body, 0, env), "");
    return gpuLinksOf(described);
  };
  EXPECT_EQ(linksIn(file.path()), (GpuLinks{{"GPU 1", {{"staging up", 4000}, {"staging down", 4000}}}}));
  // A synthetic machine has no bus ids, so rank i uses the machine's GPU i.
  EXPECT_EQ(linksIn("cpu[gpu*3]"), (GpuLinks{{"GPU 0", {{"staging up", 4000}, {"staging down", 4000}}}}));
}

TEST(Cuda, LocalRanksExchangeTheirDevices) {
  std::string described;
  const auto body = [&](Communicator& comm) -> Status {
    if (comm.rank() == 0) described = comm.describeTraffic();
    return {};
  };
  // Devices 0 and 1 of the fake driver have the bus ids 0000:01:00.0 and 0000:02:00.0.
  const MachineFile file({"0000:02:00.0", "0000:01:00.0"});
  EXPECT_EQ(onDevices({0, 1}, body, file.path()), "");
  EXPECT_EQ(nlohmann::json::parse(described)["ranks"].dump(), R"(["CPU 1","CPU 0"])");
}

// As in a real program, kernels run before and after the call on one stream, and the program does
// not wait.
TEST(Cuda, KeepsTheOrderOfTheStream) {
  const size_t count = 300000;
  const Inputs inputs(DataType::kFloat32, count, 2);
  EXPECT_EQ(onRanks(2,
                    [&](Communicator& comm) -> Status {
                      const Bytes& mine = inputs.of[comm.rank()];
                      for (const Memory kind : {Memory::kDevice, Memory::kPinned}) {
                        const AppStream stream;
                        const Buffer send(kind, mine.size()), recv(kind, mine.size());
                        Bytes first, second;
                        const auto release = stream.hold();
                        stream.run([&] { std::memcpy(send.bytes(), mine.data(), mine.size()); });
                        BPS_TRY(comm.allReduce(callOn(stream.get(), send.get(), recv.get(), count, inputs.type)));
                        stream.run([&] { first = recv.content(), std::memset(recv.bytes(), 1, mine.size()); });
                        stream.run([&] { std::memcpy(recv.bytes(), mine.data(), mine.size()); });
                        BPS_TRY(comm.allReduce(callOn(stream.get(), recv.get(), recv.get(), count, inputs.type)));
                        stream.run([&] { second = recv.content(); });
                        // The program has issued all operations above while the stream is held.
                        release();
                        stream.synchronize();
                        if (first != inputs.want || second != inputs.want) return {Code::kInternal, "out of order"};
                      }
                      return {};
                    }),
            "");
}

// Each rank has a separate device, because each device has only one default stream.
TEST(Cuda, WorksOnDefaultStreams) {
  const Inputs inputs(DataType::kFloat32, 100000, 2);
  const auto body = [&](Communicator& comm) -> Status {
    const Bytes& mine = inputs.of[comm.rank()];
    for (const uintptr_t handle : {0U, 1U, 2U}) {
      auto* stream = reinterpret_cast<cuda::Stream>(handle);
      const Buffer send(Memory::kDevice, mine), recv(Memory::kDevice, mine.size());
      BPS_TRY(comm.allReduce(callOn(stream, send.get(), recv.get(), inputs.count, inputs.type)));
      if (api().streamSynchronize(stream) != cuda::kSuccess) return {Code::kInternal, "stream"};
      BPS_TRY(compare(recv, inputs.want, "recvbuff"));
    }
    return {};
  };
  EXPECT_EQ(onDevices({0, 1}, body), "");
}

// The streams depend on each other only through bps's calls. Each call may start as soon as its
// stream reaches the call.
TEST(Cuda, CompletesManyCallsOnManyStreams) {
  const Inputs inputs(DataType::kFloat32, 150000, 3);
  fakeCuda().setCopyRate(2e9);
  EXPECT_EQ(onRanks(
                3,
                [&](Communicator& comm) -> Status {
                  const Bytes& mine = inputs.of[comm.rank()];
                  std::vector<std::unique_ptr<AppStream>> streams;
                  std::vector<std::unique_ptr<Buffer>> sends, recvs;
                  for (size_t i = 0; i < 12; ++i) {
                    if (i < 4) streams.push_back(std::make_unique<AppStream>());
                    sends.push_back(std::make_unique<Buffer>(Memory::kDevice, mine));
                    recvs.push_back(std::make_unique<Buffer>(Memory::kDevice, mine.size()));
                    BPS_TRY(comm.allReduce(
                        callOn(streams[i % 4]->get(), sends[i]->get(), recvs[i]->get(), inputs.count, inputs.type)));
                  }
                  for (const auto& stream : streams) stream->synchronize();
                  for (const auto& recv : recvs) BPS_TRY(compare(*recv, inputs.want, "recvbuff"));
                  return {};
                },
                1),
            "");
  fakeCuda().setCopyRate(0);
}

// bpsCommFinalize waits for the calls in the streams.
TEST(Cuda, DestroyWaitsForCalls) {
  const Inputs inputs(DataType::kFloat32, 500000, 2);
  EXPECT_EQ(
      onRanks(2,
              [&](Communicator& comm) -> Status {
                const Bytes& mine = inputs.of[comm.rank()];
                const AppStream stream;
                const Buffer send(Memory::kDevice, mine), recv(Memory::kDevice, mine.size());
                for (int i = 0; i < 3; ++i)
                  BPS_TRY(comm.allReduce(callOn(stream.get(), send.get(), recv.get(), inputs.count, inputs.type)));
                BPS_TRY(comm.finalize());
                return compare(recv, inputs.want, "recvbuff");
              }),
      "");
}

// The streams of device 2 cannot wait for a value in memory.
TEST(Cuda, DeviceWithoutStreamMemOpsIsRefused) {
  EXPECT_FALSE(device(2).hasStreamMemOps());
  EXPECT_TRUE(device(0).hasStreamMemOps());
  const auto body = [&](Communicator& comm) -> Status {
    return callAndCheck(comm, AppStream(), Inputs(DataType::kFloat32, 1000, 2), {});
  };
  EXPECT_THAT(onDevices({2, 2}, body), HasSubstr("CUDA device 2 has no stream memory operations, which bps needs"));
}

}  // namespace
}  // namespace bps::test
