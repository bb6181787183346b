// A backward pass that sleeps for each layer, in place of computing. Most of the communication must happen meanwhile.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "tests/inproc/reducer/harness.h"

namespace bps::test {
namespace {

using Clock = std::chrono::steady_clock;

constexpr size_t kLayers = 16;
constexpr size_t kCount = kSanitized ? 1U << 16 : 1U << 18;  // of the gradient of a layer

double secondsSince(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

struct Pass {
  double backward = 0, total = 0;  // seconds until the last gradient is marked, and until all averages are there
  std::vector<bpsReducerBucket_t> buckets;
};

Pass iterate(ReducerRank& reducer, std::chrono::duration<double> layer) {
  Pass pass;
  reducer.begin(true);
  const auto start = Clock::now();
  for (size_t i = kLayers; i-- > 0;) {
    std::this_thread::sleep_for(layer);
    EXPECT_EQ(reducer.ready(i), bpsSuccess) << bpsGetLastError(nullptr);
  }
  pass.backward = secondsSince(start);
  EXPECT_EQ(reducer.finish(), bpsSuccess) << bpsGetLastError(nullptr);
  pass.total = secondsSince(start);
  pass.buckets = reducer.stats();
  return pass;
}

// Returns for how long at least one call was in flight, and what part of this time was before `end`.
std::pair<double, double> timeInFlight(const std::vector<bpsReducerBucket_t>& buckets, double end) {
  double all = 0, hidden = 0, until = 0;
  for (const bpsReducerBucket_t& bucket : buckets) {
    const double from = std::max(bucket.launchSeconds, until);
    until = std::max(bucket.doneSeconds, until);
    if (from >= until) continue;
    all += until - from;
    hidden += std::max(0.0, std::min(until, end) - from);
  }
  return {all, hidden / all};
}

// The layers together take twice as long as the communication, so that almost all of it could be hidden. A call that
// began only at the end of the backward pass would hide nothing. Other load on the machine may delay single passes.
TEST(ReducerOverlap, HidesCommunicationBehindTheBackwardPass) {
  const ReducerJob job({2, 1, 1});
  std::vector<double> hidden(2);
  job.run([&](size_t rank) {
    bpsReducerConfig_t config = BPS_REDUCER_CONFIG_INITIALIZER;
    config.bucketBytes = 2 * kCount * sizeof(float);
    config.gradientsAreViews = 1;
    ReducerRank reducer(job, rank, floatModel(std::vector<size_t>(kLayers, kCount)), config);
    iterate(reducer, {});
    const Pass alone = iterate(reducer, {});
    std::vector<double> shares;
    for (int time = 0; time < 5; ++time) {
      const Pass pass = iterate(reducer, std::chrono::duration<double>(2 * alone.total / kLayers));
      shares.push_back(timeInFlight(pass.buckets, pass.backward).second);
    }
    std::sort(shares.begin(), shares.end());
    hidden[rank] = shares[2];
  });
  for (const double share : hidden) EXPECT_GT(share, 0.3);
  RecordProperty("hidden_percent", static_cast<int>(100 * hidden[0]));
}

}  // namespace
}  // namespace bps::test
