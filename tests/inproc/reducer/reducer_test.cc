// Iterations of reducers on several ranks. Every gradient must have the same bits as after an all-reduce of this
// gradient alone.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <random>
#include <thread>

#include "tests/inproc/reducer/harness.h"

namespace bps::test {
namespace {

constexpr size_t kIterations = 7;

Model mixedModel() {
  Model model;
  std::mt19937 random(7);
  for (size_t i = 0; i < 30; ++i) {
    model.counts.push_back(i == 4 ? 0 : i == 11 ? 30000 : 1 + random() % 2000);
    model.types.push_back(i % 3 == 1 ? bpsFloat64 : bpsFloat32);
  }
  return model;
}

// The first synchronized iteration is followed by a local one, so values add up while the views move.
bool isLocal(size_t iteration) { return iteration == 1 || iteration == 3 || iteration == 4; }

// Which parameters a rank uses in an iteration. In each iteration, no rank uses every seventh parameter.
bool uses(size_t iteration, size_t rank, size_t parameter) {
  if ((iteration + parameter) % 7 == 0) return false;
  return (parameter * 31 + iteration * 17 + rank * 5) % 4 != 0;
}

template <class T>
void addTo(uint8_t* gradient, const Bytes& bytes) {
  for (size_t at = 0; at < bytes.size(); at += sizeof(T)) {
    T sum, addend;
    std::memcpy(&sum, gradient + at, sizeof(T));
    std::memcpy(&addend, bytes.data() + at, sizeof(T));
    sum += addend;
    std::memcpy(gradient + at, &sum, sizeof(T));
  }
}

// The training of one rank, with computed gradients that are random.
class Training {
 public:
  Training(const ReducerJob& job, size_t rank, const Model& model, const bpsReducerConfig_t& config)
      : job_(job), model_(model), reducer_(job, rank, model, config), used_(model.size()), usedByAny_(model.size()) {}

  void iterate(size_t iteration) {
    const bool synchronize = !isLocal(iteration);
    reducer_.begin(synchronize);
    compute(iteration);
    if (synchronize) computeWanted();
    mark(iteration, synchronize);
    if (synchronize && iteration > 0) {  // the average of a parameter is there before the end of the iteration
      const size_t parameter = (iteration * 7 + reducer_.rank()) % model_.size();
      ASSERT_EQ(reducer_.wait(parameter), bpsSuccess) << bpsGetLastError(nullptr);
      compare(iteration, parameter);
    }
    ASSERT_EQ(reducer_.finish(), bpsSuccess) << bpsGetLastError(nullptr);
    if (!synchronize) return;
    for (size_t i = 0; i < model_.size(); ++i) {
      compare(iteration, i);
      EXPECT_EQ(reducer_.usedByAny(i), usedByAny_[i]) << "iteration " << iteration << ", parameter " << i;
    }
    used_.assign(model_.size(), false);
    usedByAny_.assign(model_.size(), false);
  }

 private:
  void compute(size_t iteration) {
    for (size_t i = 0; i < model_.size(); ++i) {
      for (size_t rank = 0; rank < job_.ranks(); ++rank) usedByAny_[i] = usedByAny_[i] || uses(iteration, rank, i);
      if (!uses(iteration, reducer_.rank(), i)) continue;
      used_[i] = true;
      const auto type = static_cast<DataType>(model_.types[i]);
      const Bytes computed = makeInput(type, model_.counts[i], reducer_.rank(), iteration * 100 + i);
      (type == DataType::kFloat32 ? addTo<float> : addTo<double>)(reducer_.gradient(i), computed);
    }
  }

  // All-reduces each gradient alone. A gradient that no rank uses stays as it is.
  void computeWanted() {
    bpsHostStream_t stream = nullptr;
    ASSERT_EQ(bpsHostStreamCreate(&stream), bpsSuccess);
    wanted_.clear();
    for (size_t i = 0; i < model_.size(); ++i) {
      Bytes value = used_[i] ? reducer_.content(i) : Bytes(model_.bytes(i));
      value.resize(std::max<size_t>(value.size(), 1));
      ASSERT_EQ(bpsAllReduce(value.data(), value.data(), model_.counts[i], model_.types[i], bpsAvg,
                             job_.reference(reducer_.rank()), stream),
                bpsSuccess);
      ASSERT_EQ(bpsHostStreamSynchronize(stream), bpsSuccess);
      value.resize(model_.bytes(i));
      wanted_.push_back(usedByAny_[i] ? value : reducer_.content(i));
    }
    ASSERT_EQ(bpsHostStreamDestroy(stream), bpsSuccess);
  }

  // Three threads mark the parameters, in an order that differs on every rank.
  void mark(size_t iteration, bool synchronize) {
    std::vector<size_t> order(model_.size());
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), std::mt19937(static_cast<unsigned>(iteration * 8 + reducer_.rank())));
    std::vector<std::jthread> threads;
    for (size_t thread = 0; thread < 3; ++thread)
      threads.emplace_back([&, thread] {
        for (size_t i = thread; i < order.size(); i += 3) {
          const bool used = uses(iteration, reducer_.rank(), order[i]);
          if (!used && !synchronize) continue;
          EXPECT_EQ(used ? reducer_.ready(order[i]) : reducer_.unused(order[i]), bpsSuccess)
              << bpsGetLastError(nullptr);
        }
      });
    for (std::jthread& thread : threads) thread.join();
  }

