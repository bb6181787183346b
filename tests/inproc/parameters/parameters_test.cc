// Parameters of n ranks and k servers in one process. The owners record in which order they added the changes, and the
// test adds them again in this order: the final values must have the same bits (BytePS paper, section 5: a parameter is
// its initial value plus all changes, whoever pushes when).
#include <gtest/gtest.h>

#include <cstdlib>
#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "src/base/mutex.h"
#include "tests/inproc/parameters/param_calls.h"
#include "tests/support/cluster.h"

namespace bps::test {
namespace {

// Adds what the owners add, in their order.
class Replay final : public ParamStore::Observer {
 public:
  Replay() { ParamStore::setObserver(this); }
  ~Replay() override { ParamStore::setObserver(nullptr); }
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  void onSet(const ParamStore& store, const ParamPart& part, const ParamStore::Part& place, const void* data) override {
    MutexLock lock(mutex_);
    Recorded& recorded = parts_[{part.param, part.offset}];
    recorded.store = &store;
    recorded.type = place.type;
    recorded.value.resize(place.bytes());
    std::memcpy(recorded.value.data(), data, place.bytes());
  }
  void onAdd(const ParamStore& store, const ParamPart& part, size_t, const void* change) override {
    MutexLock lock(mutex_);
    Recorded& recorded = parts_.at({part.param, part.offset});
    oneOwner_ = oneOwner_ && recorded.store == &store;
    const auto* bytes = static_cast<const uint8_t*>(change);
    const Bytes added(bytes, bytes + recorded.value.size());
    const Expectation what{recorded.type, CallOp::kSum, part.count, 2, 1};
    recorded.value = referenceSum(what, {{&recorded.value}, {&added}}, true);
    ++pushes_;
  }
  // The value of a parameter.
  Bytes valueOf(uint32_t param) {
    MutexLock lock(mutex_);
    Bytes value;
    for (const auto& [key, recorded] : parts_)
      if (key.first == param) value.insert(value.end(), recorded.value.begin(), recorded.value.end());
    return value;
  }
  uint64_t pushes() const { return pushes_; }
  bool oneOwner() const { return oneOwner_; }  // of each part

 private:
  struct Recorded {
    const ParamStore* store = nullptr;
    DataType type = DataType::kFloat32;
    Bytes value;
  };
  Mutex mutex_;
  std::map<std::pair<uint32_t, uint64_t>, Recorded> parts_;
  uint64_t pushes_ = 0;
  bool oneOwner_ = true;
};

class Parameters : public testing::Test {
 protected:
  // Random pushes and pulls of all ranks. The final values must be those of the replay.
  static void checkEquivalence(uint32_t seed) {
    std::mt19937 random(seed);
    const auto below = [&](size_t most) { return random() % most; };
    Job job;
    job.ranks = 1 + below(6);
    const Servers servers(below(5));
    job.servers = servers.list();
    job.env.partitionBytes.value = 4096UL << below(4);
    job.env.staleness = below(3) == 0 ? static_cast<int>(below(4)) : -1;
    std::vector<Parameter> parameters;
    for (size_t i = 0, count = 1 + below(4); i < count; ++i) {
      constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kBfloat16, DataType::kFloat64, DataType::kFloat16,
                                     DataType::kInt32};
      parameters.push_back({1000 + i * 7, kTypes[below(5)], 1 + below(below(2) == 0 ? 20 : 40000)});
    }
    const size_t steps = 3 + below(10), straggler = below(job.ranks);
    SCOPED_TRACE(testing::Message() << "seed " << seed << ": " << job.ranks << " ranks, staleness "
                                    << job.env.staleness);
    Replay replay;
    std::vector<std::vector<Bytes>> final(job.ranks);
    const auto outcomes = runRanks(job, [&](Communicator& comm) -> Status {
      auto group = BPS_TRY(ParamGroup::create(comm));
      BPS_TRY(group->start(comm));
      std::mt19937 own(seed * 31 + comm.rank());
      std::vector<Bytes> latest;
      for (const Parameter& p : parameters) {
        latest.push_back(makeInput(p.type, p.count, comm.rank(), seed));
        BPS_TRY(group->init(p.key, latest.back().data(), p.count, p.type));
      }
      for (size_t step = 0; step < steps; ++step) {
        if (comm.rank() == straggler) std::this_thread::sleep_for(std::chrono::microseconds(own() % 3000));
        for (size_t i = 0; i < parameters.size(); ++i) {
          const Bytes change = makeInput(parameters[i].type, parameters[i].count, comm.rank(), seed + step);
          const CallOp op = own() % 3 == 0 ? CallOp::kParamPush : CallOp::kParamPushPull;
          BPS_TRY(runRequest(*group, parameters[i], request(op, parameters[i], change.data(), latest[i].data())));
          if (own() % 4 == 0)
            BPS_TRY(runRequest(*group, parameters[i],
                               request(CallOp::kParamPull, parameters[i], nullptr, latest[i].data())));
        }
      }
      BPS_TRY(group->barrier());
      for (size_t i = 0; i < parameters.size(); ++i)
        BPS_TRY(
            runRequest(*group, parameters[i], request(CallOp::kParamPull, parameters[i], nullptr, latest[i].data())));
      final[comm.rank()] = latest;
      return group->finish();
    });
    ASSERT_EQ(failures(outcomes), "");
    EXPECT_TRUE(replay.oneOwner());
    EXPECT_GE(replay.pushes(), job.ranks * steps * parameters.size());
    for (size_t i = 0; i < parameters.size(); ++i)
      for (size_t rank = 0; rank < job.ranks; ++rank)
        EXPECT_EQ(final[rank][i], replay.valueOf(static_cast<uint32_t>(i))) << "parameter " << i << ", rank " << rank;
  }
};

TEST_F(Parameters, AreTheInitialValuePlusAllChangesInTheOrderOfTheirOwners) {
  const char* given = std::getenv("BPS_TEST_RUNS");
  const uint32_t runs = given != nullptr ? static_cast<uint32_t>(std::atoi(given)) : kSanitized ? 5 : 20;
  for (uint32_t seed = 1; seed <= runs && !HasFatalFailure(); ++seed) checkEquivalence(seed);
}

}  // namespace
}  // namespace bps::test
