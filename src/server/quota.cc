#include "src/server/quota.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"

namespace bps {
namespace {

// A quarter of all descriptors is reserved for control and unauthenticated connections.
constexpr size_t kControlShare = 4;
constexpr size_t kMaxDescriptors = size_t{1} << 20;  // used if the system sets no limit

size_t descriptorLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return 1024;
  const rlimit raised{limit.rlim_max, limit.rlim_max};
  if (limit.rlim_cur < limit.rlim_max && ::setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  return std::min<size_t>(limit.rlim_cur, kMaxDescriptors);
}

size_t memoryBytes() {
  const long pages = ::sysconf(_SC_PHYS_PAGES), pageBytes = ::sysconf(_SC_PAGESIZE);
  return pages > 0 && pageBytes > 0 ? static_cast<size_t>(pages) * static_cast<size_t>(pageBytes) : 0;
}

}  // namespace

std::shared_ptr<Quota> Quota::fromProcessLimits() {
  const size_t limit = descriptorLimit();
  const JobResources most{limit - limit / kControlShare, memoryBytes() / 4 * 3};
  logInfo(Subsystem::kInit, "jobs may have {} of {} descriptors (ulimit -n) and {} MiB, each half of what is left",
          most.descriptors, limit, most.bytes >> 20);
  return std::make_shared<Quota>(limit, most);
}

Result<Quota::Reservation> Quota::reserve(const std::shared_ptr<Quota>& quota, JobResources need) {
  BPS_TRY(quota->take(need));
  return Reservation(quota, need);
}

Status Quota::Reservation::grow(size_t bytes) { return quota_->grow(need_, bytes); }

Status Quota::grow(JobResources& held, size_t bytes) {
  MutexLock lock(mutex_);
  const size_t others = used_.bytes - held.bytes, most = (most_.bytes - others) / 2;
  if (bytes > most || held.bytes > most - bytes)
    return failure(Code::kSystem,
                   "the job has {} MiB of memory and needs more; it may have {} MiB, half of what is left",
                   held.bytes >> 20, most >> 20);
  held.bytes += bytes;
  used_.bytes += bytes;
  return {};
}

JobResources Quota::left() {
  MutexLock lock(mutex_);
  return {most_.descriptors - used_.descriptors, most_.bytes - used_.bytes};
}

Status Quota::take(JobResources need) {
  MutexLock lock(mutex_);
  const JobResources left{most_.descriptors - used_.descriptors, most_.bytes - used_.bytes};
  if (need.descriptors > left.descriptors / 2)
    return failure(Code::kSystem,
                   "the job needs {} descriptors, {} are left of {} (ulimit -n); a job may take half of them",
                   need.descriptors, left.descriptors, limit_);
  if (need.bytes > left.bytes / 2)
    return failure(Code::kSystem, "the job needs {} MiB of memory, {} MiB are left; a job may take half of them",
                   need.bytes >> 20, left.bytes >> 20);
  used_.descriptors += need.descriptors;
  used_.bytes += need.bytes;
  return {};
}

void Quota::release(JobResources need) {
  MutexLock lock(mutex_);
  used_.descriptors -= need.descriptors;
  used_.bytes -= need.bytes;
}

}  // namespace bps
