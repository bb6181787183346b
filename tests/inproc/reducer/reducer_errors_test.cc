// Wrong uses of a reducer. Each is reported with a text that says what to do, and does no harm.
#include <gtest/gtest.h>

#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "tests/inproc/reducer/harness.h"

namespace bps::test {
namespace {

const Model kThree = floatModel({10, 20, 30});
constexpr bpsReducerConfig_t kDefault = BPS_REDUCER_CONFIG_INITIALIZER;

bpsReducerConfig_t viewConfig() {
  bpsReducerConfig_t config = kDefault;
  config.gradientsAreViews = 1;
  return config;
}

class ReducerErrors : public testing::Test {
 protected:
  bpsResult_t create(size_t parameters, const size_t* counts, const bpsDataType_t* types,
                     const std::vector<bpsComm_t>& comms, const bpsReducerConfig_t* config = nullptr) {
    bpsReducer_t reducer = reinterpret_cast<bpsReducer_t>(this);
    const bpsResult_t result = bpsReducerCreate(&reducer, parameters, counts, types, comms.size(),
                                                comms.empty() ? nullptr : comms.data(), config);
    EXPECT_EQ(reducer, nullptr);
    return result;
  }
  bpsResult_t createThree(const bpsReducerConfig_t& config) {
    return create(3, kThree.counts.data(), kThree.types.data(), {job_.at(0, 0)}, &config);
  }
  ReducerJob job_{{1, 0, 2}};
};

TEST_F(ReducerErrors, CreateNamesTheInvalidArgument) {
  const size_t* counts = kThree.counts.data();
  const bpsDataType_t* types = kThree.types.data();
  const bpsComm_t comm = job_.at(0, 0);
  EXPECT_EQ(bpsReducerCreate(nullptr, 3, counts, types, 1, &comm, nullptr), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("reducer is NULL"));
  EXPECT_EQ(create(0, counts, types, {comm}), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("nparams is 0"));
  EXPECT_EQ(create(3, nullptr, types, {comm}), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("counts is NULL"));
  EXPECT_EQ(create(3, counts, nullptr, {comm}), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("types is NULL"));
  const size_t large[] = {1, SIZE_MAX / 2, 1};
  EXPECT_EQ(create(3, large, types, {comm}), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("counts[1] is 9223372036854775807, too large"));
  const bpsDataType_t wrong[] = {bpsFloat32, bpsFloat32, static_cast<bpsDataType_t>(12)};
  EXPECT_EQ(create(3, counts, wrong, {comm}), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("types[2] is 12"));
}

TEST_F(ReducerErrors, CreateNamesTheInvalidCommunicator) {
  const size_t* counts = kThree.counts.data();
  const bpsDataType_t* types = kThree.types.data();
  const bpsComm_t comm = job_.at(0, 0);
  EXPECT_EQ(create(3, counts, types, {}), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("ncomms is 0"));
  EXPECT_EQ(create(3, counts, types, {nullptr}), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("comm is NULL"));
  EXPECT_EQ(create(3, counts, types, {comm, comm}), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("communicator 1 occurs twice"));
  ReducerJob other({2});
  EXPECT_EQ(create(3, counts, types, {comm, other.at(0, 0)}), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("communicator 1 has 2 ranks, communicator 0 has 1"));
}

TEST_F(ReducerErrors, CreateNamesTheInvalidSetting) {
  bpsReducerConfig_t config = kDefault;
  config.size = 8;
  EXPECT_EQ(createThree(config), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("BPS_REDUCER_CONFIG_INITIALIZER"));
  config = kDefault;
  config.op = bpsMax;
  EXPECT_EQ(createThree(config), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("config.op is 2, expected bpsAvg or bpsSum"));
  config = kDefault;
  config.urgentBytes = 100;
  EXPECT_EQ(createThree(config), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("must be set together"));
}

TEST_F(ReducerErrors, AMarkNamesTheMistake) {
  const ReducerRank reducer(job_, 0, kThree, kDefault);
  EXPECT_EQ(reducer.ready(0), bpsInvalidUsage);
  EXPECT_TRUE(lastErrorSays("no iteration is open: call bpsReducerBegin first"));
  ASSERT_EQ(bpsReducerBegin(reducer.get(), 1, nullptr), bpsSuccess);
  EXPECT_EQ(bpsReducerReady(reducer.get(), 3, reducer.gradient(0)), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("param is 3, the reducer has 3 parameters"));
  EXPECT_EQ(bpsReducerReady(reducer.get(), 0, nullptr), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("gradient is NULL"));
  ASSERT_EQ(reducer.ready(1), bpsSuccess);
  EXPECT_EQ(reducer.ready(1), bpsInvalidUsage);
  EXPECT_TRUE(lastErrorSays("parameter 1 is already marked"));
  EXPECT_EQ(reducer.unused(1), bpsInvalidUsage);
  ASSERT_EQ(bpsGroupStart(), bpsSuccess);
  EXPECT_EQ(reducer.ready(2), bpsInvalidUsage);
  EXPECT_TRUE(lastErrorSays("cannot be part of a group"));
  ASSERT_EQ(bpsGroupEnd(), bpsSuccess);
  ASSERT_EQ(reducer.ready(2), bpsSuccess);
  ASSERT_EQ(reducer.unused(0), bpsSuccess);
  EXPECT_EQ(reducer.finish(), bpsSuccess);
}

TEST_F(ReducerErrors, ViewsTakeNoPointersAndCopiesHaveNoViews) {
  ReducerRank views(job_, 0, kThree, viewConfig());
  views.begin(true);
  EXPECT_EQ(bpsReducerReady(views.get(), 0, views.gradient(0)), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("the gradients are views"));
  const ReducerRank copies(job_, 0, kThree, kDefault);
  void* place = nullptr;
  EXPECT_EQ(bpsReducerGradient(copies.get(), 0, &place), bpsInvalidUsage);
  EXPECT_TRUE(lastErrorSays("gradientsAreViews is 0"));
}

TEST_F(ReducerErrors, FinishNamesTheUnmarkedParametersAndTheIterationGoesOn) {
  const ReducerRank reducer(job_, 0, kThree, kDefault);
  EXPECT_EQ(reducer.finish(), bpsInvalidUsage);
  EXPECT_TRUE(lastErrorSays("no iteration is open"));
  ASSERT_EQ(bpsReducerBegin(reducer.get(), 1, nullptr), bpsSuccess);
  EXPECT_EQ(reducer.finish(), bpsInvalidUsage);
  EXPECT_TRUE(lastErrorSays("parameters are not marked: 0, 1 and 2. Call bpsReducerReady or bpsReducerUnused"));
  ASSERT_EQ(reducer.ready(1), bpsSuccess);
  ASSERT_EQ(reducer.ready(2), bpsSuccess);
  EXPECT_EQ(reducer.finish(), bpsInvalidUsage);
  EXPECT_TRUE(lastErrorSays("a parameter is not marked: 0."));
  EXPECT_EQ(bpsReducerBegin(reducer.get(), 1, nullptr), bpsInvalidUsage);
  EXPECT_TRUE(lastErrorSays("an iteration is open: call bpsReducerFinish first"));
  ASSERT_EQ(reducer.unused(0), bpsSuccess);
  EXPECT_EQ(reducer.finish(), bpsSuccess);
}

TEST_F(ReducerErrors, ALongListOfUnmarkedParametersIsShortened) {
  const ReducerRank reducer(job_, 0, floatModel(std::vector<size_t>(20, 1)), kDefault);
  ASSERT_EQ(bpsReducerBegin(reducer.get(), 1, nullptr), bpsSuccess);
  EXPECT_EQ(reducer.finish(), bpsInvalidUsage);
  EXPECT_TRUE(lastErrorSays("not marked: 0, 1, 2, 3, 4, 5, 6, 7 and 12 more."));
}

TEST_F(ReducerErrors, ALocalIterationHasNoUnusedParameters) {
  ReducerRank reducer(job_, 0, kThree, kDefault);
  reducer.begin(false);
  EXPECT_EQ(reducer.unused(0), bpsInvalidUsage);
  EXPECT_TRUE(lastErrorSays("the iteration is local"));
  ASSERT_EQ(reducer.ready(1), bpsSuccess);
  EXPECT_EQ(reducer.wait(0), bpsSuccess);
  EXPECT_EQ(reducer.finish(), bpsSuccess);
}

TEST_F(ReducerErrors, QueriesCheckTheirArguments) {
  ReducerRank reducer(job_, 0, kThree, kDefault);
  int used = -1;
  EXPECT_EQ(bpsReducerUsed(reducer.get(), 0, &used), bpsInvalidUsage);
  EXPECT_TRUE(lastErrorSays("no synchronized iteration has been finished yet"));
  EXPECT_EQ(bpsReducerUsed(reducer.get(), 0, nullptr), bpsInvalidArgument);
  EXPECT_EQ(bpsReducerWait(reducer.get(), 3), bpsInvalidArgument);
  size_t bucket = 7;
  EXPECT_EQ(bpsReducerBucketOf(reducer.get(), 3, &bucket), bpsInvalidArgument);
  bpsReducerBucket_t buckets[1];
  size_t count = 0;
  EXPECT_EQ(bpsReducerStats(reducer.get(), buckets, &count), bpsInvalidArgument);
  EXPECT_EQ(count, 1U) << "the number that is needed";
  EXPECT_EQ(bpsReducerStats(reducer.get(), buckets, nullptr), bpsInvalidArgument);
  EXPECT_EQ(bpsReducerBegin(nullptr, 1, nullptr), bpsInvalidArgument);
  EXPECT_TRUE(lastErrorSays("reducer is NULL"));
  EXPECT_EQ(bpsReducerDestroy(nullptr), bpsSuccess);
}

TEST_F(ReducerErrors, AForkedChildCannotUseTheReducerOfItsParent) {
  const ReducerRank reducer(job_, 0, kThree, kDefault);
  ASSERT_EQ(bpsReducerBegin(reducer.get(), 1, nullptr), bpsSuccess);
  const pid_t child = ::fork();
  if (child == 0) {
    const bool right = reducer.ready(0) == bpsInvalidUsage && lastErrorSays("forked") &&
                       bpsReducerDestroy(reducer.get()) == bpsSuccess;
    std::_Exit(right ? 0 : 1);
  }
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  for (size_t i = 0; i < 3; ++i) ASSERT_EQ(reducer.ready(i), bpsSuccess);
  EXPECT_EQ(reducer.finish(), bpsSuccess);
}

}  // namespace
}  // namespace bps::test
