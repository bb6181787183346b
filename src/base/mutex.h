// Mutex, MutexLock and CondVar: locking that clang's thread-safety analysis checks at compile time.
#pragma once
#include <chrono>
#include <condition_variable>
#include <mutex>

#if defined(__clang__)
#define BPS_ANNOTATE(x) __attribute__((x))
#else
#define BPS_ANNOTATE(x)
#endif
#define BPS_GUARDED_BY(x) BPS_ANNOTATE(guarded_by(x))
#define BPS_REQUIRES(...) BPS_ANNOTATE(requires_capability(__VA_ARGS__))

namespace bps {

class BPS_ANNOTATE(capability("mutex")) Mutex {
 public:
  void lock() BPS_ANNOTATE(acquire_capability()) { mutex_.lock(); }
  void unlock() BPS_ANNOTATE(release_capability()) { mutex_.unlock(); }
  // Call assertHeld() in a lambda that runs with the lock held, because the analysis does not
  // follow calls of lambdas.
  void assertHeld() const BPS_ANNOTATE(assert_capability(this)) {}
  bool tryLock() BPS_ANNOTATE(try_acquire_capability(true)) { return mutex_.try_lock(); }

 private:
  friend class CondVar;
  std::mutex mutex_;
};

class BPS_ANNOTATE(scoped_lockable) MutexLock {
 public:
  explicit MutexLock(Mutex& mutex) BPS_ANNOTATE(acquire_capability(mutex)) : mutex_(mutex) { mutex_.lock(); }
  ~MutexLock() BPS_ANNOTATE(release_capability()) { mutex_.unlock(); }
  MutexLock(const MutexLock&) = delete;
  MutexLock& operator=(const MutexLock&) = delete;

 private:
  Mutex& mutex_;
};

// Every wait has a time limit and runs in a loop: while (!ready && !deadline.passed()) waitUntil().
class CondVar {
 public:
  void waitUntil(Mutex& mutex, std::chrono::steady_clock::time_point at) BPS_REQUIRES(mutex) {
    std::unique_lock<std::mutex> lock(mutex.mutex_, std::adopt_lock);
    // wait_until() overflows with time_point::max().
    const auto far = std::chrono::steady_clock::now() + std::chrono::hours(1);
    condition_.wait_until(lock, at < far ? at : far);
    lock.release();
  }
  void notifyAll() { condition_.notify_all(); }

 private:
  std::condition_variable condition_;
};

}  // namespace bps
