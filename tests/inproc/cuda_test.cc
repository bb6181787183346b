// All-reduce of buffers in the memory of CUDA devices, against a double of the driver in which the CPU cannot touch
// device memory and streams are real queues: the same bits as on the host, order within streams, a caller that is never
// held up.
#include <gmock/gmock.h>

#include <cstring>

#include "tests/inproc/cuda_machine.h"

namespace bps::test {
namespace {

using testing::HasSubstr;

constexpr size_t kChunk = 256U << 10;  // bytes of the largest chunk

// Runs a body on each of n ranks, each a machine of its own, with device 0's context current.
std::string onRanks(size_t ranks, const Body& body, size_t servers = 0, Env env = cudaEnv()) {
  const Servers cluster(servers);
  Job job;
  job.ranks = ranks;
  job.servers = cluster.list();
  job.env = std::move(env);
  return failures(runRanks(job, [&](Communicator& comm) -> Status {
    const cuda::Scope scope(device(comm.device().value_or(0)));
    return body(comm);
  }));
}

// The same with rank i on the i-th of these devices.
std::string onDevices(const std::vector<int>& devices, const Body& body) {
  const UniqueId id = std::move(UniqueId::create(cudaEnv())).value();
  std::vector<std::future<Status>> ranks;
  for (uint32_t rank = 0; rank < devices.size(); ++rank)
    ranks.push_back(std::async(std::launch::async, [&, rank]() -> Status {
      const cuda::Scope scope(device(devices[rank]));
      Env env = cudaEnv();
      env.hostId = "machine" + std::to_string(rank);
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

struct Inputs {
  Inputs(DataType type_, size_t count_, size_t ranks, CallOp op_ = CallOp::kSum) : type(type_), count(count_), op(op_) {
    for (size_t rank = 0; rank < ranks; ++rank) {
      of.push_back(makeInput(type, count, rank));
      scalars.push_back(makeScalar(type, rank));
    }
    want = expected({type, op, count, ranks, 1}, of, scalars);
  }
  DataType type;
  size_t count;
  CallOp op;
  std::vector<Bytes> of;
  std::vector<ScalarBits> scalars;
  Bytes want;
};

struct Place {
  Memory send = Memory::kDevice, recv = Memory::kDevice;
  bool inPlace = false;
};

Status compare(const Buffer& buffer, const Bytes& want, const char* what) {
  if (buffer.content() == want) return {};
  return {Code::kInternal, std::string("wrong bytes in ") + what};
}

// One call on this rank, on its stream, compared with the right result.
Status callAndCheck(Communicator& comm, const AppStream& stream, const Inputs& inputs, const Place& place) {
  const Bytes& mine = inputs.of[comm.rank()];
  const Buffer send(place.send, mine), other(place.recv, mine.size());
  const Buffer& recv = place.inPlace ? send : other;
  AllReduceCall call = callOn(stream.get(), send.get(), recv.get(), inputs.count, inputs.type);
  call.op = inputs.op;
  call.scalar = inputs.scalars[comm.rank()];
  BPS_TRY(comm.allReduce(call));
  stream.synchronize();
  BPS_TRY(comm.failure());
  BPS_TRY(compare(recv, inputs.want, "recvbuff"));
  if (!place.inPlace) BPS_TRY(compare(send, mine, "sendbuff"));
  return {};
}

TEST(Cuda, SameBitsAsOnTheHost) {
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

TEST(Cuda, OneRankAlone) {
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

TEST(Cuda, EveryKindOfMemory) {
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
  EXPECT_EQ(theDouble().calls("pageable copy"), 0U) << "a copy that a real driver might do at once";
}

// Ranks that share a machine order their calls by CUDA's streams too; memory of devices is not for them yet.
TEST(Cuda, PinnedMemoryOfRanksOnOneMachine) {
  Inputs inputs(DataType::kFloat16, 100000, 2);
  inputs.want = expected({inputs.type, inputs.op, inputs.count, 2, 2}, inputs.of, inputs.scalars);
  Job job;
  job.ranks = job.ranksPerMachine = 2;
  job.env = cudaEnv();
  EXPECT_EQ(failures(runRanks(job,
                              [&](Communicator& comm) -> Status {
                                const cuda::Scope scope(device(0));
                                const AppStream stream;
                                return callAndCheck(comm, stream, inputs, {Memory::kPinned, Memory::kPinned, false});
                              })),
            "");
}

// What a program does: kernels before and after, on one stream, without a wait in between.
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
                        // All that was issued while the stream stood still.
                        release();
                        stream.synchronize();
                        if (first != inputs.want || second != inputs.want) return {Code::kInternal, "out of order"};
                      }
                      return {};
                    }),
            "");
}

// Each rank on a device of its own: a default stream is one per device.
TEST(Cuda, DefaultStreams) {
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

// Streams that wait for each other's work only through bps's calls: each call may start as soon as its own has come.
TEST(Cuda, ManyStreamsAndCalls) {
  const Inputs inputs(DataType::kFloat32, 150000, 3);
  theDouble().copyRate(2e9);
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
  theDouble().copyRate(0);
}

// Finalizing waits for what is in the streams.
TEST(Cuda, EndsAfterItsCalls) {
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

// A device whose streams cannot wait in memory.
TEST(Cuda, WaitsByHostFunctionWhereNeedBe) {
  const Inputs inputs(DataType::kFloat32, 100000, 2);
  EXPECT_FALSE(device(2).waitsInMemory());
  EXPECT_TRUE(device(0).waitsInMemory());
  const auto body = [&](Communicator& comm) -> Status {
    const AppStream stream;
    for (int i = 0; i < 3; ++i) BPS_TRY(callAndCheck(comm, stream, inputs, {}));
    return {};
  };
  EXPECT_EQ(onDevices({2, 2}, body), "");
}

}  // namespace
}  // namespace bps::test
