// ShmListener: where a listener waits, at a unix socket, for the one caller on this machine that was given its handle.
// shmConnect(): that caller's side.
//
// The socket's name is a random number that only the handle tells; who comes must also be of the same user and know the
// handle's token. The caller brings the memory of the connection along, so that it has its end at once, and the socket
// stays as the connection's lifeline. Whoever else comes is turned away, at a small fixed cost.
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

// The first bytes of a caller. checkHello takes any bytes and compares the token in constant time.
HelloBytes encodeHello(const Token& token);
Status checkHello(std::span<const uint8_t> bytes, const Token& token);

class ShmListener {
 public:
  static Result<std::unique_ptr<ShmListener>> create(const Token& token);

  uint64_t socketId() const { return socketId_; }
  // Null: the caller has not come yet. Never blocks.
  Result<std::unique_ptr<RecvComm>> accept();

 private:
  // Has not said hello yet.
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

// Connects to the door of that number. Null: not now, call again. kRemote: there is no such door for this process (its
// listener is on another machine, in another network namespace, of another user, or closed).
Result<std::unique_ptr<SendComm>> shmConnect(uint64_t socketId, const Token& token);

}  // namespace bps::plugin::shm
