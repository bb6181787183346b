// bps-perf measures and checks all-reduce. Its options and its output follow nccl-tests.
//
// The exit status is 0 for success, 3 if a call of bps failed, and 4 if a wait took longer than -T
// allows. It is 6 for wrong usage, and 7 for wrong data or a bandwidth below 90 % of
// NCCL_TESTS_MIN_BW.
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>
#include <sstream>
#include <thread>

#include "perf/app/bench.h"
#include "perf/app/environment.h"
#include "perf/report/files.h"
#include "perf/report/json.h"
#include "perf/report/progress.h"
#include "src/base/format.h"
#include "src/base/guard.h"

namespace bps::perf {
namespace {

constexpr int kFailed = 3, kUsage = 6, kWrong = 7;

void printError(const char* text) { std::fprintf(stderr, "bps-perf: %s\n", text); }

// The data that all rank threads of this process share. While these threads run, only `complained`
// changes.
struct Job {
  Options options;
  LaunchEnv place;
  bpsUniqueId id{};
  double leastBw = 0;
  std::optional<int> color;  // color of this process; empty if the ranks are not split
  std::vector<std::string> arguments;
  std::string startTime;
  std::vector<Curve> earlier;  // of the files of --plot-with; only in the process of rank 0
  mutable std::atomic<bool> complained{false};

  int localRanks() const { return options.threads * options.gpus; }
  int ranks() const { return localRanks() * place.processes; }
};

Result<std::vector<RankDevice>> gatherDevices(RankCommunicator& rank, int group, const Gpu* gpu) {
  struct Entry {
    int32_t pid, group, number;
    std::array<char, 56> host, name;
  };
  Entry own{};
  own.pid = static_cast<int32_t>(::getpid());
  own.group = group;
  ::gethostname(own.host.data(), own.host.size() - 1);
  if (gpu != nullptr) {
    own.number = gpu->device();
    gpu->name().copy(own.name.data(), own.name.size() - 1);
  }
  std::vector<Entry> all(static_cast<size_t>(rank.ranks()));
  BPS_TRY(rank.gather({reinterpret_cast<const uint8_t*>(&own), sizeof own},
                      {reinterpret_cast<uint8_t*>(all.data()), all.size() * sizeof own}));
  std::vector<RankDevice> devices;
  devices.reserve(all.size());
  for (const Entry& entry : all) {
    devices.push_back({static_cast<int>(devices.size()), entry.group, entry.pid, std::string(entry.host.data()),
                       entry.number, std::string(entry.name.data())});
  }
  return devices;
}

// Gathers the devices of all ranks, splits the ranks if `color` is set, and describes the resulting
// communicator.
Result<JobFacts> gatherFacts(RankCommunicator& rank, std::optional<int> color, const Gpu* gpu) {
  JobFacts facts;
  facts.headers = BPS_VERSION_CODE;
  if (bpsGetVersion(&facts.library) != bpsSuccess) return Status(Code::kInternal, "bpsGetVersion failed");
  facts.devices = BPS_TRY(gatherDevices(rank, color.value_or(0), gpu));
  if (color) BPS_TRY(rank.split(*color));
  facts.ranks = rank.ranks();
  facts.description = BPS_TRY(rank.describe());
  return facts;
}

// Runs one rank on its own thread.
class RankRun {
 public:
  RankRun(const Job& job, int rank) : job_(job), rank_(rank) {}

  int run() {
    Status status = guarded([this] { return work(); });
    if (!status.ok()) {
      if (!job_.complained.exchange(true)) printError(status.message());
      report_.errors.emplace_back(status.message());
      exitCode_ = kFailed;
    }
    if (rank_ == 0) writeFiles();
    return exitCode_;
  }

