// All-reduces of n ranks and k servers in one process. The cases cover every type and operation,
// sizes around every boundary, calls in place and out of place, misaligned buffers, several
// machines, and several ranks per machine. Every rank's result must equal the result that the
// public interface specifies, bit for bit.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "src/base/memory.h"
#include "tests/support/cluster.h"
#include "tests/support/data.h"

namespace bps::test {
namespace {

struct Shape {
  size_t ranks, servers, perMachine;
};

struct Case {
  DataType type = DataType::kFloat32;
  CallOp op = CallOp::kSum;
  size_t count = 0;
  bool inPlace = false;
  size_t misalign = 0;  // bytes
  bool large = false;   // see makeLargeInput
};

// A case with the inputs of all ranks and the expected result.
struct PreparedCall {
  Case what;
  std::vector<Bytes> inputs;
  std::vector<ScalarBits> scalars;
  Bytes want;
};

PreparedCall prepare(const Shape& shape, const Case& c, uint64_t seed) {
  PreparedCall p{c, {}, {}, {}};
  for (size_t rank = 0; rank < shape.ranks; ++rank) {
    p.inputs.push_back((c.large ? makeLargeInput : makeInput)(c.type, c.count, rank, seed));
    p.scalars.push_back(makeScalar(c.type, rank));
  }
  p.want = expected({c.type, c.op, c.count, shape.ranks, shape.perMachine}, p.inputs, p.scalars);
  return p;
}

// Issues one call on this rank and compares the result with the expected result.
Status callAndCheck(Communicator& comm, const PreparedCall& p) {
  const Case& c = p.what;
  const Bytes& mine = p.inputs[comm.rank()];
  Bytes send(mine.size() + 16, 0xee), recv(mine.size() + 16, 0xee);
  uint8_t* from = send.data() + c.misalign;
  uint8_t* to = c.inPlace ? from : recv.data() + c.misalign;
  if (!mine.empty()) std::memcpy(from, mine.data(), mine.size());
  AllReduceCall call{from, to, c.count, c.type, c.op, p.scalars[comm.rank()], nullptr, HostStream::create()};
  BPS_TRY(comm.allReduce(call));
  BPS_TRY(call.stream->synchronize());
  HostStream::destroy(call.stream.get());
  if (!mine.empty() && std::memcmp(to, p.want.data(), mine.size()) != 0)
    return {Code::kInternal, "wrong result for " + std::string(dataTypeName(c.type)) + " op " +
                                 std::to_string(static_cast<int>(c.op)) + " count " + std::to_string(c.count) +
                                 (c.inPlace ? " in place" : "")};
  if (!c.inPlace && !mine.empty() && std::memcmp(from, mine.data(), mine.size()) != 0)
    return {Code::kInternal, "the send buffer was changed"};
  if (to[mine.size()] != 0xee) return {Code::kInternal, "bytes after the receive buffer were changed"};
  return {};
}

class AllReduce : public testing::TestWithParam<Shape> {
 protected:
  std::string run(const std::vector<Case>& cases, Job job = {}) {
    const Shape shape = GetParam();
    const Servers servers(shape.servers);
    job.ranks = shape.ranks;
    job.ranksPerMachine = shape.perMachine;
    job.servers = servers.list();
    std::vector<PreparedCall> prepared;
    for (size_t i = 0; i < cases.size(); ++i) prepared.push_back(prepare(shape, cases[i], i));
    return failures(runRanks(job, [&](Communicator& comm) -> Status {
      for (const PreparedCall& each : prepared) BPS_TRY(callAndCheck(comm, each));
      return {};
    }));
  }
};

TEST_P(AllReduce, IsExactForEveryTypeAndOperation) {
  std::vector<Case> cases;
  Job direct;
  direct.env.exchangeBytes.value = 64U << 10;
  for (int type = 0; type < kDataTypes; ++type)
    for (int op = 0; op <= static_cast<int>(CallOp::kPreMulSum); ++op)
      cases.push_back({static_cast<DataType>(type), static_cast<CallOp>(op), 1031, (type + op) % 2 == 0, 0});
  EXPECT_EQ(run(cases), "");
  EXPECT_EQ(run(cases, direct), "");
}

// On every path, bps divides an average and computes its products before it rounds a value for the
// first time.
TEST_P(AllReduce, AveragesAreExactWhenSumsOverflow) {
  std::vector<Case> cases;
  Job split;
  split.env.partitionBytes.value = 8192;
  split.env.exchangeBytes.value = 64;
  split.env.singleOwnerBytes.value = 1024;
  for (int type = 0; type < kDataTypes; ++type)
    for (const size_t bytes : {8UL, 512UL, 40008UL}) {
      const size_t count = bytes / elementBytes(static_cast<DataType>(type));
      for (const CallOp op : {CallOp::kAvg, CallOp::kPreMulSum})
        cases.push_back({static_cast<DataType>(type), op, count, type % 2 == 0, 0, true});
    }
  EXPECT_EQ(run(cases, split), "");
}

TEST_P(AllReduce, IsExactForSizesAroundEveryBoundary) {
  std::vector<Case> cases;
  Job job;
  job.env.partitionBytes.value = 8192;  // chunks of 2048 floats
  job.env.exchangeBytes.value = 64;
  job.env.singleOwnerBytes.value = 1024;
  for (const size_t boundary : {0UL, 1UL, 16UL, 256UL, 2048UL, 4096UL, 2048UL * 16, 2048UL * 33})
    for (const int delta : {-1, 0, 1}) {
      if (delta < 0 && boundary == 0) continue;
      const size_t count = boundary + static_cast<size_t>(delta);
      cases.push_back({DataType::kFloat32, CallOp::kSum, count, false, 0});
      cases.push_back({DataType::kBfloat16, CallOp::kAvg, count, true, 2});
    }
  EXPECT_EQ(run(cases, job), "");
  job.env.exchangeBytes.value = 1U << 30;  // calls of any size use the exchange path, in pieces
  EXPECT_EQ(run(cases, job), "");
}

// bps sends some pieces from the caller's buffer; it copies or splits other calls.
TEST_P(AllReduce, IsExactOnTheExchangePathInPieces) {
  constexpr size_t kPiece = 20U << 10;
  std::vector<Case> cases;
  Job job;
  job.env.partitionBytes.value = kPiece;
  job.env.exchangeBytes.value = 6 * kPiece;
  for (int each = 0; each < kDataTypes; ++each) {
    const auto type = static_cast<DataType>(each);
    const size_t piece = kPiece / elementBytes(type);
    const bool inPlace = each % 2 == 0;
    cases.push_back({type, CallOp::kSum, 5 * piece + 7, inPlace, 0});
    cases.push_back({type, CallOp::kMax, piece, !inPlace, 0});
    cases.push_back({type, CallOp::kAvg, 6 * piece, !inPlace, elementBytes(type)});
    cases.push_back({type, CallOp::kPreMulSum, 6 * piece + 1, inPlace, 0});
  }
  EXPECT_EQ(run(cases, job), "");
}

TEST_P(AllReduce, IsExactForAnyAlignment) {
  std::vector<Case> cases;
  for (size_t misalign = 1; misalign < 8; ++misalign) {
    cases.push_back({DataType::kInt8, CallOp::kSum, 70001, false, misalign});
    cases.push_back({DataType::kFloat64, CallOp::kSum, 9001, misalign % 2 == 0, misalign});
  }
  EXPECT_EQ(run(cases), "");
}

TEST_P(AllReduce, IsExactForLargeBuffers) {
  constexpr size_t kMany = kSanitized ? 1U << 18 : 1U << 20;
  EXPECT_EQ(run({{DataType::kFloat32, CallOp::kSum, 3 * kMany + 1, false, 0},
                 {DataType::kFloat16, CallOp::kSum, kMany + 7, true, 0}}),
            "");
}

std::string shapeName(const testing::TestParamInfo<Shape>& info) {
  return "ranks" + std::to_string(info.param.ranks) + "servers" + std::to_string(info.param.servers) + "perMachine" +
         std::to_string(info.param.perMachine);
}

INSTANTIATE_TEST_SUITE_P(Shapes, AllReduce,
                         testing::Values(Shape{1, 0, 1}, Shape{2, 0, 1}, Shape{2, 1, 1}, Shape{3, 0, 1}, Shape{3, 2, 1},
                                         Shape{3, 3, 1}, Shape{4, 1, 1}, Shape{2, 4, 1}, Shape{5, 0, 1}, Shape{4, 0, 4},
                                         Shape{4, 1, 2}, Shape{6, 2, 2}, Shape{5, 1, 2}),
                         shapeName);

// A caller that waits for one call moves all calls. When a caller stops waiting, the calls that
// remain must end without a waiting caller.
TEST(ProgressEngine, CallsWithoutWaiterComplete) {
  const auto outcomes = runRanks({}, [](Communicator& comm) -> Status {
    const auto waited = HostStream::create(), left = HostStream::create();
    std::vector<std::vector<float>> memory(4, std::vector<float>(100000, 1));
    const auto call = [&](size_t which, size_t count, const std::shared_ptr<HostStream>& stream) {
      float* data = memory[which].data();
      return comm.allReduce({data, data, count, DataType::kFloat32, CallOp::kMax, 0, nullptr, stream});
    };
    for (size_t round = 0; round < 100; ++round) {
      for (int i = 0; i < 10; ++i) {  // after enough such calls, bps leaves the next call to its caller
        BPS_TRY(call(0, 4, waited));
        BPS_TRY(waited->synchronize());
      }
      BPS_TRY(call(1, 100000, left));
      BPS_TRY(call(2, 10, left));
      BPS_TRY(call(0, 4, waited));
      BPS_TRY(call(3, round % 2 == 0 ? 10 : 100000, left));
      BPS_TRY(waited->synchronize());
      while (!left->idle()) std::this_thread::yield();
    }
    HostStream::destroy(waited.get());
    HostStream::destroy(left.get());
    return {};
  });
  EXPECT_EQ(failures(outcomes), "");
}

// With a sanitizer's allocator, only the first releaseFreedMemory() in a process has an effect.
// Each attempt therefore runs in a separate process.
TEST(ReleaseFreedMemory, SeveralThreadsAtOnceDoNotDeadlock) {
  testing::GTEST_FLAG(death_test_style) = "threadsafe";
  const auto all = [] {
    std::atomic<int> ready{0};
    std::vector<std::jthread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&ready] {
        for (++ready; ready < 4;) std::this_thread::yield();
        releaseFreedMemory();
      });
    for (std::jthread& thread : threads) thread.join();
    std::_Exit(0);
  };
  for (int time = 0; time < 5; ++time) EXPECT_EXIT(all(), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace bps::test
