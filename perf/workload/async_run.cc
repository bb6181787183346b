// Trains asynchronously without a model: every rank pushes changes to parameters and pulls the latest values, at its
// own speed. A step of a rank is a push-pull of every parameter. The time of a step is compared with an all-reduce of
// the same data, which moves as many bytes.
#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <thread>

#include "perf/app/generator.h"
#include "perf/workload/model/gradients.h"
#include "perf/workload/model/models.h"
#include "perf/workload/passes.h"
#include "perf/workload/runs.h"
#include "perf/workload/staleness.h"
#include "src/base/format.h"

namespace bps::perf {
namespace {

using Clock = std::chrono::steady_clock;
struct Tensor {
  uint64_t key = 0;
  size_t count = 0, begin = 0;  // begin in bytes
};

// The parameters of a row, and this rank's buffers for them.
struct Tensors {
  std::vector<Tensor> all;
  size_t bytes = 0;
  std::vector<uint8_t> change, latest;
};

Tensors makeTensors(const std::vector<size_t>& counts, uint64_t& nextKey, const WorkloadOptions& options, int rank) {
  Tensors tensors;
  const size_t element = bytesOf(options.type);
  for (const size_t count : counts) {
    tensors.all.push_back({nextKey++, count, tensors.bytes});
    tensors.bytes += count * element;
  }
  tensors.change.resize(tensors.bytes);
  tensors.latest.resize(tensors.bytes);
  const uint64_t bits = encode(options.type, rank + 1);
  for (size_t at = 0; at < tensors.bytes; at += element) std::memcpy(&tensors.change[at], &bits, element);
  return tensors;
}

struct RankTimes {
  double seconds = 0;  // of a step, with the pause
  double steps = 0;    // per second
  StalenessHistogram staleness;
};

Result<RankTimes> train(Tensors& tensors, const WorkloadOptions& options, Runner& runner) {
  const auto rank = static_cast<size_t>(runner.rank());
  const std::vector<double>& pauses = options.pauses;
  const double pause = pauses.empty() ? 0 : pauses[std::min(rank, pauses.size() - 1)];
  const auto ranks = static_cast<size_t>(runner.ranks());
  std::vector<uint64_t> before(ranks), now(ranks);
  BPS_TRY(runner.pushes(tensors.all.front().key, before.data()));
  RankTimes times;
  const auto begin = Clock::now();
  for (int step = 0; step < options.iterations; ++step) {
    for (const Tensor& tensor : tensors.all)
      BPS_TRY(runner.pushPull(tensor.key, &tensors.change[tensor.begin], &tensors.latest[tensor.begin], tensor.count,
                              options.type));
    BPS_TRY(runner.synchronize());
    BPS_TRY(runner.pushes(tensors.all.front().key, now.data()));
    uint64_t others = 0;
    for (size_t r = 0; r < ranks; ++r) others += r == rank ? 0 : now[r] - before[r];
    std::swap(before, now);
    times.staleness.add(others);
    if (pause > 0) std::this_thread::sleep_for(std::chrono::duration<double>(pause));
  }
  const std::chrono::duration<double> took = Clock::now() - begin;
  times.seconds = took.count() / options.iterations;
  times.steps = options.iterations / took.count();
  return times;
}

// The mean seconds of an all-reduce of the same data.
Result<double> timeAllReduce(Tensors& tensors, const WorkloadOptions& options, Runner& runner) {
  std::vector<Call> calls;
  for (const Tensor& tensor : tensors.all)
    calls.push_back({&tensors.change[tensor.begin], &tensors.latest[tensor.begin], tensor.count, options.type});
  return BPS_TRY(measure(calls, options, runner)).seconds;
}

// Every element must be the sum of all changes. Returns the number of wrong elements.
Result<uint64_t> countWrong(Tensors& tensors, const WorkloadOptions& options, Runner& runner) {
  const int ranks = runner.ranks();
  const double expected = static_cast<double>(options.iterations) * ranks * (ranks + 1) / 2;
  const uint64_t bits = encode(options.type, expected);
  const size_t element = bytesOf(options.type);
  uint64_t wrong = 0;
  for (const Tensor& tensor : tensors.all)
    BPS_TRY(runner.pull(tensor.key, &tensors.latest[tensor.begin], tensor.count, options.type));
  BPS_TRY(runner.synchronize());
  for (size_t at = 0; at < tensors.bytes; at += element)
    wrong += std::memcmp(&tensors.latest[at], &bits, element) == 0 ? 0 : 1;
  return sumOverRanks(wrong, runner);
}

std::string header() {
  return fmt::format("# {:>12} {:>6} {:>13} {:>9} {:>6} {:>10} {:>10} {:>10} {:>10} {:>6}\n", "bytes", "keys",
                     "all-reduce ms", "step ms", "%", "pushes/s", "least/rank", "most/rank", "staleness", "most");
}

Result<int> runRow(const std::vector<size_t>& counts, uint64_t& nextKey, const WorkloadOptions& options,
                   Runner& runner) {
  Tensors tensors = makeTensors(counts, nextKey, options, runner.rank());
  const double allReduce = BPS_TRY(timeAllReduce(tensors, options, runner));
  std::fill(tensors.latest.begin(), tensors.latest.end(), uint8_t{0});
  for (const Tensor& tensor : tensors.all)
    BPS_TRY(runner.initParameter(tensor.key, &tensors.latest[tensor.begin], tensor.count, options.type));
  BPS_TRY(runner.maxOverRanks(0));  // all ranks begin together
  const RankTimes times = BPS_TRY(train(tensors, options, runner));
  const double most = BPS_TRY(runner.maxOverRanks(times.steps)), least = -BPS_TRY(runner.maxOverRanks(-times.steps));
  const double fastest = -BPS_TRY(runner.maxOverRanks(-times.seconds));
  const double all = static_cast<double>(BPS_TRY(sumOverRanks(static_cast<uint64_t>(times.steps * 1e6), runner))) / 1e6;
  const StalenessHistogram staleness = BPS_TRY(times.staleness.ofAllRanks(runner));
  print(runner,
        fmt::format("  {:>12} {:>6} {:>13.3f} {:>9.3f} {:>6.1f} {:>10.2f} {:>10.2f} {:>10.2f} {:>10.2f} {:>6}\n",
                    tensors.bytes, tensors.all.size(), allReduce * 1e3, fastest * 1e3, 100 * allReduce / fastest, all,
                    least, most, staleness.mean(), staleness.most()));
  print(runner, "#   staleness of a push, changes of other ranks:" + staleness.text() + "\n");
  if (!options.check || bytesOf(options.type) < 4) return 0;  // the sums of narrow types are rounded
  const uint64_t wrong = BPS_TRY(countWrong(tensors, options, runner));
  if (wrong > 0) print(runner, fmt::format("# WRONG: {} values are not the sum of all changes\n", wrong));
  return wrong > 0 ? kWrongResult : 0;
}

}  // namespace

Result<int> runAsync(const WorkloadOptions& options, Runner& runner) {
  std::vector<std::vector<size_t>> rows;
  if (!options.model.empty()) {
    rows.emplace_back();
    for (const Parameter& parameter : BPS_TRY(modelParameters(options.model))) rows.back().push_back(parameter.count());
  } else {
    for (const uint64_t bytes : options.sizes) rows.push_back({std::max<size_t>(1, bytes / bytesOf(options.type))});
  }
  print(runner, fmt::format("# asynchronous push-pull of {}, {} ranks, {} steps of each rank\n", options.typeName,
                            runner.ranks(), options.iterations) +
                    header());
  uint64_t nextKey = 1;
  for (const std::vector<size_t>& counts : rows)
    if (const int code = BPS_TRY(runRow(counts, nextKey, options, runner)); code != 0) return code;
  return 0;
}

}  // namespace bps::perf
