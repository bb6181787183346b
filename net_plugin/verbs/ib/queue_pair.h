// QueuePair: a queue pair of a reliable connection (RC), with its completion queue and completion
// channel. The destructor destroys the queue pair, the completion queue and the channel. A
// QueuePair is used by one thread at a time.
#pragma once
#include <array>
#include <span>

#include "net_plugin/verbs/ib/ibv_device.h"

namespace bps::plugin::verbs {

class QueuePair {
 public:
  struct Depths {
    uint32_t sends = 0, receives = 0;
  };
  static Result<std::unique_ptr<QueuePair>> create(IbvDevice& device, const Gid& gid, const Depths& depths);
  QueuePair(const QueuePair&) = delete;
  QueuePair& operator=(const QueuePair&) = delete;
  ~QueuePair();  // after destruction, the device accesses no memory for this queue pair

  QueuePairInfo info() const;
  // Connects to the peer's queue pair. `access` (IBV_ACCESS_...) says how the peer may access
  // memory whose key the peer knows.
  Status connect(const QueuePairInfo& peer, unsigned access);

  const Depths& depths() const { return depths_; }
  // Returns the flags for a send of this size. Small messages are inlined: the CPU copies the data
  // into the request, so the device need not fetch the data. GPU memory cannot be inlined.
  unsigned sendFlags(uint64_t bytes, bool onGpu = false) const {
    const unsigned flags = IBV_SEND_SIGNALED;
    return bytes <= inlineBytes_ && !onGpu ? flags | IBV_SEND_INLINE : flags;
  }
  Status send(ibv_send_wr& request);
  Status receive(uint64_t id, const ibv_sge& place);  // a length of 0 is for an immediate without data

  // Returns completions in order, at most one batch. Returns an empty span if there are no
  // completions. If a completion has failed, poll() returns the completions before it and then
  // fails.
  Result<std::span<const ibv_wc>> poll();

  // Returns a descriptor that becomes readable at a completion if the queue is armed.
  int eventFd() const { return channel_->fd; }
  // Arms the completion queue. Returns true if the queue was not armed before; the caller must then
  // poll once more before the sleep.
  Result<bool> arm();

 private:
  static constexpr size_t kBatch = 16;

  QueuePair(IbvDevice& device, const Gid& gid, const Depths& depths) : device_(device), gid_(gid), depths_(depths) {}

  Status open();
  Status moveToReady(const QueuePairInfo& peer);
  ibv_ah_attr addressVector(const QueuePairInfo& peer) const;
  Status modify(ibv_qp_attr& attributes, int mask, const char* what);

  IbvDevice& device_;
  Gid gid_;
  Depths depths_;
  ibv_comp_channel* channel_ = nullptr;
  ibv_cq* cq_ = nullptr;
  ibv_qp* qp_ = nullptr;
  uint32_t startPsn_ = 0;
  uint32_t inlineBytes_ = 0;
  bool armed_ = false;
  std::array<ibv_wc, kBatch> batch_{};
  Status failure_;
};

}  // namespace bps::plugin::verbs
