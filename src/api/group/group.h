// Group: the starts, splits and calls of a thread between bpsGroupStart and bpsGroupEnd.
//
// The outermost bpsGroupEnd first runs all starts and splits at the same time, because ranks of one
// communicator may share the thread. bpsGroupEnd then makes the calls (issue.h). Each deferred
// start, split and call holds a reference to its communicator. Each thread has one group.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "src/api/comm_handle.h"
#include "src/api/group/issue.h"

namespace bps {

class Group {
 public:
  // Makes the handle of the new communicator, or returns null if this rank is in no new
  // communicator.
  using CreateSplitComm = std::function<Result<std::unique_ptr<bpsComm>>()>;

  static Group& forThisThread();
  bool open() const { return depth_ > 0; }
  void begin() { ++depth_; }
  // The outermost end() runs all deferred work, returns the first failure, and frees the handles
  // that failed to start.
  Status end();
  // Ends the group and drops all deferred work.
  void cancel();

  // Defers the start of the handle *out.
  Status deferStart(bpsComm_t* out);
  Status deferSplit(bpsComm_t parent, bpsComm_t* out, CreateSplitComm make);
  Status deferCall(bpsComm_t comm, AllReduceCall call);
  // Drops all deferred work on this communicator, which the thread is about to free. Returns the
  // number of dropped items.
  size_t dropDeferred(const bpsComm& handle);

 private:
  struct Start {
    std::shared_ptr<HandleReference> reference;
    bpsComm_t* out;
  };
  struct Split {
    std::shared_ptr<HandleReference> parent;
    bpsComm_t* out;
    CreateSplitComm make;
  };
  struct DeferredWork {
    std::vector<Start> starts;
    std::vector<Split> splits;
    std::vector<DeferredCall> calls;
  };
  static Status startAll(DeferredWork& work);
  static Status splitAll(const std::vector<Split*>& splits);

  int depth_ = 0;
  DeferredWork work_;
};

}  // namespace bps
