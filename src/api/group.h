// Group: what the calling thread has asked for between bpsGroupStart and bpsGroupEnd.
//
// The outermost end carries it out: first all communicators that start or are split, at the same time, since ranks of
// one communicator may share the thread; then the calls, in order. What a group holds keeps its communicator alive.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "src/api/comm_handle.h"

namespace bps {

class Group {
 public:
  // Makes the handle of a part of `parent`; null: this rank is in none.
  using CreateSplitComm = std::function<Result<std::unique_ptr<bpsComm>>()>;

  static Group& forThisThread();
  bool open() const { return depth_ > 0; }
  void begin() { ++depth_; }
  // Carries everything out when it is the outermost end. The first failure; what failed to start is freed.
  Status end();
  // Ends the group without carrying anything out.
  void cancel();

  // *out is a handle that starts.
  Status deferStart(bpsComm_t* out);
  Status deferSplit(bpsComm_t parent, bpsComm_t* out, CreateSplitComm make);
  Status deferCall(bpsComm_t comm, std::function<Status()> call);
  // The communicator is about to be freed by this thread: nothing is done with it any more. Returns how much was.
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
  struct Call {
    std::shared_ptr<HandleReference> reference;
    std::function<Status()> run;
  };
  struct DeferredWork {
    std::vector<Start> starts;
    std::vector<Split> splits;
    std::vector<Call> calls;
  };
  static Status startAll(DeferredWork& work);
  static Status splitAll(const std::vector<Split*>& splits);

  int depth_ = 0;
  DeferredWork work_;
};

}  // namespace bps
