#include "perf/app/rank.h"

#include <bps/bps_ext.h>

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <nlohmann/json.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "perf/app/generator.h"
#include "perf/app/gpu.h"
#include "src/base/env.h"
#include "src/base/format.h"

namespace bps::perf {
namespace {

constexpr int kTimeoutExit = 4;
constexpr size_t kLineBytes = 64;

std::string lastError(const char* call, bpsResult_t result, bpsComm_t comm) {
  std::string text = bpsGetLastError(comm);
  if (text.empty()) text = bpsGetLastError(nullptr);
  if (text.empty()) text = bpsGetErrorString(result);
  return text.starts_with(std::string(call) + ": ") ? text : std::string(call) + ": " + text;
}

}  // namespace

// Watchdog ends the program if a wait takes too long. The watchdog's thread sleeps until a wait is
// armed, and then until the deadline of that wait.
class Watchdog {
 public:
  explicit Watchdog(int seconds) : seconds_(seconds), thread_([this] { watch(); }) {}
  ~Watchdog() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }
  // Starts the time limit of the wait that `what` names. Null ends the time limit.
  void arm(const char* what) {
    {
      const std::lock_guard lock(mutex_);
      deadline_.reset();
      if (what != nullptr) deadline_ = std::chrono::steady_clock::now() + std::chrono::seconds(seconds_);
      what_ = what;
    }
    changed_.notify_one();
  }
  // Sets the communicator that expire() aborts. The abort shows the failure to the other ranks at
  // once.
  void use(bpsComm_t comm) {
    const std::lock_guard lock(mutex_);
    comm_ = comm;
  }

 private:
  void watch() {
    std::unique_lock lock(mutex_);
    while (!stop_) {
      // Not wait(), which would need the C++ library of GCC 12.
      if (!deadline_) changed_.wait_for(lock, std::chrono::hours(1));
      else if (std::chrono::steady_clock::now() >= *deadline_) expire();
      else changed_.wait_until(lock, *deadline_);
    }
  }
  [[noreturn]] void expire() {
    std::fprintf(stderr, "bps-perf: Test timeout (%ds) in %s\n", seconds_, what_);
    std::fflush(stdout);
    if (comm_ != nullptr) bpsCommAbort(comm_);
    std::_Exit(kTimeoutExit);
  }

  bpsComm_t comm_ = nullptr;
  const char* what_ = nullptr;
  const int seconds_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<std::chrono::steady_clock::time_point> deadline_;
  bool stop_ = false;
  std::thread thread_;
};

// Arms the watchdog during one wait.
class RankCommunicator::WatchdogScope {
 public:
  WatchdogScope(const RankCommunicator& rank, const char* what) : watchdog_(rank.watchdog_.get()) {
    if (watchdog_ != nullptr) watchdog_->arm(what);
  }
  ~WatchdogScope() {
    if (watchdog_ != nullptr) watchdog_->arm(nullptr);
  }
  WatchdogScope(const WatchdogScope&) = delete;
  WatchdogScope& operator=(const WatchdogScope&) = delete;

 private:
  Watchdog* watchdog_;
};

Result<std::unique_ptr<RankCommunicator>> RankCommunicator::join(const Config& config, const bpsUniqueId& id) {
  std::unique_ptr<RankCommunicator> self(new RankCommunicator(config));
  if (config.timeoutSeconds > 0) self->watchdog_ = std::make_unique<Watchdog>(config.timeoutSeconds);
  bpsComm_t comm = nullptr;
  {
    const WatchdogScope bounded(*self, "bpsCommInitRank");
    BPS_TRY(self->check("bpsCommInitRank", bpsCommInitRank(&comm, config.ranks, id, config.rank)));
  }
  BPS_TRY(self->adoptCommunicator(comm));
  if (!config.defaultStream) BPS_TRY(self->check("bpsHostStreamCreate", bpsHostStreamCreate(&self->stream_)));
  return self;
}