  void compare(size_t iteration, size_t parameter) const {
    EXPECT_EQ(reducer_.content(parameter), wanted_[parameter])
        << "rank " << reducer_.rank() << ", iteration " << iteration << ", parameter " << parameter;
  }

  const ReducerJob& job_;
  const Model& model_;
  ReducerRank reducer_;
  std::vector<bool> used_, usedByAny_;  // since the last synchronized iteration
  std::vector<Bytes> wanted_;
};

class ReducerBits : public testing::TestWithParam<JobShape> {};

TEST_P(ReducerBits, EqualThoseOfAllReducingEachGradientAlone) {
  const ReducerJob job(GetParam());
  const Model model = mixedModel();
  for (const size_t bucketBytes : {0UL, 16UL << 10, 25UL << 20})
    for (const int views : {0, 1}) {
      bpsReducerConfig_t config = BPS_REDUCER_CONFIG_INITIALIZER;
      config.bucketBytes = bucketBytes;
      config.firstBucketBytes = bucketBytes / 8;
      config.gradientsAreViews = views;
      SCOPED_TRACE("buckets of " + std::to_string(bucketBytes) + (views != 0 ? ", views" : ", copies"));
      job.run([&](size_t rank) {
        Training training(job, rank, model, config);
        for (size_t iteration = 0; iteration < kIterations; ++iteration) training.iterate(iteration);
      });
    }
}

std::string shapeName(const testing::TestParamInfo<JobShape>& info) {
  return "ranks" + std::to_string(info.param.ranks) + "servers" + std::to_string(info.param.servers) + "comms" +
         std::to_string(info.param.comms) + "perMachine" + std::to_string(info.param.perMachine);
}

INSTANTIATE_TEST_SUITE_P(Jobs, ReducerBits,
                         testing::Values(JobShape{3, 0, 1}, JobShape{3, 2, 1}, JobShape{2, 0, 2}, JobShape{2, 2, 2},
                                         JobShape{3, 0, 4}, JobShape{2, 2, 4}, JobShape{4, 1, 1, 2}, JobShape{1, 0, 1}),
                         shapeName);

bpsReducerConfig_t separateBuckets(bool views) {
  bpsReducerConfig_t config = BPS_REDUCER_CONFIG_INITIALIZER;
  config.bucketBytes = config.firstBucketBytes = 0;
  config.gradientsAreViews = views ? 1 : 0;
  return config;
}

void markAll(const ReducerRank& reducer, const std::vector<size_t>& order) {
  for (const size_t parameter : order) ASSERT_EQ(reducer.ready(parameter), bpsSuccess) << bpsGetLastError(nullptr);
}

TEST(Reducer, RebuildsTheBucketsOnceInTheOrderOfRankZero) {
  const ReducerJob job({3});
  job.run([&](size_t rank) {
    ReducerRank reducer(job, rank, floatModel({10, 20, 30, 40, 50}), separateBuckets(true));
    const std::vector<std::vector<size_t>> orders{{2, 0, 4, 1, 3}, {0, 1, 2, 3, 4}, {4, 3, 2, 1, 0}};
    std::vector<float> before(5, 0);
    for (size_t iteration = 0; iteration < 3; ++iteration) {
      EXPECT_EQ(reducer.begin(true), iteration == 1);
      for (size_t i = 0; i < 5; ++i) {
        const size_t bucket = iteration == 0 ? 4 - i : std::vector<size_t>{1, 3, 0, 4, 2}[i];
        EXPECT_EQ(reducer.bucketOf(i), bucket);
        EXPECT_EQ(reducer.first(i), before[i]) << "the value moves with the view";
        reducer.fill(i, static_cast<float>(10 * i + rank + iteration));
        before[i] = static_cast<float>(10 * i + 1 + iteration);
      }
      markAll(reducer, orders[(rank + iteration) % 3]);
      ASSERT_EQ(reducer.finish(), bpsSuccess) << bpsGetLastError(nullptr);
    }
  });
}

TEST(Reducer, BucketsThatStayTheSameDoNotMove) {
  const ReducerJob job({2});
  job.run([&](size_t rank) {
    ReducerRank reducer(job, rank, floatModel({10, 20}), separateBuckets(true));
    for (int iteration = 0; iteration < 2; ++iteration) {
      EXPECT_FALSE(reducer.begin(true));
      markAll(reducer, {1, 0});
      ASSERT_EQ(reducer.finish(), bpsSuccess);
    }
  });
}

