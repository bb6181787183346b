// PipelinedTransfer: as many messages of one size through one end of a connection as were asked for, some in flight at
// a time. Idle: what its thread does when nothing moves.
#pragma once
#include "tools/net_plugin_check/flow.h"

namespace bps::check {

class PipelinedTransfer {
 public:
  static constexpr size_t kInFlight = 8;

  // The buffer holds kInFlight messages, and outlives this.
  PipelinedTransfer(Side& side, void* comm, bool sends, const Buffer& buffer, size_t bytes)
      : side_(side), comm_(comm), sends_(sends), buffer_(buffer), bytes_(bytes) {}

  void start(size_t count) { count_ = count, posted_ = done_ = 0; }
  // Posts what may be posted and tests the oldest. False: nothing moved.
  Result<bool> step();
  bool done() const { return done_ == count_; }
  void* comm() const { return comm_; }

 private:
  Result<bool> post();
  Result<bool> test();

  Side& side_;
  void* comm_;
  bool sends_;
  const Buffer& buffer_;
  size_t bytes_;
  size_t count_ = 0, posted_ = 0, done_ = 0;
  std::array<void*, kInFlight> requests_{};
};

class Idle {
 public:
  // Sleeps if `sleeps` and the plugin offers it; else only lets others run.
  Idle(Side& side, bool sleeps) : side_(side), wait_(sleeps ? side.table().wait() : nullptr) {}
  bool sleeps() const { return wait_ != nullptr; }
  Status operator()(std::span<PipelinedTransfer* const> pumps);

 private:
  Side& side_;
  const bpsNetWait_v1_t* wait_;
};

// Until all are done.
Status drive(Side& side, std::span<PipelinedTransfer* const> pumps, Idle idle);

}  // namespace bps::check
