// QueuePair: a reliable connection's queue pair with its completion queue and the channel that wakes a sleeper.
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
  ~QueuePair();  // afterwards the device touches no memory for it

  QueuePairInfo info() const;
  // To the queue pair that the peer offered, which gets these rights (IBV_ACCESS_...) to memory whose key it was given.
  Status connect(const QueuePairInfo& peer, unsigned access);

  const Depths& depths() const { return depths_; }
  // How to send this many bytes: small ones travel with the request, so the device need not fetch them.
  // The CPU puts them there, so not those of a GPU.
  unsigned sendFlags(uint64_t bytes, bool onGpu = false) const {
    const unsigned flags = IBV_SEND_SIGNALED;
    return bytes <= inlineBytes_ && !onGpu ? flags | IBV_SEND_INLINE : flags;
  }
  Status send(ibv_send_wr& request);
  Status receive(uint64_t id, const ibv_sge& place);  // of no bytes: for what comes without data

  // What has completed, in order, a batch at most; nothing: no more for now. A failed completion is a failure, told
  // after all that completed before it.
  Result<std::span<const ibv_wc>> poll();

  // Readable after something has completed, if armed.
  int eventFd() const { return channel_->fd; }
  // True: armed only now, so poll once more before sleeping.
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
