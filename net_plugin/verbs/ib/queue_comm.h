// QueueComm: what the sending and the receiving end of a verbs connection have in common.
//
// The receiver tells the sender of every receive that is posted, by a grant: a SEND of a few bytes. The sender sends
// nothing that has no grant, so no receive is ever missing at the other end. The message itself goes straight into the
// receiver's memory: by RDMA WRITE whose last piece carries an immediate, the message's size; or by SEND, in as many
// pieces as the grant has room for, the last ones empty, so that both ends count the same.
//
// Memory that was not registered is copied through bounce buffers when it is small, and registered for the time of the
// message when it is not.
#pragma once
#include <array>
#include <optional>

#include "net_plugin/hangup_check.h"
#include "net_plugin/verbs/ib/queue_pair.h"
#include "net_plugin/verbs/liveness_socket.h"
#include "src/base/memory.h"

namespace bps::plugin::verbs {

// As the sender finds it in its memory; both ends are little-endian.
struct Grant {
  static constexpr uint32_t kMagic = 0x47737062;  // "bpsG"
  uint32_t magic = kMagic;
  uint32_t number = 0;  // of the message, its low bits
  uint64_t address = 0;
  uint64_t room = 0;
  uint32_t key = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(Grant) == 32);

class QueueComm : public Comm {
 public:
  // What two offers agree on.
  struct ConnectionParams {
    uint64_t pieceBytes = 0;
    bool write = false;
  };
  static constexpr uint32_t kGrants = RequestRing::kCapacity;
  static size_t piecesOf(uint64_t bytes, uint64_t pieceBytes) {
    return bytes == 0 ? 1 : static_cast<size_t>((bytes + pieceBytes - 1) / pieceBytes);
  }

  QueueComm(IbvDevice& device, std::unique_ptr<QueuePair> queue, const ConnectionParams& params);
  ~QueueComm() override;

  // Posts what must be there before the peer is told that we are ready.
  virtual Status start();
  // From now on the peer may use the connection.
  void activate(LivenessSocket livenessSocket) { livenessSocket_ = std::move(livenessSocket); }

  Result<void*> registerMemory(const MemoryRegion& memory) final;
  void deregisterMemory(void* memory) final;
  int ptrSupport() const final { return device_.ptrSupport(); }
  Result<int> waitFd() override;
  Result<bool> arm() override;

 protected:
  // Most bytes that one progress() posts, so that one busy connection does not starve the others of its thread.
  static constexpr size_t kMaxBytesPerCall = size_t{1} << 20;
  // postMore() stopped for that and not because it had to wait.
  void setHasMoreToMove(bool more) { hasMoreToMove_ = more; }

  // Where a message's bytes are for the device.
  struct DeviceBuffer {
    uint8_t* data = nullptr;
    uint32_t localKey = 0, remoteKey = 0;
    bool onGpu = false;
  };

  Status progress() final;
  virtual Status onCompletion(const ibv_wc& completion) = 0;
  virtual Status postMore() = 0;
  virtual Status onNotice(const Notice& notice) = 0;
  // What is left to say when everything that came has been seen.
  virtual Status applyNotices() { return {}; }
  // Rights that the device needs to the caller's memory, on the host and on a GPU.
  virtual int access() const = 0;
  virtual int accessOnGpu() const { return access(); }

  IbvDevice& device() { return device_; }
  QueuePair& queue() { return *queue_; }
  const ConnectionParams& params() const { return params_; }
  bool isActive() const { return livenessSocket_.has_value(); }
  const std::string& peer() const { return livenessSocket_->peer(); }
  const LivenessSocket& livenessSocket() const { return *livenessSocket_; }
  Status peerClosed() const;
  Status protocolError(const std::string& how) const;
  // The page that both ends have for grants.
  Grant& grantSlot(uint64_t index) { return reinterpret_cast<Grant*>(grants_.data())[index % kGrants]; }
  ibv_sge grantSge(uint64_t index);

  // Somebody has asked for the descriptor that tells of all that happens; from now on also of this one.
  bool hasWaitFd() const { return static_cast<bool>(epoll_); }
  Status addToEpoll(int fd);

  Result<DeviceBuffer> resolveBuffer(uint64_t index);
  // The bounce buffer of a message if it has one.
  uint8_t* bounceSlot(uint64_t index);
  void releaseBuffer(uint64_t index);

 private:
  static constexpr size_t kBounceBytes = 8192;
  struct Slot {
    Registration* temporary = nullptr;
    bool bounced = false;
  };
  Slot& slot(uint64_t index) { return slots_[index % slots_.size()]; }

  Status createBounceBuffers();
  void checkHangup();
  Status drain();

  IbvDevice& device_;
  std::unique_ptr<QueuePair> queue_;
  ConnectionParams params_;
  std::optional<LivenessSocket> livenessSocket_;
  UniqueFd epoll_;  // made at first use: callers that only poll cost no descriptor
  PageBuffer grants_, bounce_;
  Registration* grantMemory_ = nullptr;
  Registration* bounceMemory_ = nullptr;
  std::array<Slot, RequestRing::kCapacity> slots_{};
  NoticeBytes notice_{};
  Status noticeError_;  // what the peer did beside the queue pair
  int checksSinceHangup_ =
      0;  // how often we looked since the peer has hung up; what it sent before has come by the second
  bool hasMoreToMove_ = false;
  HangupCheck hangupCheck_;
};

}  // namespace bps::plugin::verbs
