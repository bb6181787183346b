#include "src/api/group.h"

#include <atomic>
#include <thread>
#include <utility>

#include "src/api/border.h"

namespace bps {
namespace {

using Job = std::function<Status()>;

void keepFirst(Status& first, Status next) {
  const bool open = first.ok() || first.code() == Code::kInProgress;
  if (open && !next.ok()) first = std::move(next);
}

// All at the same time, since they may wait for each other; where threads for that cannot be had, none.
Status runTogether(const std::vector<Job>& jobs) {
  if (jobs.size() == 1) return guarded(jobs.front());
  enum : int { kWait, kGo, kLeave };
  std::atomic<int> word{kWait};
  std::vector<Status> outcomes(jobs.size());
  std::vector<std::thread> threads;
  Status begun = guarded([&] {
    threads.reserve(jobs.size());
    for (size_t i = 0; i < jobs.size(); ++i)
      threads.emplace_back([&, i] {
        word.wait(kWait);
        if (word == kGo) outcomes[i] = guarded(jobs[i]);
      });
  });
  word = begun.ok() ? kGo : kLeave;
  word.notify_all();
  for (std::thread& thread : threads) thread.join();
  if (!begun.ok())
    return std::move(begun).within(fmt::format("{} communicators at once need a thread each", jobs.size()));
  Status first;
  for (Status& outcome : outcomes) keepFirst(first, std::move(outcome));
  return first;
}

template <class Held>
size_t erase(std::vector<Held>& all, const bpsComm& handle, std::shared_ptr<Visit> Held::*use) {
  return std::erase_if(all, [&](const Held& one) { return &((one.*use)->handle()) == &handle; });
}

}  // namespace

Group& Group::ofThisThread() {
  thread_local Group group;
  return group;
}

Status Group::putOffStart(bpsComm_t* out) {
  work_.starts.push_back({std::make_shared<Visit>(BPS_TRY(Visit::of(*out))), out});
  return {};
}

Status Group::putOffSplit(bpsComm_t parent, bpsComm_t* out, MakePart make) {
  work_.splits.push_back({std::make_shared<Visit>(BPS_TRY(Visit::of(parent))), out, std::move(make)});
  return {};
}

Status Group::putOffCall(bpsComm_t comm, std::function<Status()> call) {
  work_.calls.push_back({std::make_shared<Visit>(BPS_TRY(Visit::of(comm))), std::move(call)});
  return {};
}

size_t Group::forget(const bpsComm& handle) {
  return erase(work_.starts, handle, &Start::use) + erase(work_.splits, handle, &Split::parent) +
         erase(work_.calls, handle, &Call::use);
}

void Group::cancel() {
  depth_ = 0;
  work_ = {};
}

// The parts agree with each other over the parent, one after the other; then they start together.
Status Group::splitAll(const std::vector<Split*>& ofOneParent) {
  std::vector<Job> starts;
  for (Split* split : ofOneParent) {
    Result<std::unique_ptr<bpsComm>> made = split->make();
    if (!made.ok()) return std::move(made).status();
    std::unique_ptr<bpsComm> part = std::move(made).value();
    if (part == nullptr) continue;
    auto shared = std::make_shared<std::unique_ptr<bpsComm>>(std::move(part));
    starts.push_back([split, shared] { return startHandle(split->out, std::move(*shared)); });
  }
  return starts.empty() ? Status() : runTogether(starts);
}

Status Group::startAll(Work& work) {
  std::vector<Job> jobs;
  for (Start& start : work.starts) jobs.push_back([&start] { return runStart(start.use->handle()); });
  std::map<const bpsComm*, std::vector<Split*>> byParent;
  for (Split& split : work.splits) byParent[&split.parent->handle()].push_back(&split);
  for (const auto& [parent, splits] : byParent) jobs.push_back([&splits = splits] { return splitAll(splits); });
  return jobs.empty() ? Status() : runTogether(jobs);
}

Status Group::end() {
  if (depth_ == 0) return {Code::kInvalidUsage, "bpsGroupEnd without bpsGroupStart"};
  if (--depth_ > 0) return {};
  Work work = std::exchange(work_, {});
  Status first = startAll(work);
  for (const Call& call : work.calls) keepFirst(first, call.run());
  work.calls.clear();
  // Only now: calls of the group may have been meant for one that failed to start.
  for (const Start& start : work.starts) {
    bpsComm& handle = start.use->handle();
    if (handle.state.load() == bpsComm::State::kReady) continue;
    if (*start.out == &handle) *start.out = nullptr;
    release(handle);
  }
  return first;
}

}  // namespace bps
