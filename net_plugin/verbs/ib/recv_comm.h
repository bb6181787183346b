// RecvComm: the receiving end of a verbs connection. It grants every receive to the sender, in the order of posting.
#pragma once
#include "net_plugin/verbs/ib/memory/flusher.h"
#include "net_plugin/verbs/ib/queue_comm.h"

namespace bps::plugin::verbs {

class RecvComm final : public QueueComm {
 public:
  using QueueComm::QueueComm;
  ~RecvComm() override;

  Status start() override;
  Result<Request*> flushMemory(void* data, size_t bytes, void* memory) override;
  Result<int> waitFd() override;
  Result<bool> arm() override;

 protected:
  Status onCompletion(const ibv_wc& completion) override;
  Status postMore() override;
  Status onNotice(const Notice& notice) override;
  Status applyNotices() override;
  int access() const override {
    return params().write ? IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE : IBV_ACCESS_LOCAL_WRITE;
  }

  int accessOnGpu() const override { return access() | IBV_ACCESS_REMOTE_READ; }  // Flusher reads the memory

 private:
  Result<bool> grantNext();
  Status sendGrant(const Request& request, const DeviceBuffer& view);
  Status onWriteArrived(const ibv_wc& completion);
  Status onPieceArrived(const ibv_wc& completion);
  void finish(size_t bytes);

  uint64_t granted_ = 0;                           // messages before this number have been granted
  uint32_t grantsInFlight_ = 0;                    // grants whose send has not completed
  size_t receivesPosted_ = 0;                      // receives that are posted to the device (SEND only)
  size_t receivedPieces_ = 0, receivedBytes_ = 0;  // arrived pieces and bytes of the front message (SEND only)
  std::optional<Notice> tooLarge_;
  std::unique_ptr<Flusher> flusher_;  // created at the first flush
};

}  // namespace bps::plugin::verbs
