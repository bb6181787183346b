#include "src/comm/servers/call_cutter.h"

#include <chrono>

#include "cpu_reduce/reduce.h"

namespace bps {

Status CallCutter::cut(Collective& call, const FirstError& failure) {
  constexpr std::chrono::milliseconds kFailureInterval(5);
  const size_t elementSize = elementBytes(static_cast<DataType>(call.call.type));
  MutexLock lock(mutex_);
  while (holds_ > 0) {
    if (failure.failed()) return failure.get();
    released_.waitUntil(mutex_, std::chrono::steady_clock::now() + kFailureInterval);
  }
  BPS_TRY(weights_.beforeCut(callsCut_, cutter_));
  ++callsCut_;
  if (plan_.bcube) {
    call.chunks =
        makeChunks(cutForBcube(*plan_.bcube, call.call.elementsMoved(), elementSize, plan_.bcubeLimits), elementSize);
  } else {
    const Cut cut = cutter_.next(call.call.elementsMoved(), elementSize, call.limits);
    call.chunks = makeChunks(cut, elementSize);
    call.window = cut.window;
  }
  call.rounds = call.chunks.back().round + 1;
  call.remaining = call.chunks.size();
  return {};
}

Cut CallCutter::cutParameter(size_t count, DataType type, const CutLimits& limits) {
  MutexLock lock(mutex_);
  return cutter_.next(count, elementBytes(type), limits);
}

uint64_t CallCutter::hold() {
  MutexLock lock(mutex_);
  ++holds_;
  return callsCut_;
}

void CallCutter::release() {
  {
    MutexLock lock(mutex_);
    --holds_;
  }
  released_.notifyAll();
}

uint64_t CallCutter::callsCut() const {
  MutexLock lock(mutex_);
  return callsCut_;
}

}  // namespace bps
