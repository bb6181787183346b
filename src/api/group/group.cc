#include "src/api/group/group.h"

#include <atomic>
#include <thread>
#include <utility>

#include "src/api/api_guard.h"

namespace bps {
namespace {

using Task = std::function<Status()>;

// Runs all jobs at the same time, because they may wait for each other. If too few threads can be
// started, no job runs.
Status runConcurrently(const std::vector<Task>& jobs) {
  if (jobs.size() == 1) return guarded(jobs.front());
  enum : int { kWait, kGo, kCancel };
  std::atomic<int> signal{kWait};
  std::vector<Status> outcomes(jobs.size());
  std::vector<std::thread> threads;
  Status started = guarded([&] {
    threads.reserve(jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i)
      threads.emplace_back([&, i] {
        signal.wait(kWait);
        if (signal == kGo) outcomes[i] = guarded(jobs[i]);
      });
  });
  signal = started.ok() ? kGo : kCancel;
  signal.notify_all();
  for (std::thread& thread : threads) thread.join();
  if (!started.ok())
    return std::move(started).within(fmt::format("{} communicators at once need a thread each", jobs.size()));
  Status first;
  for (Status& outcome : outcomes) keepFirst(first, std::move(outcome));
  return first;
}

template <class DeferredItem>
size_t erase(std::vector<DeferredItem>& all, const bpsComm& handle,
             std::shared_ptr<HandleReference> DeferredItem::*reference) {
  return std::erase_if(all, [&](const DeferredItem& one) { return &((one.*reference)->handle()) == &handle; });
}

}  // namespace

Group& Group::forThisThread() {
  thread_local Group group;
  return group;
}

Status Group::deferStart(bpsComm_t* out) {
  work_.starts.push_back({std::make_shared<HandleReference>(BPS_TRY(HandleReference::acquire(*out))), out});
  return {};
}

Status Group::deferSplit(bpsComm_t parent, bpsComm_t* out, CreateSplitComm make) {
  work_.splits.push_back(
      {std::make_shared<HandleReference>(BPS_TRY(HandleReference::acquire(parent))), out, std::move(make)});
  return {};
}

Status Group::deferCall(bpsComm_t comm, AllReduceCall call) {
  const bool sameAsLast = !work_.calls.empty() && &work_.calls.back().reference->handle() == comm;
  work_.calls.push_back({sameAsLast ? work_.calls.back().reference
                                    : std::make_shared<HandleReference>(BPS_TRY(HandleReference::acquire(comm))),
                         std::move(call)});
  return {};
}

size_t Group::dropDeferred(const bpsComm& handle) {
  return erase(work_.starts, handle, &Start::reference) + erase(work_.splits, handle, &Split::parent) +
         erase(work_.calls, handle, &DeferredCall::reference);
}

void Group::cancel() {
  depth_ = 0;
  work_ = {};
}

// Splits of one parent run one after the other, because they all use the parent. The new
// communicators then start at the same time.
Status Group::splitAll(const std::vector<Split*>& splits) {
  std::vector<Task> starts;
  for (Split* split : splits) {
    Result<std::unique_ptr<bpsComm>> made = split->make();
    if (!made.ok()) return std::move(made).status();
    std::unique_ptr<bpsComm> child = std::move(made).value();
    if (child == nullptr) continue;
    auto shared = std::make_shared<std::unique_ptr<bpsComm>>(std::move(child));
    starts.push_back([split, shared] { return startHandle(split->out, std::move(*shared)); });
  }
  return starts.empty() ? Status() : runConcurrently(starts);
}

Status Group::startAll(DeferredWork& work) {
  std::vector<Task> jobs;
  for (Start& start : work.starts) jobs.push_back([&start] { return runStart(start.reference->handle()); });
  std::map<const bpsComm*, std::vector<Split*>> byParent;
  for (Split& split : work.splits) byParent[&split.parent->handle()].push_back(&split);
  for (const auto& [parent, splits] : byParent) jobs.push_back([&splits = splits] { return splitAll(splits); });
  return jobs.empty() ? Status() : runConcurrently(jobs);
}

Status Group::end() {
  if (depth_ == 0) return {Code::kInvalidUsage, "bpsGroupEnd without bpsGroupStart"};
  if (--depth_ > 0) return {};
  DeferredWork work = std::exchange(work_, {});
  Status first = startAll(work);
  keepFirst(first, issueGroup(work.calls));
  work.calls.clear();
  // Communicators that failed to start are freed only after the calls, because a call may use one
  // of them.
  for (const Start& start : work.starts) {
    bpsComm& handle = start.reference->handle();
    if (handle.state.load() == bpsComm::State::kReady) continue;
    if (*start.out == &handle) *start.out = nullptr;
    releaseByOwner(handle);
  }
  return first;
}

}  // namespace bps
