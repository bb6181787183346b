#include "src/reducer/call_queue.h"

#include <utility>

#include "src/base/deadline.h"
#include "src/base/guard.h"
#include "src/base/process/thread_name.h"

namespace bps::reducer {

Status fromApi(bpsResult_t result) {
  if (result == bpsSuccess) return {};
  return {static_cast<Code>(result), bpsGetLastError(nullptr)};
}

Result<std::unique_ptr<CallQueue>> CallQueue::create(bpsComm_t comm, Ended ended) {
  std::unique_ptr<CallQueue> made(new CallQueue(comm, std::move(ended)));
  BPS_TRY(fromApi(bpsHostStreamCreate(&made->stream_)));
  const auto run = [queue = made.get()] {
    nameThread("bps-reducer");
    (void)guarded([&] { queue->waitForCalls(); });
  };
  BPS_TRY(guarded([&] { made->thread_ = std::thread(run); }));
  return made;
}

CallQueue::~CallQueue() {
  stop();
  if (stream_ != nullptr) (void)bpsHostStreamDestroy(stream_);  // the reducer has reported failures of its calls
}

void CallQueue::stop() {
  {
    MutexLock lock(mutex_);
    stopping_ = true;
  }
  changed_.notifyAll();
  if (thread_.joinable()) thread_.join();
}

Status CallQueue::acquire() {
  reference_ = BPS_TRY(CommReference::acquire(comm_));
  bpsResult_t state = bpsSuccess;
  BPS_TRY(fromApi(bpsCommGetAsyncError(comm_, &state)));
  if (state == bpsSuccess) return {};
  if (state == bpsInProgress) return {Code::kInvalidUsage, "a communicator of the reducer is being finalized"};
  return {static_cast<Code>(state), bpsGetLastError(comm_)};
}

void CallQueue::fail(const Status& why) {
  if (reference_ != nullptr) (void)commFail(comm_, static_cast<bpsResult_t>(why.code()), why.message());
}

Status CallQueue::launch(const BucketCall& call) {
  BPS_TRY(fromApi(
      bpsAllReduce(call.data, call.data, call.count, static_cast<bpsDataType_t>(call.type), call.op, comm_, stream_)));
  Launched launched{call.number, {}};
  BPS_TRY(fromApi(bpsHostEventRecord(&launched.event, stream_)));
  {
    MutexLock lock(mutex_);
    launched_.push_back(launched);
  }
  changed_.notifyAll();
  return {};
}

void CallQueue::waitForCalls() {
  while (true) {
    Launched next{};
    {
      MutexLock lock(mutex_);
      while (launched_.empty() && !stopping_) changed_.waitUntil(mutex_, Deadline::never().at());
      if (launched_.empty()) return;
      next = launched_.front();
      launched_.pop_front();
    }
    ended_(next.number, fromApi(bpsHostEventSynchronize(&next.event)));
  }
}

}  // namespace bps::reducer
