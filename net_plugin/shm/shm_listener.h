// ShmListener: accepts shared memory connections at a unix socket. shmConnect() is the function for
// the connecting side.
//
// The name of the unix socket is a random number that only the handle contains. A peer must have
// the user id of this process and must know the token of the handle. The listener rejects other
// peers at a small, bounded cost. A peer creates the shared memory of the connection and sends its
// descriptor with the hello. The peer can therefore use its end of the connection without waiting
// for an answer. The unix socket then becomes the LivenessSocket of the connection.
#pragma once
#include <array>
#include <memory>
#include <vector>

#include "net_plugin/shm/recv_comm.h"
#include "net_plugin/shm/send_comm.h"
#include "src/base/deadline.h"

namespace bps::plugin::shm {

using Token = std::array<uint8_t, 16>;

inline constexpr uint16_t kVersion = 1;
inline constexpr size_t kHelloBytes = 32;
using HelloBytes = std::array<uint8_t, kHelloBytes>;

// The hello is the first message of the connecting side. checkHello() is safe for arbitrary bytes
// and compares the token in constant time.
HelloBytes encodeHello(const Token& token);
Status checkHello(std::span<const uint8_t> bytes, const Token& token);

class ShmListener {
 public:
  static Result<std::unique_ptr<ShmListener>> create(const Token& token);

  uint64_t socketId() const { return socketId_; }
  // Returns null until a peer has connected and sent its hello. Never blocks.
  Result<std::unique_ptr<RecvComm>> accept();

 private:
  // A peer that has not sent its hello yet.
  struct PendingSocket {
    UniqueFd socket;
    Deadline deadline;
  };
  static constexpr size_t kMaxPendingSockets = 16;
  static constexpr int kMaxLoggedRejections = 8;

  ShmListener(UniqueFd socket, uint64_t socketId, const Token& token)
      : socket_(std::move(socket)), socketId_(socketId), token_(token) {}

  Result<std::unique_ptr<RecvComm>> readHello(PendingSocket& pending) const;
  void reject(const PendingSocket& pending, const Status& why);

  UniqueFd socket_;
  uint64_t socketId_;
  Token token_;
  std::vector<PendingSocket> pendingSockets_;  // oldest first
  int rejectedCount_ = 0;
};

// Connects to the listener's unix socket. Returns null if the connection is not possible now; the
// caller must then call again. Fails with kRemote if this process cannot reach the socket. The
// listener may be closed, may be on another machine or in another network namespace, or may belong
// to another user.
Result<std::unique_ptr<SendComm>> shmConnect(uint64_t socketId, const Token& token);

}  // namespace bps::plugin::shm
