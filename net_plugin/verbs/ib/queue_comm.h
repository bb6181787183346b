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

#include "net_plugin/look_pace.h"
#include "net_plugin/verbs/ib/queue_pair.h"
#include "net_plugin/verbs/lifeline.h"
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
  struct Terms {
    uint64_t pieceBytes = 0;
    bool write = false;
  };
  static constexpr uint32_t kGrants = RequestRing::kCapacity;
  static size_t piecesOf(uint64_t bytes, uint64_t pieceBytes) {
    return bytes == 0 ? 1 : static_cast<size_t>((bytes + pieceBytes - 1) / pieceBytes);
  }

  QueueComm(OpenDevice& device, std::unique_ptr<QueuePair> queue, const Terms& terms);
  ~QueueComm() override;

  // Posts what must be there before the peer is told that we are ready.
  virtual Status start();
  // From now on the peer may use the connection.
  void begin(Lifeline lifeline) { lifeline_ = std::move(lifeline); }

  Result<void*> registerMemory(const Memory& memory) final;
  void deregisterMemory(void* memory) final;
  int pointers() const final { return device_.pointers(); }
  Result<int> waitFd() override;
  Result<bool> arm() override;

 protected:
  // Most bytes that one progress() posts, so that one busy connection does not starve the others of its thread.
  static constexpr size_t kMostPerCall = size_t{1} << 20;
  // postMore() stopped for that and not because it had to wait.
  void setMore(bool more) { more_ = more; }

  // Where a message's bytes are for the device.
  struct View {
    uint8_t* data = nullptr;
    uint32_t localKey = 0, remoteKey = 0;
    bool onGpu = false;
  };

  Status progress() final;
  virtual Status completed(const ibv_wc& completion) = 0;
  virtual Status postMore() = 0;
  virtual Status heard(const Notice& notice) = 0;
  // What is left to say when everything that came has been seen.
  virtual Status verdict() { return {}; }
  // Rights that the device needs to the caller's memory, on the host and on a GPU.
  virtual int access() const = 0;
  virtual int accessOnGpu() const { return access(); }

  OpenDevice& device() { return device_; }
  QueuePair& queue() { return *queue_; }
  const Terms& terms() const { return terms_; }
  bool begun() const { return lifeline_.has_value(); }
  const std::string& peer() const { return lifeline_->peer(); }
  const Lifeline& lifeline() const { return *lifeline_; }
  Status peerClosed() const;
  Status brokeRules(const std::string& how) const;
  // The page that both ends have for grants.
  Grant& grantPlace(uint64_t index) { return reinterpret_cast<Grant*>(grants_.data())[index % kGrants]; }
  ibv_sge grantPiece(uint64_t index);

  // Somebody has asked for the descriptor that tells of all that happens; from now on also of this one.
  bool sleeps() const { return static_cast<bool>(epoll_); }
  Status wakeOn(int fd);

  Result<View> viewOf(uint64_t index);
  // The bounce buffer of a message if it has one.
  uint8_t* bouncePlace(uint64_t index);
  void releaseView(uint64_t index);

 private:
  static constexpr size_t kBounceBytes = 8192;
  struct Slot {
    Registration* own = nullptr;
    bool bounced = false;
  };
  Slot& slot(uint64_t index) { return slots_[index % slots_.size()]; }

  Status openBounce();
  void look();
  Status drain();

  OpenDevice& device_;
  std::unique_ptr<QueuePair> queue_;
  Terms terms_;
  std::optional<Lifeline> lifeline_;
  UniqueFd epoll_;  // made at first use: callers that only poll cost no descriptor
  PageBuffer grants_, bounce_;
  Registration* grantMemory_ = nullptr;
  Registration* bounceMemory_ = nullptr;
  std::array<Slot, RequestRing::kCapacity> slots_{};
  NoticeBytes notice_{};
  Status wrong_;       // what the peer did beside the queue pair
  int looksGone_ = 0;  // how often we looked since the peer has hung up; what it sent before has come by the second
  bool more_ = false;
  LookPace pace_;
};

}  // namespace bps::plugin::verbs