Status RankCommunicator::adoptCommunicator(bpsComm_t comm) {
  comm_ = comm;
  if (watchdog_ != nullptr) watchdog_->use(comm_);
  const auto facts = nlohmann::json::parse(BPS_TRY(describe()), nullptr, false);
  machines_ = facts.is_object() ? facts.value("machines", config_.ranks) : config_.ranks;
  return {};
}

Status RankCommunicator::split(int color) {
  bpsComm_t part = nullptr;
  const WatchdogScope bounded(*this, "bpsCommSplit");
  BPS_TRY(check("bpsCommSplit", bpsCommSplit(comm_, color, config_.rank, &part, nullptr)));
  const bpsComm_t whole = std::exchange(comm_, part);
  BPS_TRY(check("bpsCommUserRank", bpsCommUserRank(part, &config_.rank)));
  BPS_TRY(check("bpsCommCount", bpsCommCount(part, &config_.ranks)));
  BPS_TRY(adoptCommunicator(part));
  return check("bpsCommDestroy", bpsCommDestroy(whole));
}

RankCommunicator::RankCommunicator(const Config& config) : config_(config) {}
RankCommunicator::~RankCommunicator() { abort(); }

void RankCommunicator::abort() {
  watchdog_.reset();
  gpu_ = nullptr;
  if (comm_ != nullptr) bpsCommAbort(comm_);
  if (stream_ != nullptr) bpsHostStreamDestroy(stream_);
  comm_ = nullptr;
  stream_ = nullptr;
}

Status RankCommunicator::check(const char* call, bpsResult_t result) {
  if (result == bpsSuccess) return {};
  return {static_cast<Code>(result), lastError(call, result, comm_)};
}

Status RankCommunicator::allReduce(const void* send, void* recv, size_t count, bpsDataType_t type, bpsRedOp_t op) {
  const cudaStream_t stream = gpu_ != nullptr ? gpu_->stream() : stream_;
  return check("bpsAllReduce", bpsAllReduce(send, recv, count, type, op, comm_, stream));
}

// Reduces `values` in place and waits. The buffer is padded to whole cache lines, which 2, 4 or 8
// ranks divide evenly. With this padding, the link counters of a run, which include these
// calls, equal the planner's prediction exactly.
Status RankCommunicator::reduceOnHost(void* values, size_t bytes, bpsDataType_t type, bpsRedOp_t op) {
  std::vector<uint8_t> lines((bytes + kLineBytes - 1) / kLineBytes * kLineBytes);
  std::memcpy(lines.data(), values, bytes);
  const size_t count = lines.size() / typeBytes(type);
  BPS_TRY(check("bpsAllReduce", bpsAllReduce(lines.data(), lines.data(), count, type, op, comm_, stream_)));
  BPS_TRY(synchronize());
  std::memcpy(values, lines.data(), bytes);
  return {};
}

int RankCommunicator::levels() const {
  const char* fabric = machines_ > 1 ? processLookup()("BPS_FABRIC") : nullptr;
  const char* k = fabric != nullptr ? std::strstr(fabric, "k=") : nullptr;
  return k != nullptr ? std::atoi(k + 2) : 0;
}
Status RankCommunicator::initParameter(uint64_t key, void* data, size_t count, bpsDataType_t type) {
  const WatchdogScope bounded(*this, "bpsParamInit");
  return check("bpsParamInit", bpsParamInit(comm_, key, data, count, type));
}

Status RankCommunicator::pushPull(uint64_t key, const void* change, void* latest, size_t count, bpsDataType_t type) {
  return check("bpsParamPushPull", bpsParamPushPull(comm_, key, change, latest, count, type, stream_));
}

Status RankCommunicator::pull(uint64_t key, void* latest, size_t count, bpsDataType_t type) {
  return check("bpsParamPull", bpsParamPull(comm_, key, latest, count, type, stream_));
}

Status RankCommunicator::pushes(uint64_t key, uint64_t* pushes) {
  return check("bpsParamPushes", bpsParamPushes(comm_, key, pushes));
}

