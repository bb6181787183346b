// CompletionThreads: complete the works whose futures the program has asked for, and run the callbacks of these
// futures.
//
// One thread is enough while no callback waits. A callback may wait for another work, so a work is never left to
// threads that all run callbacks: another thread then starts.
//
// Any thread may call any function, also a callback.
#pragma once
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "work.h"

namespace bps_torch {

class CompletionThreads : public std::enable_shared_from_this<CompletionThreads> {
 public:
  void add(c10::intrusive_ptr<BpsWork> work);
  // Completes the works that are left, and ends the threads. All works have settled.
  void stop();
  // Waits a few seconds for callbacks that still run after stop(), because one of them has called it.
  void awaitCallbacks();
  // Forgets the threads, in a forked child: they exist in its parent only.
  void abandon();

 private:
  c10::intrusive_ptr<BpsWork> next();
  void run();
  void startLocked();

  std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  bool stopping_ = false;
  std::deque<c10::intrusive_ptr<BpsWork>> works_;
  size_t inCallbacks_ = 0;  // threads that run callbacks
  std::vector<std::thread> threads_;
};

}  // namespace bps_torch
