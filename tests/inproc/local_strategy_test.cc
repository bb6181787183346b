// Local strategies with real bytes. Ranks act as the GPUs of a topology file. Every result has
// exactly the bits of the strategy's order of summation. Every link carries exactly the predicted
// number of bytes.
#include <gtest/gtest.h>

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>
#include <numeric>
#include <string_view>

#include "tests/support/cluster.h"
#include "tests/support/data.h"
#include "topo/load_topology.h"
#include "topo/plan/planner.h"

namespace bps::test {
namespace {

std::string topologyFile(const std::string& name) {
  if (name.starts_with("cpu[")) return name;
  std::string path = "tests/data/topo/" + name + ".xml";
  for (int up = 0; up < 6 && ::access(path.c_str(), R_OK) != 0; ++up) path = "../" + path;
  return path;
}

struct Shape {
  std::vector<size_t> machines;
  size_t servers = 0;
  std::string topology, strategy;
  int rails = 0;
  int nextCase = 0;  // selects the type and operation of the next case

  size_t ranks() const { return std::accumulate(machines.begin(), machines.end(), size_t{0}); }
};

LocalPlan planOf(const Shape& shape, size_t ranks) {
  const Topology topology = std::move(loadTopology(topologyFile(shape.topology))).value();
  LocalPlanRequest job;
  for (size_t rank = 0; rank < ranks; ++rank)
    job.gpus.push_back(rank < topology.all(NodeKind::kGpu).size() ? static_cast<int>(rank) : -1);
  job.network = shape.machines.size() > 1 ? 1 : 0;
  job.strategy = std::move(parseStrategy(shape.strategy)).value();
  return std::move(planLocal(topology, job)).value().best().plan;
}

bool isRing(const LocalPlan& plan) {
  return plan.strategy == Strategy::kFlatRing || (plan.strategy != Strategy::kCpuAssisted && plan.alongRing);
}

// Returns the order of summation of a strategy that is not a ring. In a ring, the order differs
// from part to part of a chunk.
SumTree orderOf(const Shape& shape) {
  SumTree all;
  size_t first = 0;
  for (const size_t ranks : shape.machines) {
    const LocalPlan plan = planOf(shape, ranks);
    SumTree machine;
    for (const SwitchGroup& group : plan.placement.groups) {
      SumTree under;
      for (const size_t rank : group.ranks) under.parts.push_back({first + rank, {}});
      if (plan.strategy == Strategy::kCpuAssisted) machine.parts.push_back(under);
      else machine.parts.insert(machine.parts.end(), under.parts.begin(), under.parts.end());
    }
    if (plan.strategy != Strategy::kCpuAssisted)
      std::sort(machine.parts.begin(), machine.parts.end(),
                [](const SumTree& a, const SumTree& b) { return a.rank < b.rank; });
    all.parts.push_back(machine);
    first += ranks;
  }
  return all;
}

struct Case {
  DataType type = DataType::kFloat32;
  CallOp op = CallOp::kSum;
  size_t count = 0;
  bool large = false;  // see makeLargeInput

