// All-reduces the tensors of a file with one call for each tensor. The calls are in the order of
// the tensors' names, so that files with different layouts match. A rank that fails reports the
// failure to the other ranks before it returns, so that they return too and do not wait.
#include <algorithm>
#include <cmath>
#include <cstring>

#include "perf/workload/compare.h"
#include "perf/workload/model/gradients.h"
#include "perf/workload/model/safetensors.h"
#include "perf/workload/passes.h"
#include "perf/workload/runs.h"
#include "src/base/format.h"

namespace bps::perf {
namespace {

constexpr uint8_t kFill = 0x5a;  // the byte that fills results before the call

struct Job {
  std::string path;
  TensorFile file;
  TensorFile expected;                    // empty without --compare
  std::unique_ptr<uint8_t[]> result;      // has the layout of the file's data
  std::vector<const TensorInfo*> byName;  // the tensors in the order of the calls

  uint8_t* resultOf(const TensorInfo& tensor) const { return result.get() + tensor.begin; }
};

std::string pathFor(std::string path, int rank) {
  for (size_t at = 0; (at = path.find("%r", at)) != std::string::npos;) {
    const std::string number = std::to_string(rank);
    path.replace(at, 2, number);
    at += number.size();
  }
  return path;
}

const TensorInfo* find(const TensorFile& file, const std::string& name) {
  for (const TensorInfo& tensor : file.tensors) {
    if (tensor.name == name) return &tensor;
  }
  return nullptr;
}

// Checks that the expected file has the same tensors, with the dtype F64.
Status checkExpected(const Job& job, const std::string& path) {
  for (const TensorInfo& tensor : job.file.tensors) {
    const TensorInfo* expected = find(job.expected, tensor.name);
    const char* wrong = expected == nullptr               ? "is missing"
                        : expected->type != bpsFloat64    ? "is not of dtype F64"
                        : expected->shape != tensor.shape ? "has another shape"
                                                          : nullptr;
    if (wrong) return failure(Code::kInvalidArgument, "{}: tensor \"{}\" of {} {}", path, tensor.name, job.path, wrong);
  }
  if (job.expected.tensors.size() == job.file.tensors.size()) return {};
  return failure(Code::kInvalidArgument, "{}: has other tensors than {}", path, job.path);
}

Result<Job> prepare(const WorkloadOptions& options, int rank) {
  Job job;
  job.path = pathFor(options.tensors, rank);
  job.file = BPS_TRY(readTensors(job.path));
  if (!options.compare.empty()) {
    if (options.op != bpsSum && options.op != bpsAvg) {
      return failure(Code::kInvalidArgument, "--compare goes with sum and avg, not with {}", options.opName);
    }
    const std::string path = pathFor(options.compare, rank);
    job.expected = BPS_TRY(readTensors(path));
    BPS_TRY(checkExpected(job, path));
  }
  job.result = std::make_unique_for_overwrite<uint8_t[]>(job.file.dataBytes);
  std::memset(job.result.get(), kFill, job.file.dataBytes);
  for (const TensorInfo& tensor : job.file.tensors) job.byName.push_back(&tensor);
  std::sort(job.byName.begin(), job.byName.end(),
            [](const TensorInfo* a, const TensorInfo* b) { return a->name < b->name; });
  return job;
}

// Ends a step that may fail on only some ranks. If the step failed on one rank, returns a failure
// on all ranks.
Status together(Status mine, const std::string& what, Runner& runner) {
  const double failed = BPS_TRY(runner.maxOverRanks(mine.ok() ? 0 : 1));
  if (!mine.ok() || failed == 0) return mine;
  return Status(Code::kInvalidUsage, what + ": failed on another rank");
}

Status checkAgreement(const Job& job, Runner& runner) {
  Checksum sum;
  for (const TensorInfo* tensor : job.byName) {
    sum.add(tensor->name);
    sum.add(fmt::format("{} {}", formatName(tensor->type), tensor->shape.size()));
    for (uint64_t extent : tensor->shape) sum.add(std::to_string(extent));
  }
  if (BPS_TRY(runner.equalOnAllRanks(sum.value()))) return {};
  return failure(Code::kInvalidUsage, "{}: its tensors' names, shapes or types are not those of the other ranks' files",
                 job.path);
}

std::vector<Call> callsOf(Job& job) {
  std::vector<Call> calls;
  for (const TensorInfo* tensor : job.byName) {
    const size_t count = tensor->bytes() / bytesOf(tensor->type);
    calls.push_back({job.file.dataOf(*tensor).data(), job.resultOf(*tensor), count, tensor->type});
  }
  return calls;
}

// Returns the sum of the magnitudes over the ranks. For avg, the sum is divided by the number of
// ranks.
Result<std::vector<double>> magnitudesOf(const TensorInfo& tensor, Job& job, bpsRedOp_t op, Runner& runner) {
  std::vector<double> mine(tensor.bytes() / bytesOf(tensor.type));
  const uint8_t* data = job.file.dataOf(tensor).data();
  for (size_t i = 0; i < mine.size(); ++i) mine[i] = std::abs(asDouble(tensor.type, data, i));
  std::vector<double> total(mine.size());
  BPS_TRY(runner.allReduce(mine.data(), total.data(), mine.size(), bpsFloat64, op));
  BPS_TRY(runner.synchronize());
  return total;
}

Result<bool> compare(Job& job, const WorkloadOptions& options, Runner& runner) {
  Deviation deviation;
  for (const TensorInfo* tensor : job.byName) {
    const std::vector<double> magnitudes = BPS_TRY(magnitudesOf(*tensor, job, options.op, runner));
    std::vector<double> expected(magnitudes.size());
    const std::span<uint8_t> bytes = job.expected.dataOf(*find(job.expected, tensor->name));
    if (!bytes.empty()) std::memcpy(expected.data(), bytes.data(), bytes.size());
    const Tolerance tolerance{tensor->type, options.op, runner.ranks()};
    deviation.add(tensor->name, tolerance, job.resultOf(*tensor), expected, magnitudes);
  }
  const double outOfTolerance = BPS_TRY(runner.maxOverRanks(static_cast<double>(deviation.outOfTolerance)));
  const double relative = BPS_TRY(runner.maxOverRanks(deviation.relative));
  const double share = BPS_TRY(runner.maxOverRanks(deviation.shareOfAllowed));
  print(runner,
        fmt::format("# compared with {}: max relative error {:.3g}, {:.3g} of what {} ranks' roundings may cost{}\n",
                    options.compare, relative, share, runner.ranks(),
                    deviation.tensor.empty() ? "" : ", in " + deviation.tensor));
  print(runner,
        fmt::format("# values beyond that : {:.0f} {}\n", outOfTolerance, outOfTolerance == 0 ? "OK" : "FAILED"));
  return outOfTolerance == 0;
}

// Writes the result. If the name of the file has no "%r", there is one file, which rank 0 writes.
Status writeResult(const Job& job, const WorkloadOptions& options, const Runner& runner) {
  const bool each = options.out.find("%r") != std::string::npos;
  if (options.out.empty() || (!each && runner.rank() != 0)) return {};
  return writeTensors(pathFor(options.out, runner.rank()), job.file.tensors, {job.result.get(), job.file.dataBytes});
}

Result<bool> checkEqual(const Job& job, Runner& runner) {
  Checksum sum;
  for (const TensorInfo* tensor : job.byName) sum.add(std::span<const uint8_t>(job.resultOf(*tensor), tensor->bytes()));
  print(runner, fmt::format("# checksum {:#018x}\n", sum.value()));
  const bool equal = BPS_TRY(runner.equalOnAllRanks(sum.value()));
  if (!equal) print(runner, "# WRONG: the result is not the same on all ranks\n");
  return equal;
}

}  // namespace

Result<int> runTensors(const WorkloadOptions& options, Runner& runner) {
  Result<Job> prepared = prepare(options, runner.rank());
  BPS_TRY(together(prepared.error().clone(), options.tensors, runner));
  Job job = std::move(prepared).value();
  BPS_TRY(checkAgreement(job, runner));
  print(runner, fmt::format("# tensors {}: {} tensors, {} bytes, {}, {} ranks\n", options.tensors, job.byName.size(),
                            job.file.dataBytes, options.opName, runner.ranks()));
  print(runner, passHeader());
  const Timing timing = BPS_TRY(measure(callsOf(job), options, runner));
  print(runner, passRow("per tensor", timing));
  bool right = BPS_TRY(checkEqual(job, runner));
  if (!options.compare.empty()) {
    const bool near = BPS_TRY(compare(job, options, runner));
    right = right && near;
  }
  BPS_TRY(together(writeResult(job, options, runner), options.out, runner));
  return right ? 0 : kWrongResult;
}

}  // namespace bps::perf
