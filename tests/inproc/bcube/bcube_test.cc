// All-reduces of ranks whose machines form a BCube. All NICs are the loopback interface, but machines are connected
// only with their neighbours. Every result must be that of the documented order of additions, bit for bit.
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <fstream>

#include "src/base/format.h"
#include "src/plan/bcube/bcube.h"
#include "tests/support/cluster.h"
#include "tests/support/data.h"
#include "tests/support/temp_path.h"

namespace bps::test {
namespace {

struct Shape {
  size_t n, k, perMachine = 1;
};

struct Case {
  DataType type = DataType::kFloat32;
  CallOp op = CallOp::kSum;
  size_t count = 0;
  bool inPlace = false;
};

struct PreparedCall {
  Case what;
  std::vector<Bytes> inputs;
  std::vector<ScalarBits> scalars;
  Bytes want;
};

class OnBcube : public testing::TestWithParam<Shape> {
 protected:
  void SetUp() override {
    shape_ = Bcube::create(GetParam().n, GetParam().k).value();
    std::ofstream file(file_);
    for (size_t address = 0; address < shape_.machines(); ++address) {
      file << shape_.addressText(address);
      for (size_t level = 0; level < shape_.k(); ++level) file << " 127.0.0.1";
      file << "\n";
    }
  }
  void TearDown() override { ::unlink(file_.c_str()); }

  // The machines do not have the order of their addresses.
  size_t addressOf(size_t machine) const { return (machine * 5 + 1) % shape_.machines(); }
  size_t machineAt(size_t address) const {
    size_t machine = 0;
    while (addressOf(machine) != address) ++machine;
    return machine;
  }

  Job job() const {
    Job job;
    job.ranksPerMachine = GetParam().perMachine;
    job.ranks = shape_.machines() * job.ranksPerMachine;
    job.perMachine = [this](size_t machine, Env& env) {
      env.fabric = fmt::format("bcube:n={},k={},addresses={},address={}", shape_.n(), shape_.k(), file_,
                               shape_.addressText(addressOf(machine)));
    };
    return job;
  }

  // The sum of the machines whose digits agree with `address`, except in the levels of the first `steps` steps.
  SumTree order(size_t thread, size_t address, size_t steps) const {
    SumTree tree;
    if (steps == 0) {
      for (size_t i = 0; i < GetParam().perMachine; ++i)
        tree.parts.push_back({machineAt(address) * GetParam().perMachine + i, {}});
      return tree;
    }
    const size_t level = shape_.levelOf(thread, steps - 1);
    for (size_t digit = 0; digit < shape_.n(); ++digit)
      tree.parts.push_back(order(thread, shape_.neighbour(address, level, digit), steps - 1));
    return tree;
  }

  PreparedCall prepare(const Case& c, uint64_t seed) const {
    PreparedCall p{c, {}, {}, {}};
    const size_t ranks = job().ranks, size = elementBytes(c.type);
    for (size_t rank = 0; rank < ranks; ++rank) {
      p.inputs.push_back(makeInput(c.type, c.count, rank, seed));
      p.scalars.push_back(makeScalar(c.type, rank));
    }
    std::vector<Bytes> wants;
    for (size_t thread = 0; thread < shape_.k(); ++thread)
      wants.push_back(expectedWithOrder({c.type, c.op, c.count, ranks, GetParam().perMachine},
                                        order(thread, 0, shape_.k()), p.inputs, p.scalars));
    p.want.resize(c.count * size);
    BcubeLimits limits;
    if (GetParam().perMachine > 1) limits.quantumBytes = constants::kLocalQuantumBytes;
    for (const BcubeBlock& block : cutForBcube(shape_, c.count, size, limits))
      std::copy_n(wants[block.thread].begin() + static_cast<std::ptrdiff_t>(block.range.offset * size),
                  block.range.count * size, p.want.begin() + static_cast<std::ptrdiff_t>(block.range.offset * size));
    return p;
  }

