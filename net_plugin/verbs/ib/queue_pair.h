// QueuePair: a queue pair of a reliable connection (RC), with its completion queue and completion channel. Owns all
// three. Used by one thread at a time.
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
  ~QueuePair();  // afterwards the device accesses no memory for this queue pair

  QueuePairInfo info() const;
  // Connects to the peer's queue pair. `access` (IBV_ACCESS_...) is the peer's rights to memory whose key it knows.
  Status connect(const QueuePairInfo& peer, unsigned access);

  const Depths& depths() const { return depths_; }
  // The flags for a send of this size. Small messages are inlined: the CPU copies them into the request, so the device
  // need not fetch them. GPU memory cannot be inlined.
  unsigned sendFlags(uint64_t bytes, bool onGpu = false) const {
    const unsigned flags = IBV_SEND_SIGNALED;
    return bytes <= inlineBytes_ && !onGpu ? flags | IBV_SEND_INLINE : flags;
  }
  Status send(ibv_send_wr& request);
  Status receive(uint64_t id, const ibv_sge& place);  // length 0: for an immediate without data

  // Returns completions in order, at most one batch; empty if there are none. A failed completion is returned as a
  // failure, after all completions before it.
  Result<std::span<const ibv_wc>> poll();

  // A descriptor that is readable after a completion, if the queue was armed.
  int eventFd() const { return channel_->fd; }
  // Returns true if it was not armed before; then poll once more before the sleep.
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
