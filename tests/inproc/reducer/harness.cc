#include "tests/inproc/reducer/harness.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <utility>

namespace bps::test {
namespace {

const int kEnvironment = ::setenv("BPS_SOCKET_IFNAME", "lo", 1) | ::setenv("BPS_AUTH", "off", 1) |
                         ::setenv("BPS_TIMEOUT", "6", 1) | ::setenv("BPS_DEBUG", "NONE", 0);

// Sets an environment variable as long as the object exists.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) { ::setenv(name, value.c_str(), 1); }
  ScopedVariable(const ScopedVariable&) = delete;
  ~ScopedVariable() { ::unsetenv(name_); }

 private:
  const char* name_;
};

std::vector<bpsComm_t> startComm(const JobShape& shape) {
  std::vector<bpsComm_t> comms(shape.ranks);
  bpsUniqueId id;
  EXPECT_EQ(bpsGetUniqueId(&id), bpsSuccess) << bpsGetLastError(nullptr);
  EXPECT_EQ(bpsGroupStart(), bpsSuccess);
  for (size_t rank = 0; rank < shape.ranks; ++rank) {
    const ScopedVariable machine("BPS_HOSTID", "machine" + std::to_string(rank / shape.perMachine));
    EXPECT_EQ(bpsCommInitRank(&comms[rank], static_cast<int>(shape.ranks), id, static_cast<int>(rank)), bpsSuccess);
  }
  EXPECT_EQ(bpsGroupEnd(), bpsSuccess) << bpsGetLastError(nullptr);
  char text[4096];
  EXPECT_EQ(bpsCommDescribe(comms[0], text, sizeof text), bpsSuccess);
  EXPECT_NE(std::strstr(text, ("\"servers\":" + std::to_string(shape.servers)).c_str()), nullptr) << text;
  EXPECT_NE(std::strstr(text, ("\"machines\":" + std::to_string(shape.ranks / shape.perMachine)).c_str()), nullptr);
  return comms;
}

}  // namespace

ReducerJob::ReducerJob(const JobShape& shape) : shape_(shape), servers_(std::make_unique<Servers>(shape.servers)) {
  EXPECT_EQ(kEnvironment, 0);
  const ScopedVariable servers("BPS_SERVERS", servers_->list());
  for (size_t i = 0; i <= shape.comms; ++i) comms_.push_back(startComm(shape));
}

ReducerJob::~ReducerJob() {
  for (const auto& comm : comms_)
    for (bpsComm_t rank : comm)
      if (rank != nullptr) bpsCommDestroy(rank);
}

std::vector<bpsComm_t> ReducerJob::of(size_t rank) const {
  std::vector<bpsComm_t> own;
  for (size_t i = 0; i < shape_.comms; ++i) own.push_back(comms_[i][rank]);
  return own;
}

void ReducerJob::run(const std::function<void(size_t)>& body) const {
  std::vector<std::jthread> threads;
  for (size_t rank = 0; rank < shape_.ranks; ++rank) threads.emplace_back([&body, rank] { body(rank); });
  for (std::jthread& thread : threads) thread.join();
}

Model floatModel(std::vector<size_t> counts) {
  const size_t size = counts.size();
  return {std::move(counts), std::vector<bpsDataType_t>(size, bpsFloat32)};
}

ReducerRank::ReducerRank(const ReducerJob& job, size_t rank, const Model& model, const bpsReducerConfig_t& config)
    : model_(model), rank_(rank), views_(config.gradientsAreViews != 0), places_(model.size()) {
  const std::vector<bpsComm_t> comms = job.of(rank);
  EXPECT_EQ(bpsReducerCreate(&reducer_, model.size(), model.counts.data(), model.types.data(), comms.size(),
                             comms.data(), &config),
            bpsSuccess)
      << bpsGetLastError(nullptr);
  for (size_t i = 0; i < model.size(); ++i) {
    memory_.emplace_back(std::max<size_t>(model.bytes(i), 1));
    places_[i] = memory_[i].data();
    if (!views_) continue;
    EXPECT_EQ(bpsReducerGradient(reducer_, i, &places_[i]), bpsSuccess) << bpsGetLastError(nullptr);
  }
}

ReducerRank::~ReducerRank() { destroy(); }

void ReducerRank::destroy() { EXPECT_EQ(bpsReducerDestroy(std::exchange(reducer_, nullptr)), bpsSuccess); }

bool ReducerRank::begin(bool synchronize) {
  int moved = -1;
  EXPECT_EQ(bpsReducerBegin(reducer_, synchronize ? 1 : 0, &moved), bpsSuccess) << bpsGetLastError(nullptr);
  if (moved != 1) return false;
  for (size_t i = 0; i < model_.size(); ++i) EXPECT_EQ(bpsReducerGradient(reducer_, i, &places_[i]), bpsSuccess);
  return true;
}

void ReducerRank::fill(size_t parameter, float value) {
  auto* const values = reinterpret_cast<float*>(gradient(parameter));
  std::fill(values, values + model_.counts[parameter], value);
}

bool ReducerRank::usedByAny(size_t parameter) const {
  int used = -1;
  EXPECT_EQ(bpsReducerUsed(reducer_, parameter, &used), bpsSuccess) << bpsGetLastError(nullptr);
  return used == 1;
}

size_t ReducerRank::bucketOf(size_t parameter) const {
  size_t bucket = SIZE_MAX;
  EXPECT_EQ(bpsReducerBucketOf(reducer_, parameter, &bucket), bpsSuccess) << bpsGetLastError(nullptr);
  return bucket;
}

std::vector<bpsReducerBucket_t> ReducerRank::stats() const {
  size_t count = 0;
  EXPECT_EQ(bpsReducerStats(reducer_, nullptr, &count), bpsSuccess) << bpsGetLastError(nullptr);
  std::vector<bpsReducerBucket_t> buckets(count);
  EXPECT_EQ(bpsReducerStats(reducer_, buckets.data(), &count), bpsSuccess) << bpsGetLastError(nullptr);
  return buckets;
}

testing::AssertionResult lastErrorSays(const std::string& text) {
  const std::string error = bpsGetLastError(nullptr);
  if (error.find(text) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "the error is: " << error;
}

}  // namespace bps::test
