// Ranks disagree, abort or leave, with a network between them and any number of servers.
#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>

#include "tests/support/cluster.h"

namespace bps::test {
namespace {

struct Shape {
  size_t ranks, servers, perMachine;
  int rails = 0;
};

class Disagreement : public testing::TestWithParam<Shape> {
 protected:
  // Runs `body` on all ranks and returns the status of each rank.
  std::vector<Status> run(const Body& body) {
    const Servers servers(GetParam().servers);
    Job job;
    job.ranks = GetParam().ranks;
    job.ranksPerMachine = GetParam().perMachine;
    job.servers = servers.list();
    job.env.timeout.value = 8;
    job.env.exchangeBytes.value = exchangeBytes_;
    job.env.rails = GetParam().rails;
    return runRanks(job, body);
  }
  std::vector<Status> afterADeath(const std::function<Status(Communicator&)>& rest);
  uint64_t exchangeBytes_ = 0;
};

Status call(Communicator& comm, std::vector<double>& memory, size_t count, DataType type, CallOp op = CallOp::kSum) {
  const auto stream = HostStream::create();
  Status issued = comm.allReduce({memory.data(), memory.data(), count, type, op, 0, nullptr, stream});
  Status done = stream->synchronize();
  HostStream::destroy(stream.get());
  return issued.ok() ? std::move(done) : std::move(issued);
}

void expectAll(const std::vector<Status>& outcomes, Code code, const std::vector<std::string>& texts) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].code(), code) << "rank " << rank << ": " << outcomes[rank].message();
    for (const std::string& text : texts)
      EXPECT_NE(std::string(outcomes[rank].message()).find(text), std::string::npos)
          << "rank " << rank << ": " << outcomes[rank].message() << "\n misses: " << text;
  }
}

TEST_P(Disagreement, DifferentCountsFailAllRanksNamingBothCalls) {
  const auto outcomes = run([](Communicator& comm) -> Status {
    std::vector<double> memory(100000, 1);
    BPS_TRY(call(comm, memory, 5000, DataType::kFloat64));
    return call(comm, memory, comm.rank() + 1 == comm.nRanks() ? 100 : 90000, DataType::kFloat64);
  });
  const std::string last = "rank " + std::to_string(GetParam().ranks - 1) + " (";
  expectAll(outcomes, Code::kInvalidUsage, {last, "#1 of 90000 float64, sum", "#1 of 100 float64, sum"});
}

// A call on the exchange path involves no server. The ranks must therefore find out directly from
// each other that one of them makes a different call.
TEST_P(Disagreement, ExchangePathCallAndLargerCallFailAllRanks) {
  for (const auto& [exchangeBytes, larger] : {std::pair{4096UL, 1000UL}, {4096UL, 90000UL}, {1UL << 30, 90000UL}}) {
    exchangeBytes_ = exchangeBytes;
    const auto outcomes = run([&, size = larger](Communicator& comm) -> Status {
      std::vector<double> memory(100000, 1);
      BPS_TRY(call(comm, memory, 50000, DataType::kFloat64));
      BPS_TRY(call(comm, memory, 50, DataType::kFloat64));
      return call(comm, memory, comm.rank() + 1 == comm.nRanks() ? 100 : size, DataType::kFloat64);
    });
    const std::string last = "rank " + std::to_string(GetParam().ranks - 1) + " (";
    expectAll(outcomes, Code::kInvalidUsage,
              {last, "#2 of " + std::to_string(larger) + " float64, sum", "#2 of 100 float64, sum"});
  }
}

TEST_P(Disagreement, DifferentTypesAndOperationsFailAllRanks) {
  for (const uint64_t exchangeBytes : {0UL, 1UL << 30}) {
    exchangeBytes_ = exchangeBytes;
    const auto outcomes = run([](Communicator& comm) -> Status {
      std::vector<double> memory(100000, 1);
      return call(comm, memory, 1000, comm.rank() == 0 ? DataType::kInt64 : DataType::kFloat64,
                  comm.rank() == 0 ? CallOp::kMax : CallOp::kSum);
    });
    expectAll(outcomes, Code::kInvalidUsage, {"rank 0 (", "#0 of 1000 int64, max", "#0 of 1000 float64, sum"});
  }
}

TEST_P(Disagreement, ZeroAndNonzeroCountsFailAllRanks) {
  for (const uint64_t exchangeBytes : {0UL, 4096UL, 1UL << 30}) {
    exchangeBytes_ = exchangeBytes;
    const auto outcomes = run([](Communicator& comm) -> Status {
      std::vector<double> memory(100000, 1);
      return call(comm, memory, comm.rank() == 0 ? 0 : 70000, DataType::kFloat64);
    });
    expectAll(outcomes, Code::kInvalidUsage, {"rank 0 (", "of 0 float64", "of 70000 float64"});
  }
}