 private:
  Status work() {
    const Options& options = job_.options;
    const bool defaultStream = options.nullStream != 0 && job_.localRanks() == 1;
    const bool workload = !options.model.empty() || !options.tensors.empty() || options.async;
    std::unique_ptr<Gpu> gpu;  // the device and the buffers must outlive the communicator
    std::unique_ptr<Buffers> buffers;
    if (!workload) gpu = BPS_TRY(Gpu::open(rank_, defaultStream));
    auto rank = BPS_TRY(RankCommunicator::join(
        {.rank = rank_, .ranks = job_.ranks(), .timeoutSeconds = options.timeout, .defaultStream = defaultStream},
        job_.id));
    rank->use(gpu.get());
    buffers = std::make_unique<Buffers>(gpu.get());
    report_.facts = BPS_TRY(gatherFacts(*rank, job_.color, gpu.get()));
    if (rank_ == 0) print(headerText(options, report_.facts));
    if (workload) exitCode_ = BPS_TRY(runWorkload(workloadOptions(), *rank));
    else BPS_TRY(table(*rank, *buffers));
    return rank->close();
  }

  Status table(RankCommunicator& rank, Buffers& buffers) {
    Options options = job_.options;
    options.maxBytes = BPS_TRY(Bench::maxFittingBytes(options, rank, ranksOnThisHost()));
    if (options.minBytes > options.maxBytes) {
      return failure(Code::kInvalidUsage, "-b, --minbytes {}: memory of the machines has room for {} only",
                     options.minBytes, options.maxBytes);
    }
    if (rank_ == 0 && options.maxBytes < job_.options.maxBytes) {
      print(fmt::format("# Reducing maxBytes to {} due to memory limitation\n", options.maxBytes));
    }
    if (rank_ == 0) print(columnsText(options));
    ProgressLine progress(numberOfRows(options));
    const auto onStart = [&](const Row& row, bool inPlace) {
      if (rank_ == 0) progress.begin(row, inPlace);
    };
    Bench bench(options, rank, buffers, onStart, [&](const Row& row) {
      if (rank_ != 0) return;
      progress.clear();
      print(pathLine(row) + rowText(options, row) + idealText(options, report_.facts, row));
    });
    BPS_TRY(bench.run());
    if (rank_ == 0) print(linksText(BPS_TRY(rank.describe())));
    const BenchTotals& totals = bench.totals();
    report_.rows = totals.rows;
    report_.outOfBounds = totals.outOfBounds;
    report_.averageBusBw = totals.averageBusBw();
    if (rank_ == 0) print(footerText(totals.outOfBounds, totals.averageBusBw(), job_.leastBw));
    if (totals.outOfBounds > 0 || totals.averageBusBw() < 0.9 * job_.leastBw) exitCode_ = kWrong;
    return {};
  }

  int ranksOnThisHost() const {
    const auto& devices = report_.facts.devices;
    const std::string& own = devices[static_cast<size_t>(rank_)].host;
    return static_cast<int>(
        std::count_if(devices.begin(), devices.end(), [&](const RankDevice& d) { return d.host == own; }));
  }

  // Returns the line that names the path of this row, or nothing if the previous row took the same
  // path.
  std::string pathLine(const Row& row) {
    const std::string path = pathText(report_.facts, row.bytes);
    if (path == path_) return {};
    path_ = path;
    return "# path from " + std::to_string(row.bytes) + " bytes: " + path + "\n";
  }

  WorkloadOptions workloadOptions() const {
    const Options& o = job_.options;
    const NamedType type = chosenTypes(o.type).front();
    const NamedOp op = chosenOps(o.op).front();
    std::vector<uint64_t> sizes;
    for (std::optional<uint64_t> size = o.minBytes; size; size = nextSize(o, *size)) sizes.push_back(*size);
    return {.model = o.model,
            .backwardOrder = o.backwardOrder,
            .bucketBytes = o.bucketBytes,
            .tensors = o.tensors,
            .out = o.out,
            .compare = o.compare,
            .type = type.type,
            .typeName = type.name,
            .op = op.op,
            .opName = op.name,
            .async = o.async,
            .sizes = std::move(sizes),
            .pauses = parsePauses(o.pauses).value(),
            .iterations = o.iterations,
            .warmup = o.warmup,
            .check = o.checks > 0};
  }

