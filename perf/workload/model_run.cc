// All-reduces a neural network's gradients. The gradients are in one buffer in the order of the
// calls, so that a bucket of several tensors is a range of the buffer. Only the all-reduce is
// timed, without the copies that a framework makes to fill a bucket. A rank holds two buffers of
// the model's size.
#include <algorithm>
#include <cstring>
#include <memory>

#include "perf/app/generator.h"
#include "perf/workload/model/gradients.h"
#include "perf/workload/model/models.h"
#include "perf/workload/passes.h"
#include "perf/workload/runs.h"
#include "src/base/format.h"

namespace bps::perf {
namespace {

constexpr uint64_t kDefaultBucketBytes = 25U << 20;
constexpr size_t kSamplesPerTensor = 1000;
// Fills the result before a pass, so that results left by the previous pass are detected.
constexpr uint8_t kStale = 0x5a;

struct TensorSlot {
  uint64_t tensor = 0;  // index of the tensor in the order of the forward pass
  size_t begin = 0, bytes = 0;
};

struct Gradients {
  bpsDataType_t type = bpsFloat32;
  std::vector<TensorSlot> slots;  // the tensors in the order of the calls
  size_t bytes = 0;
  std::unique_ptr<uint8_t[]> send, recv;

  std::span<uint8_t> sendOf(const TensorSlot& slot) { return {send.get() + slot.begin, slot.bytes}; }
  std::span<const uint8_t> resultOf(const TensorSlot& slot) const { return {recv.get() + slot.begin, slot.bytes}; }
  Call call(size_t begin, size_t length) const {
    return {send.get() + begin, recv.get() + begin, length / bytesOf(type), type};
  }
};

Gradients makeGradients(std::span<const Parameter> parameters, const WorkloadOptions& options, int rank) {
  Gradients gradients;
  gradients.type = options.type;
  for (size_t i = 0; i < parameters.size(); ++i) {
    const uint64_t tensor = options.backwardOrder ? parameters.size() - 1 - i : i;
    const size_t bytes = parameters[tensor].count() * bytesOf(options.type);
    gradients.slots.push_back({tensor, gradients.bytes, bytes});
    gradients.bytes += bytes;
  }
  gradients.send = std::make_unique_for_overwrite<uint8_t[]>(gradients.bytes);
  gradients.recv = std::make_unique_for_overwrite<uint8_t[]>(gradients.bytes);
  for (const TensorSlot& slot : gradients.slots) {
    fillGradients(options.type, rank, slot.tensor, gradients.sendOf(slot));
  }
  return gradients;
}

std::vector<Call> callsPerTensor(const Gradients& gradients) {
  std::vector<Call> calls;
  for (const TensorSlot& slot : gradients.slots) calls.push_back(gradients.call(slot.begin, slot.bytes));
  return calls;
}

// Puts whole tensors into buckets, in order. A tensor larger than `bucketBytes` gets a separate
// bucket.
std::vector<Call> callsPerBucket(const Gradients& gradients, uint64_t bucketBytes) {
  std::vector<Call> calls;
  size_t begin = 0;
  for (const TensorSlot& slot : gradients.slots) {
    if (slot.begin > begin && slot.begin + slot.bytes - begin > bucketBytes) {
      calls.push_back(gradients.call(begin, slot.begin - begin));
      begin = slot.begin;
    }
  }
  calls.push_back(gradients.call(begin, gradients.bytes - begin));
  return calls;
}

// Computes the checksum in the order of the forward pass, so that the checksum does not depend on
// the order of the calls.
uint64_t checksumOf(const Gradients& gradients) {
  std::vector<TensorSlot> forward = gradients.slots;
  std::sort(forward.begin(), forward.end(),
            [](const TensorSlot& a, const TensorSlot& b) { return a.tensor < b.tensor; });
  Checksum sum;
  for (const TensorSlot& slot : forward) sum.add(gradients.resultOf(slot));
  return sum.value();
}

// Pre-multiplied sums cannot be checked, because a rank does not know the other ranks' scalars.
bool canCheck(const WorkloadOptions& options) { return options.check && options.op < bpsNumOps; }

uint64_t countWrongElements(const Gradients& gradients, const WorkloadOptions& options, const Runner& runner) {
  const Reference reference{options.type, options.op, runner.ranks(),
                            (runner.machines() < runner.ranks() ? 1 : 0) + runner.levels()};
  uint64_t wrong = 0;
  for (const TensorSlot& slot : gradients.slots) {
    wrong += reference.countWrongElements(slot.tensor, gradients.resultOf(slot), kSamplesPerTensor);
  }
  return wrong;
}

struct PassResult {
  uint64_t checksum = 0;
  bool equal = true;
  double wrong = 0;  // number of wrong elements on the rank that has the most
};

Result<PassResult> runPass(const std::string& name, std::span<const Call> calls, Gradients& gradients,
                           const WorkloadOptions& options, Runner& runner) {
  std::memset(gradients.recv.get(), kStale, gradients.bytes);
  const Timing timing = BPS_TRY(measure(calls, options, runner));
  print(runner, passRow(name, timing));
  PassResult outcome{checksumOf(gradients)};
  outcome.equal = BPS_TRY(runner.equalOnAllRanks(outcome.checksum));
  if (canCheck(options)) {
    const auto wrong = static_cast<double>(countWrongElements(gradients, options, runner));
    outcome.wrong = BPS_TRY(runner.maxOverRanks(wrong));
  }
  return outcome;
}

int checkPasses(std::span<const PassResult> passes, const WorkloadOptions& options, const Runner& runner) {
  const uint64_t checksum = passes.front().checksum;
  print(runner, fmt::format("# checksum {:#018x}\n", checksum));
  int code = 0;
  auto wrong = [&](const std::string& what) {
    print(runner, "# WRONG: " + what + "\n");
    code = kWrongResult;
  };
  for (const PassResult& pass : passes) {
    if (!pass.equal) wrong("the result is not the same on all ranks");
    if (pass.checksum != checksum) {
      const std::string differs = fmt::format("in buckets the checksum is {:#018x}", pass.checksum);
      if (isFloat(options.type) && runner.levels() > 0)
        print(runner, "# " + differs + ": the order of additions follows from the size of a call\n");
      else wrong(differs);
    }
    if (pass.wrong > 0) wrong(fmt::format("{:.0f} of the values looked at, on one rank", pass.wrong));
  }
  if (canCheck(options) && code == 0) {
    print(runner, "# values checked against a sum in double precision : OK\n");
  }
  return code;
}

}  // namespace

Result<int> runModel(const WorkloadOptions& options, Runner& runner) {
  const std::vector<Parameter> parameters = BPS_TRY(modelParameters(options.model));
  const uint64_t bucketBytes = options.bucketBytes > 0 ? options.bucketBytes : kDefaultBucketBytes;
  print(runner, fmt::format("# model {}: {} parameters in {} tensors, {} {}, {} ranks, {} order\n", options.model,
                            totalCount(parameters), parameters.size(), options.typeName, options.opName, runner.ranks(),
                            options.backwardOrder ? "backward" : "forward"));
  Gradients gradients = makeGradients(parameters, options, runner.rank());
  print(runner, passHeader());
  std::vector<PassResult> passes;
  passes.push_back(BPS_TRY(runPass("per tensor", callsPerTensor(gradients), gradients, options, runner)));
  const std::vector<Call> buckets = callsPerBucket(gradients, bucketBytes);
  const std::string name = fmt::format("buckets {:.4g} MiB", static_cast<double>(bucketBytes) / (1U << 20));
  passes.push_back(BPS_TRY(runPass(name, buckets, gradients, options, runner)));
  return checkPasses(passes, options, runner);
}

}  // namespace bps::perf
