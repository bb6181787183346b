// What the ranks of an asynchronous training may rely on, and what they are told when they disagree.
#include <gmock/gmock.h>

#include <atomic>
#include <numeric>
#include <thread>

#include "tests/inproc/parameters/param_calls.h"
#include "tests/support/cluster.h"

namespace bps::test {
namespace {

using testing::HasSubstr;

constexpr Parameter kCounters{7, DataType::kInt64, 3000};

class ParamRules : public testing::Test {
 protected:
  // Runs `body` on n ranks with two servers.
  std::vector<Status> run(size_t ranks, const std::function<Status(ParamGroup&, uint32_t rank)>& body,
                          int staleness = -1) {
    const Servers servers(2);
    Job job;
    job.ranks = ranks;
    job.servers = servers.list();
    job.env.staleness = staleness;
    job.env.partitionBytes.value = 4096;
    return runRanks(job, [&](Communicator& comm) -> Status {
      auto group = BPS_TRY(ParamGroup::create(comm));
      BPS_TRY(group->start(comm));
      BPS_TRY(body(*group, comm.rank()));
      return group->finish();
    });
  }
  // Adds 1 to all elements.
  static Status push(ParamGroup& group, std::vector<int64_t>& latest) {
    const std::vector<int64_t> ones(kCounters.count, 1);
    return runRequest(group, kCounters, request(CallOp::kParamPushPull, kCounters, ones.data(), latest.data()));
  }
};

TEST_F(ParamRules, AllRanksGetTheValuesOfRank0) {
  EXPECT_EQ(failures(run(3,
                         [](ParamGroup& group, uint32_t rank) -> Status {
                           std::vector<int64_t> values(kCounters.count);
                           std::iota(values.begin(), values.end(), rank == 0 ? 5 : 1000);
                           BPS_TRY(group.init(kCounters.key, values.data(), values.size(), kCounters.type));
                           for (size_t i = 0; i < values.size(); ++i)
                             EXPECT_EQ(values[i], static_cast<int64_t>(i) + 5) << "rank " << rank;
                           return {};
                         })),
            "");
}

TEST_F(ParamRules, APullContainsTheEarlierPushesOfItsRank) {
  EXPECT_EQ(failures(run(4,
                         [](ParamGroup& group, uint32_t rank) -> Status {
                           std::vector<int64_t> latest(kCounters.count, 0);
                           BPS_TRY(group.init(kCounters.key, latest.data(), latest.size(), kCounters.type));
                           const std::vector<int64_t> ones(kCounters.count, 1);
                           for (uint32_t i = 1; i <= 20; ++i) {
                             const auto stream = std::make_shared<HostStream>();
                             auto queued = request(CallOp::kParamPush, kCounters, ones.data(), nullptr);
                             queued.stream = stream;
                             BPS_TRY(group.request(kCounters.key, queued));  // the pull does not wait for its end
                             queued = request(CallOp::kParamPull, kCounters, nullptr, latest.data());
                             queued.stream = stream;
                             BPS_TRY(group.request(kCounters.key, queued));
                             BPS_TRY(stream->synchronize());
                             const std::vector<uint32_t> pushes = BPS_TRY(group.pushes(kCounters.key));
                             EXPECT_EQ(pushes[rank], i);
                             const uint32_t all = std::accumulate(pushes.begin(), pushes.end(), 0U);
                             for (const int64_t value : latest) EXPECT_GE(value, all);
                           }
                           return {};
                         })),
            "");
}

TEST_F(ParamRules, WithoutALimitNobodyWaitsForASlowRank) {
  std::atomic<int> fast{0};
  EXPECT_EQ(failures(run(3,
                         [&](ParamGroup& group, uint32_t rank) -> Status {
                           std::vector<int64_t> latest(kCounters.count, 0);
                           BPS_TRY(group.init(kCounters.key, latest.data(), latest.size(), kCounters.type));
                           while (rank == 0 && fast < 2) std::this_thread::sleep_for(std::chrono::milliseconds(1));
                           for (int i = 0; i < 30; ++i) BPS_TRY(push(group, latest));
                           ++fast;
                           return {};
                         })),
            "");
}

TEST_F(ParamRules, WithALimitAPushEndsWhenTheSlowestRankIsNear) {
  for (const int staleness : {0, 1, 4}) {
    std::atomic<uint32_t> slowest{0};  // pushes that rank 0 has begun
    EXPECT_EQ(failures(run(
                  3,
                  [&](ParamGroup& group, uint32_t rank) -> Status {
                    std::vector<int64_t> latest(kCounters.count, 0);
                    BPS_TRY(group.init(kCounters.key, latest.data(), latest.size(), kCounters.type));
                    const auto most = static_cast<uint32_t>(staleness);
                    for (uint32_t i = 1; i <= 12; ++i) {
                      if (rank == 0) {
                        std::this_thread::sleep_for(std::chrono::milliseconds(5));
                        ++slowest;
                      }
                      BPS_TRY(push(group, latest));
                      EXPECT_LE(i, slowest + most) << "rank " << rank << ", staleness " << staleness;
                      const std::vector<uint32_t> pushes = BPS_TRY(group.pushes(kCounters.key));
                      for (const uint32_t other : pushes) EXPECT_GE(other + most, i);
                    }
                    return {};
                  },
                  staleness)),
              "");
  }
}

void expectAll(const std::vector<Status>& outcomes, const std::vector<std::string>& texts) {
  for (size_t rank = 0; rank < outcomes.size(); ++rank) {
    EXPECT_EQ(outcomes[rank].code(), Code::kInvalidUsage) << "rank " << rank;
    for (const std::string& text : texts) EXPECT_THAT(outcomes[rank].message(), HasSubstr(text)) << "rank " << rank;
  }
}

TEST_F(ParamRules, DisagreementAboutAParameterIsNamedOnAllRanks) {
  std::vector<double> data(100);
  expectAll(run(4, [&](ParamGroup& group,
                       uint32_t rank) { return group.init(1, data.data(), rank == 2 ? 99 : 100, DataType::kFloat32); }),
            {"rank 0 (", "key 1 with 100 float32", "rank 2 (", "key 1 with 99 float32"});
  expectAll(run(4,
                [&](ParamGroup& group, uint32_t rank) {
                  return group.init(1, data.data(), 100, rank == 3 ? DataType::kFloat64 : DataType::kInt32);
                }),
            {"rank 0 (", "key 1 with 100 int32", "rank 3 (", "key 1 with 100 float64"});
  expectAll(run(2, [&](ParamGroup& group,
                       uint32_t rank) { return group.init(4 + rank, data.data(), 100, DataType::kInt32); }),
            {"rank 0 (", "key 4 with", "rank 1 (", "key 5 with"});
}

TEST_F(ParamRules, WrongRequestsAreRefusedByNameAndHaveNoEffect) {
  EXPECT_EQ(failures(run(
                2,
                [](ParamGroup& group, uint32_t) -> Status {
                  std::vector<int64_t> latest(kCounters.count, 0);
                  BPS_TRY(group.init(kCounters.key, latest.data(), latest.size(), kCounters.type));
                  const auto refusal = [&](const Parameter& wrong) {
                    return std::string(
                        runRequest(group, wrong, request(CallOp::kParamPush, wrong, latest.data(), nullptr)).message());
                  };
                  EXPECT_THAT(refusal({8, DataType::kInt64, 3000}), HasSubstr("key is 8, which"));
                  EXPECT_THAT(refusal({7, DataType::kInt64, 2999}),
                              HasSubstr("key 7 has 3000 int64, the call has 2999 int64"));
                  EXPECT_THAT(refusal({7, DataType::kFloat64, 3000}), HasSubstr("the call has 3000 float64"));
                  EXPECT_THAT(
                      std::string(group.init(kCounters.key, latest.data(), latest.size(), kCounters.type).message()),
                      HasSubstr("key 7 has been initialized already"));
                  BPS_TRY(push(group, latest));
                  BPS_TRY(group.barrier());
                  BPS_TRY(runRequest(group, kCounters, request(CallOp::kParamPull, kCounters, nullptr, latest.data())));
                  EXPECT_EQ(latest, std::vector<int64_t>(kCounters.count, 2));
                  return {};
                })),
            "");
}

TEST_F(ParamRules, AnEmptyParameterNeedsNoBuffers) {
  EXPECT_EQ(failures(run(2,
                         [](ParamGroup& group, uint32_t) -> Status {
                           constexpr Parameter kEmpty{1, DataType::kFloat32, 0};
                           BPS_TRY(group.init(1, nullptr, 0, DataType::kFloat32));
                           return runRequest(group, kEmpty, request(CallOp::kParamPush, kEmpty, nullptr, nullptr));
                         })),
            "");
}

}  // namespace
}  // namespace bps::test