  void writeFiles() {
    const Options& options = job_.options;
    if (!options.jsonFile.empty()) writeJson();
    if (!options.csvFile.empty()) note(writeFile("--csv", options.csvFile, csvText(report_.rows)));
    if (!options.plotFile.empty()) note(writeFile("--plot", options.plotFile, plot()));
  }

  std::string plot() const {
    std::vector<Curve> curves = curvesOf("this run", report_.rows);
    curves.insert(curves.end(), job_.earlier.begin(), job_.earlier.end());
    const std::string title =
        fmt::format("All-reduce of {} ranks, {} iterations, {}", job_.ranks(), job_.options.iterations, job_.startTime);
    return plotText(title, curves, busFactor(job_.ranks()) * idealAlgBw(job_.options, report_.facts));
  }

  void note(const Status& written) {
    if (written.ok()) return;
    printError(written.message());
    if (exitCode_ == 0) exitCode_ = 1;
  }

  void writeJson() {
    report_.startTime = job_.startTime;
    report_.endTime = timeText();
    report_.arguments = job_.arguments;
    report_.environment = shownEnvironment(processEnvironment());
    report_.leastBw = job_.leastBw;
    report_.exitCode = exitCode_;
    auto name = writeNewFile(job_.options.jsonFile, jsonText(job_.options, report_));
    if (!name.ok()) note(std::move(name).status());
  }

  const Job& job_;
  const int rank_;
  int exitCode_ = 0;
  JsonReport report_;
  std::string path_;  // path of the last row
};

int runRanks(const Job& job) {
  const int first = job.place.process * job.localRanks();
  std::vector<int> codes(static_cast<size_t>(job.localRanks()), 0);
  std::vector<std::jthread> threads;
  threads.reserve(codes.size());
  for (size_t i = 1; i < codes.size(); ++i) {
    threads.emplace_back([&job, &codes, first, i] { codes[i] = RankRun(job, first + static_cast<int>(i)).run(); });
  }
  codes[0] = RankRun(job, first).run();
  threads.clear();
  return *std::max_element(codes.begin(), codes.end());
}

Status prepare(std::span<const char* const> arguments, Job& job) {
  job.options = BPS_TRY(parseOptions(arguments));
  if (job.options.help || job.options.version) return {};
  job.place = BPS_TRY(readLaunchEnv(processLookup()));
  if (!job.place.root.empty()) setRoot(job.place.root);
  auto& notes = job.options.notes;
  notes.push_back("ranks from " + job.place.source);
  notes.insert(notes.end(), job.place.notes.begin(), job.place.notes.end());
  job.color = BPS_TRY(splitColor(processLookup(), job.place.process));
  std::istringstream names(job.options.plotWith);
  for (std::string name; job.place.process == 0 && std::getline(names, name, ',');) {
    const std::vector<Curve> curves = BPS_TRY(readCurves(name));
    job.earlier.insert(job.earlier.end(), curves.begin(), curves.end());
  }
  const char* least = processLookup()("NCCL_TESTS_MIN_BW");
  if (least == nullptr || *least == 0) return {};
  auto number = parseNumber(least);
  if (!number.ok()) return failure(Code::kInvalidUsage, "NCCL_TESTS_MIN_BW={}: not a number of GB/s", least);
  job.leastBw = std::move(number).value();
  return {};
}

int mainCode(std::span<const char* const> arguments) {
  Job job;
  job.startTime = timeText();
  job.arguments.assign(arguments.begin(), arguments.end());
  const Status ready = prepare(arguments.subspan(1), job);
  if (!ready.ok()) {
    printError(ready.message());
    return kUsage;
  }
  if (job.options.help) {
    print(usage());
    return 0;
  }
  if (job.options.version) {
    print(versionText());
    return 0;
  }
  if (bpsGetUniqueId(&job.id) != bpsSuccess) {
    printError(bpsGetLastError(nullptr));
    return kFailed;
  }
  return runRanks(job);
}

}  // namespace
}  // namespace bps::perf

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, BUFSIZ);
  int code = 1;
  const bps::Status status = bps::guarded([&] { code = bps::perf::mainCode({argv, static_cast<size_t>(argc)}); });
  if (!status.ok()) bps::perf::printError(status.message());
  return code;
}
