#include "perf/app/options.h"

#include <algorithm>
#include <array>
#include <climits>
#include <cmath>
#include <string_view>
#include <variant>

#include "src/base/env.h"
#include "src/base/format.h"

namespace bps::perf {
namespace {

struct ByteField {
  uint64_t Options::*field;
};
using Field =
    std::variant<std::monostate, int Options::*, double Options::*, std::string Options::*, bool Options::*, ByteField>;

struct Spec {
  char letter;  // 0: none
  std::string_view name, value, doc;
  Field field;
  double least = 0, most = INT_MAX;
  std::string_view unused = {};  // why the option has no effect in bps-perf; empty if it has one
};

constexpr std::array<NamedType, 12> kTypes = {{{"int8", bpsInt8},
                                               {"uint8", bpsUint8},
                                               {"int32", bpsInt32},
                                               {"uint32", bpsUint32},
                                               {"int64", bpsInt64},
                                               {"uint64", bpsUint64},
                                               {"half", bpsFloat16},
                                               {"float", bpsFloat32},
                                               {"double", bpsFloat64},
                                               {"bfloat16", bpsBfloat16},
                                               {"f8e4m3", bpsFloat8e4m3},
                                               {"f8e5m2", bpsFloat8e5m2}}};
constexpr std::array<NamedOp, 6> kOps = {
    {{"sum", bpsSum}, {"prod", bpsProd}, {"max", bpsMax}, {"min", bpsMin}, {"avg", bpsAvg}, {"mulsum", bpsNumOps}}};

template <class Names>
std::string nameList(const Names& names) {
  std::string text;
  for (const auto& each : names) text += std::string(each.name) + ", ";
  return text + "all";
}

using O = Options;
constexpr std::string_view kNoDevice = "bps has no such choice";

// clang-format off
const std::array kSpecs = {
    Spec{'t', "nthreads", "N", "rank threads in this process", &O::threads, 1, 1024},
    Spec{'g', "ngpus", "N", "ranks per thread", &O::gpus, 1, 1024},
    Spec{'b', "minbytes", "SIZE", "smallest size (8, 64K, 1.5M, 2G)", ByteField{&O::minBytes}},
    Spec{'e', "maxbytes", "SIZE", "largest size", ByteField{&O::maxBytes}},
    Spec{'i', "stepbytes", "SIZE", "add this much from size to size", ByteField{&O::stepBytes}},
    Spec{'f', "stepfactor", "N", "multiply by this from size to size; 1: use -i", &O::stepFactor, 1},
    Spec{'n', "iters", "N", "timed iterations", &O::iterations, 1},
    Spec{'m', "agg_iters", "N", "calls per group", &O::aggregated, 1},
    Spec{'w', "warmup_iters", "N", "warm-up iterations per size", &O::warmup},
    Spec{'N', "run_cycles", "N", "repeat the table; 0: for ever", &O::cycles},
    Spec{'p', "parallel_init", "0/1", "threads initialize in parallel (they always do)", &O::parallelInit, 0, 1},
    Spec{'I', "per_iter_timing", "0/1", "time each iteration: i_min i_max i_p99 i_cv%", &O::perIteration, 0, 1},
    Spec{'K', "per_iter_skip", "N", "leave the first N out of these, needs -I 1", &O::skipIterations},
    Spec{'c', "check", "N", "checks of the data per measurement; 0: none", &O::checks},
    Spec{'o', "op", "OP", "operation, or all", &O::op},
    Spec{'d', "datatype", "TYPE", "data type, or all", &O::type},
    Spec{'r', "root", "RANK", "", &O::root, 0, 0, "all-reduce has no root"},
    Spec{'z', "blocking", "0-3", "1: wait and barrier after each call, 2: wait, 3: both after each group", &O::blocking, 0, 3},
    Spec{'y', "stream_null", "0/1", "use the default stream", &O::nullStream, 0, 1},
    Spec{'T', "timeout", "SECONDS", "end when a wait or the start lasts this long, exit 4; 0: never", &O::timeout},
    Spec{'G', "cudagraph", "N", "", &O::graph, 0, INT_MAX, kNoDevice},
    Spec{'C', "report_cputime", "0/1", "report the time of issuing a call", &O::cpuTime, 0, 1},
    Spec{'a', "average", "0-3", "time of 0: rank 0, 1: average, 2: least, 3: most", &O::average, 0, 3},
    Spec{'R', "local_register", "0-2", "register the buffers", &O::registerBuffers, 0, 2},
    Spec{'x', "cta_policy", "N", "", &O::ctaPolicy, 0, 0, kNoDevice},
    Spec{'D', "device_implementation", "N", "", &O::device, 0, INT_MAX, kNoDevice},
    Spec{'V', "device_cta_count", "N", "", &O::deviceCtas, 1, INT_MAX, kNoDevice},
    Spec{'J', "output_file", "F.json", "write the results as JSON", &O::jsonFile},
    Spec{'S', "report_timestamps", "0/1", "add a column with the time of day", &O::timestamps, 0, 1},
    Spec{'M', "memory", "0/1", "", &O::memory, 0, 1, kNoDevice},
    Spec{'u', "unalign", "N", "shift the buffers by N elements", &O::unalign, 0, 1 << 20},
    Spec{0, "link-gbps", "GBPS", "rate of a NIC, Gbit/s: print the ideal and the percentage reached", &O::linkGbps, 1e-6, 1e9},
    Spec{0, "csv", "FILE", "write the rows as CSV", &O::csvFile},
    Spec{0, "plot", "F.svg", "draw busbw over size", &O::plotFile},
    Spec{0, "plot-with", "F.json,...", "draw these results of earlier runs (-J) too", &O::plotWith},
    Spec{0, "model", "NAME", "all-reduce the gradients of a network", &O::model},
    Spec{0, "backward-order", "", "last layer first, as they come in training", &O::backwardOrder},
    Spec{0, "bucket-bytes", "SIZE", "gather tensors into buckets of this size", ByteField{&O::bucketBytes}},
    Spec{0, "tensors", "FILE", "all-reduce the tensors of a safetensors file; %r is the rank", &O::tensors},
    Spec{0, "out", "FILE", "write the result of --tensors", &O::out},
    Spec{0, "compare", "FILE", "compare the result of --tensors with this file", &O::compare},
    Spec{0, "async", "", "push and pull parameters, each rank at its own speed", &O::async},
    Spec{0, "pause", "US,...", "--async: pause of each rank between steps, microseconds; the last is for all others", &O::pauses},
    Spec{0, "version", "", "the version of bps", &O::version},
    Spec{'h', "help", "", "this text", &O::help}};
// clang-format on

std::string nameOf(const Spec& spec) {
  return spec.letter != 0 ? fmt::format("-{}, --{}", spec.letter, spec.name) : fmt::format("--{}", spec.name);
}

Status wrong(const std::string& name, std::string_view value, const std::string& right) {
  return failure(Code::kInvalidArgument, "{}: \"{}\" is not {}", name, value, right);
}

Result<double> boundedNumber(const Spec& spec, const std::string& name, std::string_view text, bool whole) {
  auto number = parseNumber(text);
  const double value = number.ok() ? std::move(number).value() : NAN;
  const bool good = value >= spec.least && value <= spec.most && (!whole || value == std::floor(value));
  if (good) return value;
  return wrong(name, text, fmt::format("a {} from {} to {}", whole ? "whole number" : "number", spec.least, spec.most));
}

Status store(const Spec& spec, const std::string& name, std::string_view text, Options& options) {
  if (const auto* field = std::get_if<int Options::*>(&spec.field)) {
    options.*(*field) = static_cast<int>(BPS_TRY(boundedNumber(spec, name, text, true)));
  } else if (const auto* real = std::get_if<double Options::*>(&spec.field)) {
    options.*(*real) = BPS_TRY(boundedNumber(spec, name, text, false));
  } else if (const auto* word = std::get_if<std::string Options::*>(&spec.field)) {
    if (text.empty()) return wrong(name, text, std::string(spec.value));
    options.*(*word) = text;
  } else if (const auto* bytes = std::get_if<ByteField>(&spec.field)) {
    auto size = parseBytes(text);
    if (!size.ok()) return wrong(name, text, "a size such as 8, 64K, 1.5M or 2G");
    options.*(bytes->field) = std::move(size).value();
  } else if (const auto* flag = std::get_if<bool Options::*>(&spec.field)) {
    options.*(*flag) = true;
  }
  if (!spec.unused.empty()) options.notes.push_back(fmt::format("{} {} has no effect: {}", name, text, spec.unused));
  return {};
}

const Spec* findSpec(std::string_view word) {
  for (const Spec& spec : kSpecs) {
    if (word.starts_with("--") ? word.substr(2) == spec.name : (spec.letter != 0 && word[1] == spec.letter))
      return &spec;
  }
  return nullptr;
}

bool takesValue(const Spec& spec) { return !std::holds_alternative<bool Options::*>(spec.field); }

// Parses an option in one of the forms "-b 8", "-b8", "--minbytes 8" and "--minbytes=8".
Status parseOne(std::span<const char* const> words, size_t& at, Options& options) {
  std::string_view word = words[at++];
  std::string_view value;
  bool attached = false;
  if (word.size() < 2 || word[0] != '-') {
    return failure(Code::kInvalidArgument, "\"{}\": not an option; --help lists them", word);
  }
  const size_t end = word.starts_with("--") ? word.find('=') : 2;
  if (end < word.size()) {
    attached = true;
    value = word.substr(word[end] == '=' ? end + 1 : end);
    word = word.substr(0, end);
  }
  const Spec* spec = findSpec(word);
  if (spec == nullptr) return failure(Code::kInvalidArgument, "unknown option {}; --help lists them", word);
  const std::string name(word);
  if (!takesValue(*spec)) {
    if (attached) return failure(Code::kInvalidArgument, "{}: takes no value, got \"{}\"", name, value);
  } else if (!attached) {
    if (at == words.size()) return failure(Code::kInvalidArgument, "{}: needs a value, {}", name, spec->value);
    value = words[at++];
  }
  return store(*spec, name, value, options);
}

Status checkSizes(const Options& o) {
  if (o.minBytes > o.maxBytes) {
    return failure(Code::kInvalidArgument, "-b, --minbytes {} is more than -e, --maxbytes {}", o.minBytes, o.maxBytes);
  }
  if (o.minBytes < o.maxBytes && o.stepFactor == 1 && o.stepBytes == 0) {
    return failure(Code::kInvalidArgument, "-i, --stepbytes 0 never gets from {} to {} bytes: use more, or -f 2",
                   o.minBytes, o.maxBytes);
  }
  if (o.minBytes == 0 && o.maxBytes > 0 && o.stepFactor > 1) {
    return failure(Code::kInvalidArgument,
                   "-b, --minbytes 0 times -f, --stepfactor {} stays 0: begin with more, or use -i", o.stepFactor);
  }
  return {};
}

Status checkWorkload(const Options& o) {
  const bool workload = !o.model.empty() || !o.tensors.empty() || o.async;
  if (o.async && !o.tensors.empty()) return failure(Code::kInvalidArgument, "--async: not with --tensors");
  if (o.async && (o.backwardOrder || o.bucketBytes > 0))
    return failure(Code::kInvalidArgument, "--async: not with --backward-order or --bucket-bytes");
  if (!o.pauses.empty() && !o.async) return failure(Code::kInvalidArgument, "--pause {}: needs --async", o.pauses);
  BPS_TRY(parsePauses(o.pauses));
  if (!o.model.empty() && !o.tensors.empty()) {
    return failure(Code::kInvalidArgument, "--model {} and --tensors {} exclude each other", o.model, o.tensors);
  }
  if (o.backwardOrder && o.model.empty()) return failure(Code::kInvalidArgument, "--backward-order: needs --model");
  if (!o.out.empty() && o.tensors.empty()) return failure(Code::kInvalidArgument, "--out {}: needs --tensors", o.out);
  if (!o.compare.empty() && o.tensors.empty()) {
    return failure(Code::kInvalidArgument, "--compare {}: needs --tensors", o.compare);
  }
  if (o.bucketBytes > 0 && !workload) {
    return failure(Code::kInvalidArgument, "--bucket-bytes {}: needs --model or --tensors", o.bucketBytes);
  }
  if (workload && (o.type == "all" || o.op == "all" || o.op == "mulsum")) {
    return failure(Code::kInvalidArgument,
                   "--model, --tensors and --async need one type and one operation, not -d {} -o {}", o.type, o.op);
  }
  return {};
}

Status checkCombinations(const Options& o) {
  BPS_TRY(checkSizes(o));
  if (chosenTypes(o.type).empty()) return wrong("-d, --datatype", o.type, "one of " + nameList(kTypes));
  if (chosenOps(o.op).empty()) return wrong("-o, --op", o.op, "one of " + nameList(kOps));
  if (o.skipIterations > 0 && o.perIteration == 0) {
    return failure(Code::kInvalidArgument, "-K, --per_iter_skip {}: needs -I 1", o.skipIterations);
  }
  if (o.perIteration != 0 && o.skipIterations >= o.iterations) {
    return failure(Code::kInvalidArgument, "-K, --per_iter_skip {} leaves none of -n, --iters {}", o.skipIterations,
                   o.iterations);
  }
  if (o.device != 0 && o.registerBuffers != 2) {
    return failure(Code::kInvalidArgument, "-D, --device_implementation {}: needs -R 2", o.device);
  }
  if (!o.jsonFile.empty() && !o.jsonFile.ends_with(".json")) {
    return wrong("-J, --output_file", o.jsonFile, "a name that ends in .json");
  }
  if (!o.plotFile.empty() && !o.plotFile.ends_with(".svg"))
    return wrong("--plot", o.plotFile, "a name that ends in .svg");
  if (!o.plotWith.empty() && o.plotFile.empty()) {
    return failure(Code::kInvalidArgument, "--plot-with {}: needs --plot", o.plotWith);
  }
  const auto number = parseNumber(o.root);
  if (!number.ok()) return wrong("-r, --root", o.root, "a rank, or -1");
  return checkWorkload(o);
}

template <class Named, size_t kSize>
std::vector<Named> chosen(const std::array<Named, kSize>& all, const std::string& name) {
  std::vector<Named> found;
  std::copy_if(all.begin(), all.end(), std::back_inserter(found),
               [&](const Named& each) { return name == "all" || name == each.name; });
  return found;
}

}  // namespace

Result<Options> parseOptions(std::span<const char* const> arguments) {
  Options options;
  for (size_t at = 0; at < arguments.size();) BPS_TRY(parseOne(arguments, at, options));
  if (!options.help && !options.version) BPS_TRY(checkCombinations(options));
  return options;
}

std::string usage() {
  std::string text = "USAGE: bps-perf [OPTION VALUE]...\n\n";
  for (const Spec& spec : kSpecs) {
    const std::string doc(spec.unused.empty() ? std::string(spec.doc) : fmt::format("no effect: {}", spec.unused));
    text += fmt::format("  {:<40} {}\n", nameOf(spec) + " " + std::string(spec.value), doc);
  }
  text += "\nTypes: " + nameList(kTypes) + "\nOperations: " + nameList(kOps) + "\n";
  return text;
}

std::vector<NamedType> chosenTypes(const std::string& name) { return chosen(kTypes, name); }
std::vector<NamedOp> chosenOps(const std::string& name) { return chosen(kOps, name); }

Result<std::vector<double>> parsePauses(const std::string& list) {
  std::vector<double> pauses;
  for (size_t begin = 0; begin < list.size();) {
    const size_t end = std::min(list.find(',', begin), list.size());
    const std::string text = list.substr(begin, end - begin);
    auto number = parseNumber(text);
    const double value = number.ok() ? std::move(number).value() : NAN;
    if (!(value >= 0 && value <= 1e9)) return wrong("--pause", text, "a number of microseconds from 0 to 1e9");
    pauses.push_back(value / 1e6);
    begin = end + 1;
  }
  return pauses;
}

std::optional<uint64_t> nextSize(const Options& options, uint64_t size) {
  if (options.minBytes == options.maxBytes) return std::nullopt;
  uint64_t next = 0;
  const bool past = options.stepFactor > 1
                        ? __builtin_mul_overflow(size, static_cast<uint64_t>(options.stepFactor), &next)
                        : __builtin_add_overflow(size, options.stepBytes, &next);
  if (past || next <= size || next > options.maxBytes) return std::nullopt;
  return next;
}

}  // namespace bps::perf