  static Status callAndCheck(Communicator& comm, const PreparedCall& p) {
    const Case& c = p.what;
    const Bytes& mine = p.inputs[comm.rank()];
    Bytes send = mine, recv(mine.size() + 16, 0xee);
    send.resize(mine.size() + 16, 0xee);
    uint8_t* to = c.inPlace ? send.data() : recv.data();
    AllReduceCall call{send.data(), to, c.count, c.type, c.op, p.scalars[comm.rank()], nullptr, HostStream::create()};
    BPS_TRY(comm.allReduce(call));
    BPS_TRY(call.stream->synchronize());
    HostStream::destroy(call.stream.get());
    if (!std::equal(p.want.begin(), p.want.end(), to))
      return failure(Code::kInternal, "wrong result for {} op {} count {}{}", dataTypeName(c.type),
                     static_cast<int>(c.op), c.count, c.inPlace ? " in place" : "");
    if (!c.inPlace && !std::equal(mine.begin(), mine.end(), send.begin()))
      return {Code::kInternal, "the send buffer was changed"};
    if (to[mine.size()] != 0xee) return {Code::kInternal, "bytes after the receive buffer were changed"};
    return {};
  }

  std::string run(const std::vector<Case>& cases, const Job& job) const {
    std::vector<PreparedCall> prepared;
    for (size_t i = 0; i < cases.size(); ++i) prepared.push_back(prepare(cases[i], i));
    return failures(runRanks(job, [&](Communicator& comm) -> Status {
      for (const PreparedCall& each : prepared) BPS_TRY(callAndCheck(comm, each));
      return {};
    }));
  }

  Bcube shape_;
  const std::string file_ = tempPath("addresses");
};

TEST_P(OnBcube, IsExactForEveryTypeAndOperation) {
  std::vector<Case> cases;
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op <= static_cast<int>(CallOp::kPreMulSum); ++op)
      cases.push_back({static_cast<DataType>(type), static_cast<CallOp>(op), 9001, (type + op) % 2 == 0});
  EXPECT_EQ(run(cases, job()), "");
}

TEST_P(OnBcube, IsExactForEverySizeAndSizeOfBlocks) {
  std::vector<Case> cases;
  for (const size_t count : {0UL, 1UL, 3UL, 100UL, 4096UL, 4097UL, 20000UL, 300001UL}) {
    cases.push_back({DataType::kFloat32, CallOp::kSum, count, false});
    cases.push_back({DataType::kFloat16, CallOp::kAvg, count, true});
  }
  EXPECT_EQ(run(cases, job()), "");
  Job small = job();
  small.env.partitionBytes.value = 4096;
  small.env.checksum = true;
  EXPECT_EQ(run(cases, small), "");
}

TEST_P(OnBcube, ADisagreementOfTwoRanksNamesBothCalls) {
  const std::vector<Status> outcomes = runRanks(job(), [&](Communicator& comm) -> Status {
    std::vector<float> data(40000);
    const size_t count = comm.rank() == 1 ? 39999 : 40000;
    AllReduceCall call{data.data(),  data.data(), count,   DataType::kFloat32,
                       CallOp::kSum, 0,           nullptr, HostStream::create()};
    BPS_TRY(comm.allReduce(call));
    const Status done = call.stream->synchronize();
    HostStream::destroy(call.stream.get());
    return done.clone();
  });
  for (const Status& outcome : outcomes) {
    ASSERT_FALSE(outcome.ok());
    EXPECT_NE(std::string(outcome.message()).find("39999"), std::string::npos) << outcome.message();
    EXPECT_NE(std::string(outcome.message()).find("40000"), std::string::npos) << outcome.message();
  }
}

TEST_P(OnBcube, TwoMachinesWithOneAddressAreNamed) {
  Job twice = job();
  twice.perMachine = [ordinary = job().perMachine](size_t machine, Env& env) {
    ordinary(machine == 1 ? 0 : machine, env);
  };
  for (const Status& outcome : runRanks(twice, [](Communicator&) -> Status { return {}; })) {
    ASSERT_FALSE(outcome.ok());
    EXPECT_NE(std::string(outcome.message()).find("both have the address"), std::string::npos) << outcome.message();
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, OnBcube,
                         testing::Values(Shape{2, 1}, Shape{2, 2}, Shape{3, 2}, Shape{2, 3}, Shape{2, 2, 2}),
                         [](const auto& shape) {
                           return fmt::format("n{}k{}x{}", shape.param.n, shape.param.k, shape.param.perMachine);
                         });

}  // namespace
}  // namespace bps::test
