#include "src/server/lane_threads.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr size_t kMostPartitionBytes = size_t{1} << 30, kLeastPartitionBytes = 4096;

constexpr size_t kMostMachines = 16384, kMostRails = 64;
constexpr size_t kMostJobBytes = size_t{4} << 30;
constexpr size_t kRankBytes = 512;          // of the roster, which stays as long as the job
constexpr size_t kListenerDescriptors = 2;  // of the network, and of shared memory
constexpr size_t kUsualSockets = 8;         // of one connection, at most, if nobody says how many

// As the net plugin counts them for connections that are accepted here.
size_t socketsOf(const Env& env) {
  if (env.socketThreads < 0 && env.socketsPerThread < 0) return kUsualSockets;
  return static_cast<size_t>(std::max(env.socketThreads, 1)) * static_cast<size_t>(std::max(env.socketsPerThread, 1));
}

}  // namespace

Result<std::unique_ptr<LaneThreads>> LaneThreads::start(const Env& env, size_t threads, const std::vector<int>& cpus) {
  std::unique_ptr<LaneThreads> runner(new LaneThreads(env));
  for (size_t i = 0; i < threads; ++i)
    runner->threads_.push_back(BPS_TRY(LaneThread::start(env, cpus, runner->closer_)));
  return runner;
}

LaneThreads::LaneThreads(const Env& env) : socketsPerConnection_(socketsOf(env)) {}

Result<JobNeed> LaneThreads::needOf(const JobSpec& spec, const JobPlan& plan) const {
  const size_t machines = spec.roster.machines.size();
  if (plan.rails > kMostRails)
    return failure(Code::kInvalidUsage, "{} rails, a job may have {}", plan.rails, kMostRails);
  const bool sums = plan.owners[spec.endpoint];
  const size_t rosterBytes = spec.roster.ranks.size() * kRankBytes;
  const size_t bytes = rosterBytes + (sums ? plan.serviceBytes(machines) * plan.rails : 0);
  if (bytes > kMostJobBytes)
    return failure(Code::kSystem, "{} machines need {} MiB here, a job may have {} MiB", machines, bytes >> 20,
                   kMostJobBytes >> 20);
  // While it connects, and then: the sockets once for each direction, and an epoll of each.
  const size_t ofPair = std::max(kListenerDescriptors + socketsPerConnection_, 2 * (socketsPerConnection_ + 1));
  return JobNeed{sums ? machines * plan.rails * ofPair : 0, bytes};
}

Status LaneThreads::open(const JobSpec& spec, std::shared_ptr<JobEvents> events) {
  const uint64_t partition = spec.roster.settings.partitionBytes;
  if (partition < kLeastPartitionBytes || partition > kMostPartitionBytes)
    return failure(Code::kInvalidUsage, "partition of {} bytes, expected {} to {}", partition, kLeastPartitionBytes,
                   kMostPartitionBytes);
  if (spec.endpoint >= spec.roster.endpoints() || !spec.roster.isServer(spec.endpoint))
    return failure(Code::kInvalidUsage, "endpoint {} is no server of the roster", spec.endpoint);
  if (spec.roster.machines.size() > kMostMachines)
    return failure(Code::kInvalidUsage, "{} machines, a job may have {}", spec.roster.machines.size(), kMostMachines);
  if (byJob_.contains(spec.roster.jobId)) return {Code::kInvalidUsage, "a job of this id is running"};
  JobPlan plan = BPS_TRY(JobPlan::make(spec.roster));
  const JobNeed need = BPS_TRY(needOf(spec, plan));
  Quota::Reservation reservation = BPS_TRY(Quota::reserve(quota_, need));
  LaneThread* least = std::min_element(threads_.begin(), threads_.end(), [](const auto& a, const auto& b) {
                        return a->jobs() < b->jobs();
                      })->get();
  byJob_[spec.roster.jobId] = {least, events};
  least->open({spec, std::move(plan), std::move(events), std::move(reservation)});
  return {};
}

void LaneThreads::connect(uint64_t job, std::vector<Blob> handles) {
  const auto found = byJob_.find(job);
  if (found != byJob_.end()) found->second.thread->connect(job, std::move(handles));
}

void LaneThreads::finish(uint64_t job) {
  const auto found = byJob_.find(job);
  if (found != byJob_.end()) found->second.thread->finish(job);
}

void LaneThreads::close(uint64_t job) {
  const auto found = byJob_.find(job);
  if (found == byJob_.end()) return;
  found->second.thread->close(job, std::move(found->second.events));
  byJob_.erase(found);
}

ServerLoad LaneThreads::load() const {
  ServerLoad load;
  for (const auto& thread : threads_) {
    load.bytesSummed += thread->bytesSummed();
    load.jobs += static_cast<uint32_t>(thread->jobs());
  }
  const JobNeed left = quota_->left();
  load.freeBytes = left.bytes;
  load.freeDescriptors = left.descriptors;
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