Status RankCommunicator::groupStart() { return check("bpsGroupStart", bpsGroupStart()); }
Status RankCommunicator::groupEnd() { return check("bpsGroupEnd", bpsGroupEnd()); }

Status RankCommunicator::synchronize() {
  const WatchdogScope bounded(*this, "bpsHostStreamSynchronize");
  Status gpu = waitForGpu();
  const bpsResult_t result = bpsHostStreamSynchronize(stream_);
  BPS_TRY(std::move(gpu));
  return check("bpsHostStreamSynchronize", result);
}

// A CUDA stream stands at a failed call, and only the communicator reports the failure.
Status RankCommunicator::waitForGpu() {
  if (gpu_ == nullptr) return {};
  while (!BPS_TRY(gpu_->idle())) {
    bpsResult_t failed = bpsSuccess;
    BPS_TRY(check("bpsCommGetAsyncError", bpsCommGetAsyncError(comm_, &failed)));
    BPS_TRY(check("bpsAllReduce", failed));
    std::this_thread::yield();
  }
  return {};
}

Status RankCommunicator::barrier() {
  BPS_TRY(allReduceValue(0, bpsSum));
  return {};
}

Result<double> RankCommunicator::allReduceValue(double value, bpsRedOp_t op) {
  BPS_TRY(reduceOnHost(&value, sizeof value, bpsFloat64, op));
  return value;
}

Result<double> RankCommunicator::maxOverRanks(double value) { return allReduceValue(value, bpsMax); }

Result<uint64_t> RankCommunicator::sumOverRanks(uint64_t value) {
  BPS_TRY(reduceOnHost(&value, sizeof value, bpsUint64, bpsSum));
  return value;
}

// The smallest value is the complement of the largest complement. All values are equal if the
// smallest value is also the largest value.
Result<bool> RankCommunicator::equalOnAllRanks(uint64_t value) {
  uint64_t pair[2] = {value, ~value};
  BPS_TRY(reduceOnHost(pair, sizeof pair, bpsUint64, bpsMax));
  return pair[0] == ~pair[1];
}

Status RankCommunicator::gather(std::span<const uint8_t> own, std::span<uint8_t> all) {
  std::memset(all.data(), 0, all.size());
  std::memcpy(all.data() + own.size() * static_cast<size_t>(rank()), own.data(), own.size());
  return reduceOnHost(all.data(), all.size(), bpsUint8, bpsSum);
}

Result<bpsRedOp_t> RankCommunicator::preMulSum(bpsDataType_t type, uint64_t scalar) {
  bpsRedOp_t op = bpsSum;
  BPS_TRY(check("bpsRedOpCreatePreMulSum", bpsRedOpCreatePreMulSum(&op, &scalar, type, bpsScalarHostImmediate, comm_)));
  return op;
}

Status RankCommunicator::destroyOp(bpsRedOp_t op) { return check("bpsRedOpDestroy", bpsRedOpDestroy(op, comm_)); }

Status RankCommunicator::registerBuffer(void* buffer, size_t bytes) {
  void* handle = nullptr;  // the registration ends with the communicator
  return check("bpsCommRegister", bpsCommRegister(comm_, buffer, bytes, &handle));
}

Result<std::string> RankCommunicator::describe() {
  std::vector<char> text(size_t{1} << 20);
  BPS_TRY(check("bpsCommDescribe", bpsCommDescribe(comm_, text.data(), text.size())));
  return std::string(text.data());
}

Status RankCommunicator::close() {
  const WatchdogScope bounded(*this, "bpsCommDestroy");
  if (watchdog_ != nullptr) watchdog_->use(nullptr);  // the watchdog must not abort a communicator that ends here
  if (stream_ != nullptr) BPS_TRY(check("bpsHostStreamDestroy", bpsHostStreamDestroy(std::exchange(stream_, nullptr))));
  const bpsResult_t result = bpsCommDestroy(std::exchange(comm_, nullptr));
  return check("bpsCommDestroy", result);
}

}  // namespace bps::perf
