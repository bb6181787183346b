#include "src/server/lane_threads.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr size_t kMostPartitionBytes = size_t{1} << 30, kLeastPartitionBytes = 4096;

// What one job may hold here: half of the machine's memory, at most 4 GiB.
size_t memoryLimit() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), pageBytes = ::sysconf(_SC_PAGESIZE);
  const size_t physical = pages > 0 && pageBytes > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(pageBytes) : 0;
  return std::min(physical / 2, size_t{4} << 30);
}

// Of this process, below its limit.
uint64_t freeDescriptors() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 0;
  std::error_code ignored;
  const auto open = std::distance(std::filesystem::directory_iterator("/proc/self/fd", ignored), {});
  return limit.rlim_cur - std::min<uint64_t>(limit.rlim_cur, static_cast<uint64_t>(open));
}

}  // namespace

Result<std::unique_ptr<LaneThreads>> LaneThreads::start(const Env& env, size_t threads, const std::vector<int>& cpus) {
  std::unique_ptr<LaneThreads> runner(new LaneThreads);
  for (size_t i = 0; i < threads; ++i) runner->threads_.push_back(BPS_TRY(LaneThread::start(env, cpus)));
  return runner;
}

Status LaneThreads::open(const JobSpec& spec, JobEvents& events) {
  const uint64_t partition = spec.roster.settings.partitionBytes;
  if (partition < kLeastPartitionBytes || partition > kMostPartitionBytes)
    return failure(Code::kInvalidUsage, "partition of {} bytes, expected {} to {}", partition, kLeastPartitionBytes,
                   kMostPartitionBytes);
  if (spec.endpoint >= spec.roster.endpoints() || !spec.roster.isServer(spec.endpoint))
    return failure(Code::kInvalidUsage, "endpoint {} is no server of the roster", spec.endpoint);
  if (byJob_.contains(spec.roster.jobId)) return {Code::kInvalidUsage, "a job of this id is running"};
  JobPlan plan = BPS_TRY(JobPlan::make(spec.roster));
  const size_t needed = plan.serviceBytes(spec.roster.machines.size()) * plan.rails;
  if (needed > memoryLimit())
    return failure(Code::kSystem, "{} machines need {} MiB here, a job may have {} MiB", spec.roster.machines.size(),
                   needed >> 20, memoryLimit() >> 20);
  LaneThread* least = std::min_element(threads_.begin(), threads_.end(), [](const auto& a, const auto& b) {
                        return a->jobs() < b->jobs();
                      })->get();
  byJob_[spec.roster.jobId] = least;
  least->open(spec, std::move(plan), events);
  return {};
}

void LaneThreads::connect(uint64_t job, std::vector<Blob> handles) {
  const auto found = byJob_.find(job);
  if (found != byJob_.end()) found->second->connect(job, std::move(handles));
}

void LaneThreads::finish(uint64_t job) {
  const auto found = byJob_.find(job);
  if (found != byJob_.end()) found->second->finish(job);
}

void LaneThreads::close(uint64_t job) {
  const auto found = byJob_.find(job);
  if (found == byJob_.end()) return;
  found->second->close(job);
  byJob_.erase(found);
}

ServerLoad LaneThreads::load() const {
  ServerLoad load;
  for (const auto& thread : threads_) {
    load.bytesSummed += thread->bytesSummed();
    load.jobs += static_cast<uint32_t>(thread->jobs());
  }
  load.freeBytes = memoryLimit();
  load.freeDescriptors = freeDescriptors();
  return load;
}

std::string LaneThreads::counters() const {
  const ServerLoad load = this->load();
  return fmt::format(
      "# HELP bps_jobs Jobs that are open.\n# TYPE bps_jobs gauge\nbps_jobs {}\n"
      "# HELP bps_summed_bytes_total Bytes of contributions summed.\n# TYPE bps_summed_bytes_total counter\n"
      "bps_summed_bytes_total {}\n",
      load.jobs, load.bytesSummed);
}

}  // namespace bps
