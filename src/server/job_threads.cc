#include "src/server/job_threads.h"

#include <algorithm>
#include <iterator>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr size_t kMaxPartitionBytes = size_t{1} << 30, kMinPartitionBytes = 4096;

constexpr size_t kMaxMachines = 16384, kMaxRails = 64;
constexpr size_t kMaxJobBytes = size_t{4} << 30;
constexpr size_t kRankBytes = 512;          // bytes per rank of the roster, which the job keeps
constexpr size_t kListenerDescriptors = 2;  // one TCP listener and one listener for shared memory
constexpr size_t kUsualSockets = 8;         // upper bound of sockets per connection, if the user does not set it

// The sockets that the net plugin uses for one accepted connection.
size_t socketsOf(const Env& env) {
  if (env.socketThreads < 0 && env.socketsPerThread < 0) return kUsualSockets;
  return static_cast<size_t>(std::max(env.socketThreads, 1)) * static_cast<size_t>(std::max(env.socketsPerThread, 1));
}

}  // namespace

Result<std::unique_ptr<JobThreads>> JobThreads::start(const Env& env, size_t threads, const std::vector<int>& cpus) {
  std::unique_ptr<JobThreads> runner(new JobThreads(env));
  for (size_t i = 0; i < threads; ++i)
    runner->threads_.push_back(BPS_TRY(JobThread::start(env, cpus, runner->closer_)));
  return runner;
}

JobThreads::JobThreads(const Env& env) : socketsPerConnection_(socketsOf(env)) {}

Result<JobResources> JobThreads::requiredResources(const JobSpec& spec, const JobPlan& plan) const {
  const size_t machines = spec.roster.machines.size();
  if (plan.rails > kMaxRails) return failure(Code::kInvalidUsage, "{} rails, the limit is {}", plan.rails, kMaxRails);
  const bool sums = plan.owners[spec.endpoint];
  const size_t rosterBytes = spec.roster.ranks.size() * kRankBytes;
  const size_t bytes = rosterBytes + (sums ? plan.serviceBytes(machines) * plan.rails : 0);
  if (bytes > kMaxJobBytes)
    return failure(Code::kSystem, "{} machines need {} MiB here, the limit for a job is {} MiB", machines, bytes >> 20,
                   kMaxJobBytes >> 20);
  // The descriptors per peer are the maximum of the number while connecting and the number
  // afterwards. After connecting, each of the two directions needs its sockets and one epoll
  // descriptor.
  const size_t ofPair = std::max(kListenerDescriptors + socketsPerConnection_, 2 * (socketsPerConnection_ + 1));
  return JobResources{sums ? machines * plan.rails * ofPair : 0, bytes};
}

Status JobThreads::open(const JobSpec& spec, std::shared_ptr<JobEvents> events) {
  const uint64_t partition = spec.roster.settings.partitionBytes;
  if (partition < kMinPartitionBytes || partition > kMaxPartitionBytes)
    return failure(Code::kInvalidUsage, "partition of {} bytes, expected {} to {}", partition, kMinPartitionBytes,
                   kMaxPartitionBytes);
  if (spec.endpoint >= spec.roster.endpoints() || !spec.roster.isServer(spec.endpoint))
    return failure(Code::kInvalidUsage, "endpoint {} is not a server of the roster", spec.endpoint);
  if (spec.roster.machines.size() > kMaxMachines)
    return failure(Code::kInvalidUsage, "{} machines, the limit is {}", spec.roster.machines.size(), kMaxMachines);
  if (byJob_.contains(spec.roster.jobId)) return {Code::kInvalidUsage, "a job with this id is running"};
  JobPlan plan = BPS_TRY(JobPlan::make(spec.roster));
  const JobResources need = BPS_TRY(requiredResources(spec, plan));
  Quota::Reservation reservation = BPS_TRY(Quota::reserve(quota_, need));
  JobThread* least = std::min_element(threads_.begin(), threads_.end(), [](const auto& a, const auto& b) {
                       return a->jobs() < b->jobs();
                     })->get();
  byJob_[spec.roster.jobId] = {least, events};
  least->open({spec, std::move(plan), std::move(events), std::move(reservation)});
  return {};
}

void JobThreads::connect(uint64_t job, std::vector<Blob> handles) {
  const auto found = byJob_.find(job);
  if (found != byJob_.end()) found->second.thread->connect(job, std::move(handles));
}

void JobThreads::lose(uint64_t job, size_t machine) {
  const auto found = byJob_.find(job);
  if (found != byJob_.end()) found->second.thread->lose(job, machine);
}

void JobThreads::finish(uint64_t job) {
  const auto found = byJob_.find(job);
  if (found != byJob_.end()) found->second.thread->finish(job);
}

void JobThreads::close(uint64_t job) {
  const auto found = byJob_.find(job);
  if (found == byJob_.end()) return;
  found->second.thread->close(job, std::move(found->second.events));
  byJob_.erase(found);
}

size_t JobThreads::report(uint64_t collection, const std::shared_ptr<JobEvents>& events) {
  for (const auto& thread : threads_) thread->report(collection, events);
  return threads_.size();
}

ServerLoad JobThreads::load() const {
  ServerLoad load;
  for (const auto& thread : threads_) {
    load.bytesSummed += thread->bytesSummed();
    load.jobs += static_cast<uint32_t>(thread->jobs());
  }
  const JobResources left = quota_->left();
  load.freeBytes = left.bytes;
  load.freeDescriptors = left.descriptors;
  return load;
}

JobThreads::Counters JobThreads::counters() const {
  for (const auto& thread : threads_) thread->askForCounters();
  const Deadline deadline = Deadline::in(kMaxCountersWait);
  Counters all;
  for (const auto& thread : threads_) {
    ThreadCounters counters;
    if (!thread->countersUntil(deadline, counters)) ++all.silentThreads;
    std::move(counters.jobs.begin(), counters.jobs.end(), std::back_inserter(all.jobs));
    all.endedJobs += counters.endedJobs;
  }
  return all;
}

}  // namespace bps
