// PipelinedTransfer: sends or receives a number of messages of one size, with up to kInFlight
// messages in flight. Idle: what the thread does if no transfer makes progress. One thread uses
// both classes.
#pragma once
#include "tools/net_plugin_check/flow.h"

namespace bps::check {

class PipelinedTransfer {
 public:
  static constexpr size_t kInFlight = 8;

  // The buffer has room for kInFlight messages and must outlive this object.
  PipelinedTransfer(Side& side, void* comm, bool sends, const Buffer& buffer, size_t bytes)
      : side_(side), comm_(comm), sends_(sends), buffer_(buffer), bytes_(bytes) {}

  void start(size_t count) { count_ = count, posted_ = done_ = 0; }
  // Posts messages and tests the oldest requests. Returns false if nothing was posted or completed.
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
  // If `sleeps` is true and the plugin has bpsNetWait_v1, an Idle object sleeps. Otherwise the Idle
  // object yields the CPU.
  Idle(Side& side, bool sleeps) : side_(side), wait_(sleeps ? side.table().wait() : nullptr) {}
  bool sleeps() const { return wait_ != nullptr; }
  Status operator()(std::span<PipelinedTransfer* const> transfers);

 private:
  Side& side_;
  const bpsNetWait_v1_t* wait_;
};

// Steps the transfers until all of them are done.
Status drive(Side& side, std::span<PipelinedTransfer* const> transfers, Idle idle);

}  // namespace bps::check
