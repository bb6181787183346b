// Iteration: the marks of one iteration, and how far its calls are. Decides which calls may begin.
//
// A synchronized iteration makes one call for each bucket, in the order of the buckets, and then some
// more calls. A call begins after all calls in front of it. The call of a bucket also waits until all
// parameters of the bucket are marked. So all ranks make the same calls in the same order. A local
// iteration makes no calls.
//
// The class does no I/O. The reducer's mutex guards it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/status.h"
#include "src/reducer/bucket_plan.h"

namespace bps::reducer {

class Iteration {
 public:
  // Seconds since the iteration began; negative if it has not happened yet.
  struct CallTimes {
    double ready = -1, launched = -1, ended = -1;
  };

  void beginLocal(size_t parameters);
  void beginSynchronized(const std::vector<Bucket>& buckets, size_t parameters, size_t furtherCalls);
  void close() { open_ = false; }
  bool open() const { return open_; }
  bool synchronized() const { return synchronized_; }

  // A mark takes time, because it copies the gradient. startMark() fails if the parameter is already
  // marked or being marked.
  Status startMark(size_t parameter);
  void endMark(size_t parameter, size_t bucket, bool used);
  bool marking() const { return marking_ > 0; }
  std::vector<size_t> unmarked() const;
  // Returns all parameters: those that this rank uses in the order of their marks, then the others in
  // reverse order.
  std::vector<uint32_t> readyOrder() const;

  bool mayLaunch() const;
  // Returns the number of the call that begins now.
  size_t launchNext();
  void callEnded(size_t call);
  bool ended(size_t call) const { return times_[call].ended >= 0; }
  bool allLaunched() const { return launched_ == times_.size(); }
  bool allEnded() const { return ended_ == times_.size(); }
  bool inFlight() const { return launched_ > ended_; }
  // Times of the last synchronized iteration: of the buckets, then of the other calls.
  const std::vector<CallTimes>& times() const { return times_; }
  // Forgets the times and the calls. Call forgetTimes() while no iteration is open.
  void forgetTimes();

 private:
  enum class Mark : uint8_t { kNone, kStarted, kDone };
  double now() const { return std::chrono::duration<double>(Deadline::Clock::now() - began_).count(); }
  void begin(size_t parameters, bool synchronized);

  bool open_ = false, synchronized_ = false;
  Deadline::Clock::time_point began_;
  std::vector<Mark> marks_;
  std::vector<uint32_t> used_;  // in the order of their marks
  size_t marking_ = 0;
  std::vector<size_t> missing_;  // for each bucket, how many parameters are not marked
  std::vector<CallTimes> times_;
  size_t launched_ = 0, ended_ = 0;
};

}  // namespace bps::reducer