  Bytes input(size_t rank, uint64_t seed) const {
    return (large ? makeLargeInput : makeInput)(type, count, rank, seed);
  }
};

bool isExactInAnyOrder(const Case& c) {
  const bool floating = c.type >= DataType::kFloat16;
  return !floating || c.op == CallOp::kMax || c.op == CallOp::kMin;
}

constexpr int kOps = 6, kPairs = static_cast<int>(kDataTypes) * kOps;

// Returns true if BPS_TEST_LONG requests a long run. Returns false under a sanitizer, with which a
// long run would take half an hour.
bool longRun() {
  const char* text = std::getenv("BPS_TEST_LONG");
  return !kSanitized && text != nullptr && std::string_view(text) == "1";
}

// The sizes of the cases are near one element per rank, one chunk, and several chunks. A long run
// combines each size with every type and operation. A short run combines each size with one type
// and one operation, which differ from shape to shape.
std::vector<Case> casesFor(const Shape& shape, bool ring) {
  std::vector<Case> cases;
  int nextCase = shape.nextCase;
  for (const size_t count : {0UL, 1UL, 3UL, 7UL, 8UL, 9UL, 65UL, 511UL, 1031UL, 2047UL, 2048UL, 2049UL, 2051UL, 16383UL,
                             32768UL, 33001UL, 70003UL})
    for (int left = longRun() ? kPairs : 1; left > 0; --left) {
      Case c;
      do {
        // The factor 29 makes consecutive cases differ in type and operation.
        const int pair = nextCase++ * 29 % kPairs;
        c = {static_cast<DataType>(pair / kOps), static_cast<CallOp>(pair % kOps), count, false};
      } while (ring && !isExactInAnyOrder(c));
      cases.push_back(c);
    }
  cases.push_back({ring ? DataType::kInt32 : DataType::kFloat32, CallOp::kSum, 300007 + shape.ranks(), false});
  for (const DataType type : {DataType::kFloat16, DataType::kBfloat16, DataType::kFloat8e4m3, DataType::kFloat8e5m2,
                              DataType::kFloat32, DataType::kInt8})
    for (const size_t count : {9UL, 7001UL})
      if (const Case c{type, CallOp::kAvg, count, true}; !ring || isExactInAnyOrder(c)) cases.push_back(c);
  return cases;
}

class LocalStrategy : public testing::TestWithParam<Shape> {
 protected:
  static Job jobOf(const Shape& shape, const Servers& servers) {
    Job job;
    job.ranks = shape.ranks();
    job.machines = shape.machines;
    job.servers = servers.list();
    job.env.topoFile = topologyFile(shape.topology);
    job.env.strategy = shape.strategy;
    job.env.rails = shape.rails;
    return job;
  }
};

Status callOnce(Communicator& comm, const Case& c, const Bytes& input, ScalarBits scalar, Bytes& result) {
  const bool inPlace = c.count % 2 == 0;
  result = inPlace ? input : Bytes(input.size());
  const auto stream = HostStream::create();
  AllReduceCall call{
      inPlace ? result.data() : input.data(), result.data(), c.count, c.type, c.op, scalar, nullptr, stream};
  BPS_TRY(comm.allReduce(call));
  BPS_TRY(stream->synchronize());
  HostStream::destroy(stream.get());
  return {};
}

TEST_P(LocalStrategy, ResultIsBitExact) {
  const Shape& shape = GetParam();
  const Servers servers(shape.servers);
  Job job = jobOf(shape, servers);
  job.env.partitionBytes.value = 8192;
  job.env.exchangeBytes.value = 64;
  job.env.singleOwnerBytes.value = 1024;
  bool ring = false;
  for (const size_t ranks : shape.machines) ring = ring || (ranks > 1 && isRing(planOf(shape, ranks)));
  const SumTree order = orderOf(shape);
  const std::vector<Case> cases = casesFor(shape, ring);
  std::vector<std::vector<Bytes>> inputs(cases.size());
  std::vector<Bytes> wants;
  std::vector<ScalarBits> scalars(shape.ranks());
  for (size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    for (size_t rank = 0; rank < shape.ranks(); ++rank) {
      inputs[i].push_back(c.input(rank, i));
      scalars[rank] = makeScalar(c.type, rank);
    }
    wants.push_back(expectedWithOrder({c.type, c.op, c.count, shape.ranks(), 0}, order, inputs[i], scalars));
  }
  EXPECT_EQ(
      failures(runRanks(job,
                        [&](Communicator& comm) -> Status {
                          for (size_t i = 0; i < cases.size(); ++i) {
                            const Case& c = cases[i];
                            Bytes result;
                            BPS_TRY(callOnce(comm, c, inputs[i][comm.rank()], makeScalar(c.type, comm.rank()), result));
                            if (result != wants[i])
                              return {Code::kInternal, "wrong " + std::string(dataTypeName(c.type)) + " op " +
                                                           std::to_string(static_cast<int>(c.op)) + " count " +
                                                           std::to_string(c.count)};
                          }
                          return {};
                        })),
      "");
}

using Kinds = std::map<std::string, uint64_t>;

Kinds bytesByKind(const std::array<uint64_t, kCopyKinds>& bytes) {
  Kinds kinds;
  for (size_t kind = 0; kind < kCopyKinds; ++kind)
    if (bytes[kind] > 0 && kind != size_t(CopyKind::kNic))
      kinds[std::string(nameOf(static_cast<CopyKind>(kind)))] = bytes[kind];
  return kinds;
}

// The chunks of these calls divide evenly among the ranks. The bytes on each link therefore do not
// depend on the division into chunks.
class LinkCounters : public LocalStrategy {};

TEST_P(LinkCounters, MatchThePrediction) {
  const Shape& shape = GetParam();
  const Servers servers(shape.servers);
  constexpr size_t kCalls = 2;
  const size_t ranks = shape.machines.front(), count = 196608;
  std::string seen;
  std::barrier everybody(static_cast<std::ptrdiff_t>(shape.ranks()));
  EXPECT_EQ(failures(runRanks(jobOf(shape, servers),
                              [&](Communicator& comm) -> Status {
                                const Bytes input(count * 4);
                                Bytes result;
                                for (size_t i = 0; i < kCalls; ++i)
                                  BPS_TRY(callOnce(comm, {DataType::kFloat32, CallOp::kSum, count}, input, 0, result));
                                everybody.arrive_and_wait();
                                if (comm.rank() == 0) seen = comm.describeTraffic();
                                return {};
                              })),
            "");
  const auto machine = nlohmann::json::parse(seen);
  EXPECT_EQ(machine["calls"], kCalls);
  EXPECT_EQ(machine["bytes"], kCalls * count * 4);
  const Topology topology = std::move(loadTopology(topologyFile(shape.topology))).value();
  const Traffic predicted = predict(topology, planOf(shape, ranks), kCalls * count * 4, 4);
  ASSERT_EQ(machine["links"].size(), topology.links().size());
  uint64_t nic = 0;
  for (LinkId id = 0; id < topology.links().size(); ++id) {
    const auto& link = machine["links"][id];
    EXPECT_EQ(link["link"], topology.nameOfLink(id));
    for (const bool up : {true, false}) {
      Kinds kinds = link[up ? "up" : "down"].get<Kinds>();
      nic += kinds["nic"];
      kinds.erase("nic");
      EXPECT_EQ(kinds, bytesByKind(up ? predicted.linkBytes(id).up : predicted.linkBytes(id).down))
          << link["link"] << (up ? " up" : "");
    }
  }
  EXPECT_EQ(nic > 0, shape.machines.size() > 1 && !topology.all(NodeKind::kNic).empty());
}

std::string shapeName(const testing::TestParamInfo<Shape>& info) {
  std::string name;
  for (const size_t ranks : info.param.machines) name += std::to_string(ranks) + "and";
  name += std::to_string(info.param.servers) + "servers_" + info.param.topology.substr(0, 4) + info.param.strategy;
  if (info.param.rails > 0) name += std::to_string(info.param.rails) + "rails";
  for (char& c : name)
    if (std::isalnum(static_cast<unsigned char>(c)) == 0) c = '_';
  return name + std::to_string(info.index);
}

// A long run tests every strategy on all machines. A short run omits half of the most expensive
// combinations.
std::vector<Shape> everyShape() {
  const std::array<Shape, 4> strategies = {Shape{{}, 0, "pcie_only", "cpu_assisted"},
                                           Shape{{}, 1, "eight_nics", "scatter"}, Shape{{}, 2, "nvlink", "rooted"},
                                           Shape{{}, 0, "pcie_only", "flat_ring"}};
  const auto with = [&](std::vector<size_t> machines, std::vector<size_t> chosen, std::vector<Shape>& shapes) {
    for (size_t i = 0; i < strategies.size(); ++i) {
      if (!longRun() && std::find(chosen.begin(), chosen.end(), i) == chosen.end()) continue;
      shapes.push_back(strategies[i]);
      shapes.back().machines = machines;
      if (machines.size() == 1) shapes.back().servers = 0;
    }
  };
  std::vector<Shape> shapes = {{{5, 2}, 0, "cpu[sw[gpu*3] nic] cpu[gpu]", "cpu_assisted"},
                               {{8, 8}, 1, "pcie_only", "auto", 8},
                               {{3, 4, 3}, 2, "eight_nics", "scatter", 3},
                               {{4, 4}, 0, "nvlink", "rooted", 4},
                               {{3, 1}, 1, "pcie_only", "auto", 3}};
  with({8}, {0, 1, 2, 3}, shapes);
  with({8, 8}, {3}, shapes);
  with({4, 4, 4}, {1, 2}, shapes);
  with({1, 1, 1, 1}, {0}, shapes);
  with({1, 3}, {0, 1, 2, 3}, shapes);
  for (size_t i = 0; i < shapes.size(); ++i) shapes[i].nextCase = static_cast<int>(17 * i);
  return shapes;
}

INSTANTIATE_TEST_SUITE_P(Shapes, LocalStrategy, testing::ValuesIn(everyShape()), shapeName);
INSTANTIATE_TEST_SUITE_P(Shapes, LinkCounters,
                         testing::Values(Shape{{8}, 0, "pcie_only", "auto"}, Shape{{8}, 0, "pcie_only", "flat_ring"},
                                         Shape{{8, 8}, 1, "pcie_only", "auto"}, Shape{{8}, 0, "eight_nics", "rooted"},
                                         Shape{{2, 2}, 0, "eight_nics", "rooted"},
                                         Shape{{4, 4, 4}, 0, "eight_nics", "scatter"},
                                         Shape{{8, 8}, 1, "pcie_only", "auto", 8},
                                         Shape{{2, 2}, 0, "eight_nics", "scatter", 2}),
                         shapeName);

// Each call is one chunk here, so every rank of the ring sums an equal part of the call.
TEST(LocalRingOrder, SumStartsAfterTheOwnerAndRoundsAtEveryRank) {
  const Shape shape{{8}, 0, "pcie_only", "flat_ring"};
  const Servers servers(0);
  Job job;
  job.ranks = job.ranksPerMachine = 8;
  job.env.topoFile = topologyFile(shape.topology);
  job.env.strategy = shape.strategy;
  const LocalPlan plan = planOf(shape, 8);
  constexpr size_t kCount = 808;
  for (const DataType type : {DataType::kFloat16, DataType::kFloat8e4m3, DataType::kFloat32})
    for (const CallOp op : {CallOp::kSum, CallOp::kAvg, CallOp::kPreMulSum}) {
      const Case c{type, op, kCount, op == CallOp::kAvg};
      const size_t unit = elementBytes(type);
      std::vector<Bytes> inputs;
      std::vector<ScalarBits> scalars;
      for (size_t rank = 0; rank < 8; ++rank) {
        inputs.push_back(c.input(rank, 3));
        scalars.push_back(makeScalar(type, rank));
      }
      Bytes want(kCount * unit);
      for (size_t p = 0; p < 8; ++p) {
        const auto begin = static_cast<std::ptrdiff_t>(kCount / 8 * p * unit);
        const auto end = static_cast<std::ptrdiff_t>(kCount / 8 * (p + 1) * unit);
        const size_t owner = plan.assignments[p].rank;
        const size_t at = static_cast<size_t>(std::find(plan.ring.begin(), plan.ring.end(), owner) - plan.ring.begin());
        const auto after = [&](size_t i) { return plan.ring[(at + i) % 8]; };
        Bytes sum = inputs[after(1)];
        for (size_t i = 2; i <= 8; ++i)
          sum = referenceSum({type, op, kCount, 8, 0},
                             {{&sum, i == 2, scalars[after(1)]}, {&inputs[after(i)], true, scalars[after(i)]}}, i == 8);
        std::copy(sum.begin() + begin, sum.begin() + end, want.begin() + begin);
      }
      EXPECT_EQ(failures(runRanks(job,
                                  [&](Communicator& comm) -> Status {
                                    Bytes result;
                                    BPS_TRY(callOnce(comm, c, inputs[comm.rank()], scalars[comm.rank()], result));
                                    return result == want ? Status() : Status(Code::kInternal, "another order");
                                  })),
                "");
    }
}

TEST(LocalTopology, AnInvalidStrategyIsReportedToAllRanks) {
  Job job;
  job.ranks = job.ranksPerMachine = 3;
  job.env.strategy = "sideways";
  for (const Status& outcome : runRanks(job, [](Communicator&) -> Status { return {}; }))
    EXPECT_NE(std::string(outcome.message()).find("sideways"), std::string::npos) << outcome.message();
}

TEST(LocalTopology, AnInvalidFileIsReportedToAllRanks) {
  Job job;
  job.ranks = job.ranksPerMachine = 2;
  job.env.topoFile = topologyFile("no_such_machine");
  for (const Status& outcome : runRanks(job, [](Communicator&) -> Status { return {}; })) {
    ASSERT_FALSE(outcome.ok());
    EXPECT_NE(std::string(outcome.message()).find("no_such_machine.xml: cannot be read"), std::string::npos)
        << outcome.message();
  }
}

}  // namespace
}  // namespace bps::test