TEST_P(Disagreement, AbortIsReportedToAllRanks) {
  for (const uint64_t exchangeBytes : {0UL, 1UL << 30}) {  // calls use the split path or the exchange path
    exchangeBytes_ = exchangeBytes;
    const auto outcomes = run([](Communicator& comm) -> Status {
      std::vector<double> memory(100000, 1);
      BPS_TRY(call(comm, memory, 70000, DataType::kFloat64));
      if (comm.rank() == 1) comm.abort();
      return call(comm, memory, 70000, DataType::kFloat64);
    });
    for (size_t rank = 0; rank < outcomes.size(); ++rank) {
      if (rank == 1) continue;
      EXPECT_EQ(outcomes[rank].code(), Code::kRemote) << rank << ": " << outcomes[rank].message();
      EXPECT_NE(std::string(outcomes[rank].message()).find("rank 1 ("), std::string::npos) << outcomes[rank].message();
    }
  }
}

TEST_P(Disagreement, DeadRankIsNamed) {
  const size_t victim = GetParam().ranks - 1;
  for (const uint64_t exchangeBytes : {0UL, 1UL << 30}) {
    exchangeBytes_ = exchangeBytes;
    const auto outcomes = run([victim](Communicator& comm) -> Status {
      std::vector<double> memory(100000, 1);
      BPS_TRY(call(comm, memory, 70000, DataType::kFloat64));
      if (comm.rank() == victim) return {Code::kInternal, "gone"};  // the rank's communicator ends without a goodbye
      return call(comm, memory, 70000, DataType::kFloat64);
    });
    for (size_t rank = 0; rank < victim; ++rank) {
      EXPECT_EQ(outcomes[rank].code(), Code::kRemote) << rank << ": " << outcomes[rank].message();
      EXPECT_NE(std::string(outcomes[rank].message()).find("rank " + std::to_string(victim) + " ("), std::string::npos)
          << outcomes[rank].message();
    }
  }
}

// After a first call, the last rank ends without a goodbye. The other ranks run `rest` as soon as
// they know that the last rank has ended.
std::vector<Status> Disagreement::afterADeath(const std::function<Status(Communicator&)>& rest) {
  std::atomic<size_t> done{0};
  return run([&](Communicator& comm) -> Status {
    std::vector<double> memory(100000, 1);
    BPS_TRY(call(comm, memory, 70000, DataType::kFloat64));
    ++done;
    const Deadline deadline = Deadline::in(std::chrono::seconds(20));
    while (done < GetParam().ranks && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (comm.rank() + 1 == GetParam().ranks) return {Code::kInternal, "gone"};
    while (comm.failure().ok() && !deadline.passed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    EXPECT_EQ(comm.failure().code(), Code::kRemote);
    return rest(comm);
  });
}

TEST_P(Disagreement, FinalizeSucceedsAfterADeathIfAllCallsAreDone) {
  const auto outcomes = afterADeath([](Communicator& comm) { return comm.finalize(); });
  for (size_t rank = 0; rank + 1 < outcomes.size(); ++rank)
    EXPECT_TRUE(outcomes[rank].ok()) << outcomes[rank].message();
}

TEST_P(Disagreement, FinalizeFailsAfterARefusedCall) {
  const auto outcomes = afterADeath([](Communicator& comm) {
    std::vector<double> memory(100000, 1);
    EXPECT_FALSE(call(comm, memory, 70000, DataType::kFloat64).ok());
    return comm.finalize();
  });
  for (size_t rank = 0; rank + 1 < outcomes.size(); ++rank) EXPECT_EQ(outcomes[rank].code(), Code::kRemote);
}

TEST_P(Disagreement, CallAfterARankLeftNamesThatRank) {
  const auto outcomes = run([](Communicator& comm) -> Status {
    std::vector<double> memory(100000, 1);
    BPS_TRY(call(comm, memory, 70000, DataType::kFloat64));
    if (comm.rank() == 1) return comm.finalize();
    return call(comm, memory, 70000, DataType::kFloat64);
  });
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    if (rank == 1) continue;
    EXPECT_EQ(outcomes[rank].code(), Code::kRemote) << rank << ": " << outcomes[rank].message();
    EXPECT_NE(std::string(outcomes[rank].message()).find("rank"), std::string::npos) << outcomes[rank].message();
  }
}

std::string shapeName(const testing::TestParamInfo<Shape>& info) {
  return "ranks" + std::to_string(info.param.ranks) + "servers" + std::to_string(info.param.servers) + "perMachine" +
         std::to_string(info.param.perMachine) + "rails" + std::to_string(info.param.rails);
}

INSTANTIATE_TEST_SUITE_P(Shapes, Disagreement,
                         testing::Values(Shape{3, 0, 1}, Shape{3, 1, 1}, Shape{3, 3, 1}, Shape{5, 0, 1}, Shape{2, 0, 2},
                                         Shape{4, 1, 2}, Shape{4, 1, 2, 2}),
                         shapeName);

}  // namespace
}  // namespace bps::test
