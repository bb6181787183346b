#include "src/comm/call/host_stream.h"

#include <algorithm>
#include <limits>
#include <map>
#include <span>

namespace bps {
namespace {

// The existing streams, by handle. If an application uses a stale handle, the lookup fails and the
// process does not crash.
struct Registry {
  Mutex mutex;
  std::map<const void*, std::shared_ptr<HostStream>> streams BPS_GUARDED_BY(mutex);
  std::shared_ptr<HostStream> defaultStream = std::make_shared<HostStream>();
};

Registry& registry() {
  static auto* instance = new Registry;  // never freed, because exiting threads may still use streams
  return *instance;
}

// True if two conflicting calls still conflict when the memory between the buffers of fused calls is
// left out.
bool partsConflict(const StreamEntry& a, const StreamEntry& b) {
  const auto partsOf = [](const StreamEntry& entry) {
    return entry.parts.empty() ? std::span(&entry.buffers, 1) : std::span(entry.parts);
  };
  const std::span<const CallBuffers> ofA = partsOf(a), ofB = partsOf(b);
  if (a.parts.empty() && b.parts.empty()) return true;
  return std::any_of(ofA.begin(), ofA.end(), [&](const CallBuffers& one) {
    return std::any_of(ofB.begin(), ofB.end(), [&](const CallBuffers& other) { return one.conflicts(other); });
  });
}

}  // namespace

bool StreamEntry::mayStart() const {
  return std::all_of(dependencies.begin(), dependencies.end(),
                     [](const auto& earlier) { return earlier->done.load(std::memory_order_acquire); });
}

void StreamEntry::complete(const Status& outcome) {
  const std::shared_ptr<HostStream> kept = stream;  // keeps the stream alive while it removes this entry
  kept->complete(*this, outcome);
}

std::shared_ptr<ThreadFailures> ThreadFailures::forThisThread() {
  thread_local const auto failures = std::make_shared<ThreadFailures>();
  return failures;
}

void ThreadFailures::record(uint64_t stream, const Status& failure) {
  MutexLock lock(mutex_);
  if (!byStream_.contains(stream)) byStream_[stream] = failure.clone();
}

Status ThreadFailures::take(uint64_t stream) {
  MutexLock lock(mutex_);
  const auto found = byStream_.find(stream);
  if (found == byStream_.end()) return {};
  Status failure = std::move(found->second);
  byStream_.erase(found);
  return failure;
}

uint64_t HostStream::nextStreamId() {
  static std::atomic<uint64_t> next{0};
  return next++;
}

std::shared_ptr<HostStream> HostStream::create() {
  auto stream = std::make_shared<HostStream>();
  MutexLock lock(registry().mutex);
  registry().streams[stream.get()] = stream;
  return stream;
}

std::shared_ptr<HostStream> HostStream::find(const void* handle) {
  if (handle == nullptr) return registry().defaultStream;
  MutexLock lock(registry().mutex);
  const auto found = registry().streams.find(handle);
  return found == registry().streams.end() ? nullptr : found->second;
}

void HostStream::destroy(const void* handle) {
  MutexLock lock(registry().mutex);
  registry().streams.erase(handle);
}

std::shared_ptr<StreamEntry> HostStream::enter(const CallBuffers& buffers, std::shared_ptr<StreamWorker> worker) {
  auto entry = std::make_shared<StreamEntry>();
  entry->buffers = buffers;
  entry->worker = std::move(worker);
  append(entry);
  return entry;
}

std::shared_ptr<StreamEntry> HostStream::enterFused(std::vector<CallBuffers> parts,
                                                    std::shared_ptr<StreamWorker> worker) {
  auto entry = std::make_shared<StreamEntry>();
  for (const CallBuffers& part : parts) entry->buffers.extend(part);
  entry->parts = std::move(parts);
  entry->worker = std::move(worker);
  append(entry);
  return entry;
}

void HostStream::append(const std::shared_ptr<StreamEntry>& entry) {
  entry->stream = shared_from_this();
  entry->caller = ThreadFailures::forThisThread();
  const auto& [reads, writes] = entry->buffers;
  MutexLock lock(mutex_);
  dropAfterFork();
  entry->position = ++entered_;
  // An earlier call that covers the same buffers has itself waited for the calls before it. So the
  // new call waits only for that earlier call. Otherwise each of thousands of calls on the same
  // buffers would wait for all earlier calls. This rule holds only for an earlier call of the same
  // worker. If such a call ends early, the worker has failed, and the new call does not start.
  // A fused call does not cover the memory between its buffers.
  bool readsInOrder = false, writesInOrder = false;
  for (auto i = pending_.rbegin(); i != pending_.rend() && !(readsInOrder && writesInOrder); ++i) {
    StreamEntry& earlier = **i;
    const CallBuffers& other = earlier.buffers;
    const bool dependsOnEarlier = (!readsInOrder && other.writes.overlaps(reads)) ||
                                  (!writesInOrder && (other.writes.overlaps(writes) || other.reads.overlaps(writes)));
    if (!dependsOnEarlier || !partsConflict(earlier, *entry)) continue;
    entry->dependencies.push_back(*i);
    if (earlier.worker != entry->worker) {
      earlier.dependents.push_back(entry->worker);
    } else if (earlier.parts.empty()) {
      readsInOrder = readsInOrder || other.reads.covers(reads) || other.writes.covers(reads);
      writesInOrder = writesInOrder || other.writes.covers(writes);
    }
  }
  pending_.push_back(entry);
}

void HostStream::complete(StreamEntry& entry, const Status& outcome) {
  std::vector<std::shared_ptr<StreamWorker>> dependents;
  {
    MutexLock lock(mutex_);
    if (!outcome.ok()) entry.caller->record(streamId_, outcome);
    if (!outcome.ok() && (unreported_.ok() || entry.position < unreportedPosition_)) {
      unreported_ = outcome.clone();
      unreportedPosition_ = entry.position;
    }
    entry.done.store(true, std::memory_order_release);
    // The ended call is usually the first entry, because calls end nearly in order.
    const auto ended =
        std::find_if(pending_.begin(), pending_.end(), [&](const auto& pending) { return pending.get() == &entry; });
    if (ended != pending_.end()) pending_.erase(ended);
    dependents.swap(entry.dependents);
  }
  changed_.notifyAll();  // without the mutex, because a thread that wakes up takes it at once
  entry.dependencies.clear();
  for (const auto& worker : dependents) worker->wake();
}

// The forked child leaks the entries, because destroying them would close connections of the parent
// process.
void HostStream::dropAfterFork() {
  if (forks_ == forkGeneration()) return;
  forks_ = forkGeneration();
  [[maybe_unused]] const auto* const leaked = new auto(std::exchange(pending_, {}));
}

bool HostStream::idle() {
  MutexLock lock(mutex_);
  dropAfterFork();
  return pending_.empty();
}

Status HostStream::takeFailure() {
  Status own = ThreadFailures::forThisThread()->take(streamId_);
  MutexLock lock(mutex_);
  Status unreported = std::exchange(unreported_, Status());
  return own.ok() ? std::move(unreported) : std::move(own);
}

std::shared_ptr<StreamEntry> HostStream::lastPendingOf(uint64_t event) {
  MutexLock lock(mutex_);
  dropAfterFork();
  // The pending calls are in the order of their positions.
  const auto after = std::upper_bound(pending_.begin(), pending_.end(), event,
                                      [](uint64_t end, const auto& entry) { return end < entry->position; });
  return after == pending_.begin() ? nullptr : *std::prev(after);
}

// The loop ends, because every call completes or, if a peer dies, fails within BPS_TIMEOUT.
void HostStream::moveCallsOf(uint64_t event) {
  while (const std::shared_ptr<StreamEntry> last = lastPendingOf(event)) {
    last->worker->progressFor(*last);
    if (last->done.load(std::memory_order_acquire)) continue;
    MutexLock lock(mutex_);
    if (!last->done.load(std::memory_order_acquire))
      changed_.waitUntil(mutex_, std::chrono::steady_clock::now() + std::chrono::seconds(1));
  }
}

uint64_t HostStream::recordEvent() {
  MutexLock lock(mutex_);
  return entered_;
}

std::optional<Status> HostStream::outcomeOf(uint64_t event) {
  MutexLock lock(mutex_);
  dropAfterFork();
  if (!pending_.empty() && pending_.front()->position <= event) return std::nullopt;
  return unreportedPosition_ <= event ? unreported_.clone() : Status();
}

Status HostStream::synchronize(uint64_t event) {
  moveCallsOf(event);
  return outcomeOf(event).value_or(Status());
}

Status HostStream::synchronize() {
  moveCallsOf(std::numeric_limits<uint64_t>::max());
  return takeFailure();
}

}  // namespace bps
