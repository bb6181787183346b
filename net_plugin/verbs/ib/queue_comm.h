// QueueComm: the base class of both ends of a verbs connection. A QueueComm is used by one thread
// at a time, except that any thread may register memory.
//
// The receiver announces every posted receive to the sender by a grant, which is a short SEND. The
// sender sends a message only after it has the grant for the message, so the receiver always has a
// receive posted. The device writes the message directly into the receiver's memory, in one or
// several pieces. With RDMA WRITE, the last piece carries the size of the message as its immediate.
// With SEND, the sender sends as many pieces as the granted buffer can hold, so that both ends
// count the same number. The pieces after the end of the message are empty.
//
// A small message in unregistered memory is copied through a bounce buffer. For a larger message,
// the memory is registered for the duration of the message.
#pragma once
#include <array>
#include <optional>

#include "net_plugin/hangup_check.h"
#include "net_plugin/verbs/ib/queue_pair.h"
#include "net_plugin/verbs/liveness_socket.h"
#include "src/base/memory.h"

namespace bps::plugin::verbs {

// The memory layout of a grant. Both ends are little-endian.
struct Grant {
  static constexpr uint32_t kMagic = 0x47737062;  // "bpsG"
  uint32_t magic = kMagic;
  uint32_t number = 0;  // lower 32 bits of the message's number
  uint64_t address = 0;
  uint64_t room = 0;
  uint32_t key = 0;
  uint32_t reserved = 0;
};
static_assert(sizeof(Grant) == 32);

class QueueComm : public Comm {
 public:
  // The parameters of a connection, which follow from the queue pair infos of both ends.
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

  // Posts the receives that must exist before the ready notice is sent.
  virtual Status start();
  // Called as soon as the connection is established. Takes over the socket of the handshake.
  void activate(LivenessSocket livenessSocket) { livenessSocket_ = std::move(livenessSocket); }

  Result<void*> registerMemory(const MemoryRegion& memory) final;
  void deregisterMemory(void* memory) final;
  int ptrSupport() const final { return device_.ptrSupport(); }
  Result<int> waitFd() override;
  Result<bool> arm() override;

 protected:
  // The most bytes that one progress() posts. The limit prevents a busy connection from starving
  // other connections of the same thread.
  static constexpr size_t kMaxBytesPerCall = size_t{1} << 20;
  // Sets whether postMore() stopped because of kMaxBytesPerCall and not because it had to wait.
  void setHasMoreToMove(bool more) { hasMoreToMove_ = more; }

  // The memory from which or into which the device transfers a message.
  struct DeviceBuffer {
    uint8_t* data = nullptr;
    uint32_t localKey = 0, remoteKey = 0;
    bool onGpu = false;
  };

  Status progress() final;
  virtual Status onCompletion(const ibv_wc& completion) = 0;
  virtual Status postMore() = 0;
  virtual Status onNotice(const Notice& notice) = 0;
  // Applies received notices. Called after all completions were handled.
  virtual Status applyNotices() { return {}; }
  // These functions return the access rights that the device needs for the caller's memory on the
  // host and on a GPU.
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
  // Returns an entry of the page of grants. Each end has its own page of grants.
  Grant& grantSlot(uint64_t index) { return reinterpret_cast<Grant*>(grants_.data())[index % kGrants]; }
  ibv_sge grantSge(uint64_t index);

  // Returns whether waitFd() has created the descriptor for sleeping callers.
  bool hasWaitFd() const { return static_cast<bool>(epoll_); }
  // Adds `fd` to the descriptor for sleeping callers.
  Status addToEpoll(int fd);

  Result<DeviceBuffer> resolveBuffer(uint64_t index);
  // Returns the bounce buffer of a message, or null.
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
  UniqueFd epoll_;  // created at first use, so that callers that never sleep need no descriptor
  PageBuffer grants_, bounce_;
  Registration* grantMemory_ = nullptr;
  Registration* bounceMemory_ = nullptr;
  std::array<Slot, RequestRing::kCapacity> slots_{};
  NoticeBytes notice_{};
  Status noticeError_;  // the first error that a notice caused
  // The number of hang-up checks, starting with the check that found the hang-up. At the second
  // check, all data that the peer sent before the hang-up has arrived.
  int checksSinceHangup_ = 0;
  bool hasMoreToMove_ = false;
  HangupCheck hangupCheck_;
};

}  // namespace bps::plugin::verbs