TEST(Reducer, ABucketIsNeverLaunchedBeforeTheBucketsInFrontOfIt) {
  const ReducerJob job({2, 0, 2});
  job.run([&](size_t rank) {
    const ReducerRank reducer(job, rank, floatModel({1000, 1000, 1000}), separateBuckets(false));
    ASSERT_EQ(bpsReducerBegin(reducer.get(), 1, nullptr), bpsSuccess);
    for (const size_t parameter : {0, 1}) ASSERT_EQ(reducer.ready(parameter), bpsSuccess);
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (const bpsReducerBucket_t& bucket : reducer.stats()) EXPECT_LT(bucket.launchSeconds, 0);
    ASSERT_EQ(reducer.ready(2), bpsSuccess);
    ASSERT_EQ(reducer.finish(), bpsSuccess);
    const std::vector<bpsReducerBucket_t> buckets = reducer.stats();
    ASSERT_EQ(buckets.size(), 3U);
    EXPECT_LT(buckets[2].readySeconds, buckets[0].readySeconds);
    for (size_t b = 0; b < 3; ++b) {
      EXPECT_EQ(buckets[b].bytes, 4000U);
      EXPECT_EQ(buckets[b].parameters, 1U);
      EXPECT_EQ(buckets[b].communicator, b % 2);
      EXPECT_GE(buckets[b].launchSeconds, buckets[0].readySeconds);
      EXPECT_GE(buckets[b].launchSeconds, b == 0 ? 0 : buckets[b - 1].launchSeconds);
      EXPECT_GE(buckets[b].doneSeconds, buckets[b].launchSeconds);
    }
  });
}

// The other parameters are not even marked when the first average is there.
TEST(Reducer, WaitReturnsBeforeTheOtherBucketsAreReady) {
  const ReducerJob job({2});
  for (const bool views : {false, true})
    job.run([&](size_t rank) {
      ReducerRank reducer(job, rank, floatModel({100, 100, 100}), separateBuckets(views));
      reducer.begin(true);
      for (size_t i = 0; i < 3; ++i) reducer.fill(i, static_cast<float>(rank + 1));
      ASSERT_EQ(reducer.ready(2), bpsSuccess);
      ASSERT_EQ(reducer.wait(2), bpsSuccess);
      EXPECT_EQ(reducer.first(2), 1.5F);
      EXPECT_EQ(reducer.first(0), static_cast<float>(rank + 1));
      std::jthread waiter([&] {
        EXPECT_EQ(reducer.wait(0), bpsSuccess);
        EXPECT_EQ(reducer.first(0), 1.5F);
      });
      markAll(reducer, {0, 1});
      waiter.join();
      ASSERT_EQ(reducer.finish(), bpsSuccess);
      EXPECT_EQ(reducer.wait(1), bpsSuccess) << "no iteration is open";
    });
}

TEST(Reducer, UrgentGradientsUseTheirOwnCommunicator) {
  const ReducerJob job({2, 0, 1});
  const Model model = floatModel({1000, 1000, 1000, 1000});
  job.run([&](size_t rank) {
    bpsReducerConfig_t config = BPS_REDUCER_CONFIG_INITIALIZER;
    config.urgentComm = job.reference(rank);
    config.urgentBytes = 5000;
    ReducerRank reducer(job, rank, model, config);
    for (int iteration = 0; iteration < 3; ++iteration) {
      reducer.begin(true);
      for (size_t i = 0; i < 4; ++i) reducer.fill(i, static_cast<float>(rank));
      markAll(reducer, {3, 2, 1, 0});
      ASSERT_EQ(reducer.finish(), bpsSuccess) << bpsGetLastError(nullptr);
      for (size_t i = 0; i < 4; ++i) EXPECT_EQ(reducer.first(i), 0.5F);
      EXPECT_EQ(reducer.bucketOf(2), 0U);
      EXPECT_EQ(reducer.bucketOf(1), 1U);
      EXPECT_EQ(reducer.stats()[0].communicator, 0U);
      EXPECT_EQ(reducer.stats()[1].communicator, 1U);
    }
  });
}

TEST(Reducer, SumsInsteadOfAveragesAndWithoutTheBitmap) {
  const ReducerJob job({2});
  job.run([&](size_t rank) {
    bpsReducerConfig_t config = BPS_REDUCER_CONFIG_INITIALIZER;
    config.op = bpsSum;
    config.findUnusedParameters = 0;
    ReducerRank reducer(job, rank, floatModel({5, 6}), config);
    for (int iteration = 0; iteration < 3; ++iteration) {
      reducer.begin(true);
      for (size_t i = 0; i < 2; ++i) reducer.fill(i, static_cast<float>(rank + 1));
      ASSERT_EQ(reducer.ready(0), bpsSuccess);
      EXPECT_EQ(reducer.unused(1), bpsInvalidUsage);
      EXPECT_TRUE(lastErrorSays("findUnusedParameters is 0"));
      ASSERT_EQ(reducer.ready(1), bpsSuccess);
      ASSERT_EQ(reducer.finish(), bpsSuccess);
      EXPECT_EQ(reducer.first(1), 3.0F);
      EXPECT_TRUE(reducer.usedByAny(0));
    }
  });
}

}  // namespace
}  // namespace bps::test
