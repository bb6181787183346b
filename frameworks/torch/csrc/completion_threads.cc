#include "completion_threads.h"

namespace bps_torch {
namespace {

using Lock = std::unique_lock<std::mutex>;
using Guard = std::lock_guard<std::mutex>;

constexpr std::chrono::seconds kLastCallbacks{5};

}  // namespace

void CompletionThreads::startLocked() {
  threads_.emplace_back([self = shared_from_this()] { self->run(); });
}

void CompletionThreads::add(c10::intrusive_ptr<BpsWork> work) {
  {
    const Guard lock(mutex_);
    if (!stopping_) {
      works_.push_back(std::move(work));
      if (threads_.size() <= inCallbacks_) startLocked();
      changed_.notify_all();
      return;
    }
  }
  work->settleWhenDone();
  work->complete();
}

// Waits for the next work. Returns null at the end.
c10::intrusive_ptr<BpsWork> CompletionThreads::next() {
  Lock lock(mutex_);
  changed_.wait(lock, [&] { return stopping_ || !works_.empty(); });
  if (works_.empty()) return nullptr;
  c10::intrusive_ptr<BpsWork> work = std::move(works_.front());
  works_.pop_front();
  return work;
}

// Drops the last reference to a work without the mutex (see Communicator::state_), and before the thread counts as
// idle.
void CompletionThreads::run() {
  while (c10::intrusive_ptr<BpsWork> work = next()) {
    work->settleWhenDone();
    {
      const Guard lock(mutex_);
      ++inCallbacks_;
      if (!works_.empty() && threads_.size() <= inCallbacks_) startLocked();
    }
    work->complete();
    work.reset();
    const Guard lock(mutex_);
    --inCallbacks_;
    changed_.notify_all();
  }
}

// A callback may call this function, in one of the threads. This thread then ends by itself.
void CompletionThreads::stop() {
  while (true) {
    std::vector<std::thread> threads;
    {
      const Guard lock(mutex_);
      stopping_ = true;
      threads.swap(threads_);
    }
    changed_.notify_all();
    if (threads.empty()) return;
    for (std::thread& thread : threads) {
      if (thread.get_id() == std::this_thread::get_id()) thread.detach();
      else thread.join();
    }
  }
}

void CompletionThreads::awaitCallbacks() {
  Lock lock(mutex_);
  changed_.wait_for(lock, kLastCallbacks, [&] { return inCallbacks_ == 0; });
}

void CompletionThreads::abandon() {
  for (std::thread& thread : threads_) thread.detach();
  threads_.clear();
}

}  // namespace bps_torch
