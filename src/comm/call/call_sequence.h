// CallSequence: numbers the calls of a communicator in their order and says how each one is cut. Every rank makes the
// same calls, so all ranks give a call the same number. Used by the caller of the communicator only.
#pragma once
#include "src/comm/call/collective.h"
#include "src/plan/tuning.h"

namespace bps {

class CallSequence {
 public:
  const Tuning& tuning() const { return tuning_; }
  // For the next calls.
  void setTuning(const Tuning& tuning) { tuning_ = tuning; }
  // The next call gets number 0.
  void restart() { next_ = 0; }

  void append(Collective& call) {
    call.limits = tuning_.limits;
    call.window = tuning_.window;
    call.call.number = next_++;
    call.call.history = history_;
    history_ = historyAfter(call.call);
  }

 private:
  Tuning tuning_;
  uint64_t next_ = 0;
  uint32_t history_ = 0;  // of the next call, see CallInfo
};

}  // namespace bps
