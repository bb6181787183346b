// Listener: waits for the one caller that was given its handle, and gives its sockets. Whoever else connects is turned
// away, without taking more than a small fixed amount of memory and time.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "net_plugin/tcp/tcp_interface.h"
#include "net_plugin/tcp/wire.h"
#include "src/base/deadline.h"

namespace bps::plugin::tcp {

class Listener {
 public:
  static Result<std::unique_ptr<Listener>> create(const TcpInterface& device);

  HandleBytes handle() const { return encodeHandle(handle_); }
  struct AcceptedConnection {
    std::vector<UniqueFd> sockets;  // none: the caller has not come yet, or not with all its sockets
    Carrier carrier = Carrier::kStream;
  };
  // Never blocks.
  Result<AcceptedConnection> accept();

 private:
  // A socket whose hello is not complete yet.
  struct PendingSocket {
    UniqueFd socket;
    Deadline deadline;
    HelloBytes hello{};
    size_t got = 0;
  };
  // A connection that is not complete yet: its sockets that have said their right hello, each at its index.
  struct PendingConnection {
    uint64_t connection = 0;
    Carrier carrier = Carrier::kStream;
    Deadline deadline;
    std::vector<UniqueFd> sockets;
    size_t arrived = 0;
  };
  static constexpr size_t kMaxPendingSockets = 2 * kMaxSockets;
  static constexpr size_t kMaxPendingConnections = 16;
  static constexpr size_t kMaxConnections = 4096;  // of one listener; bps makes one of them, and NCCL few
  static constexpr int kMaxLoggedRejections = 8;

  Listener(UniqueFd socket, const HandleData& handle, PeerTimeout peerTimeout)
      : socket_(std::move(socket)), handle_(handle), peerTimeout_(peerTimeout) {}

  static bool isComplete(const PendingConnection& pending) { return pending.arrived == pending.sockets.size(); }
  Status acceptSockets();
  // A hello when it is whole and right; nothing yet; or a failure, why the caller has to go.
  Result<std::optional<Hello>> readHello(PendingSocket& caller) const;
  // Hears all that have something to say, beginning with the first.
  void readHellosFrom(size_t first);
  Status addSocket(const Hello& hello, UniqueFd& socket);
  // Fails if a connection of this number has begun before.
  Status checkNotReplayed(uint64_t connection);
  void reject(const UniqueFd& socket, const Status& why);
  AcceptedConnection takeCompleteConnection();

  UniqueFd socket_;
  HandleData handle_;
  PeerTimeout peerTimeout_;
  std::vector<PendingSocket> pendingSockets_;          // oldest first
  std::vector<PendingConnection> pendingConnections_;  // oldest first
  std::vector<uint64_t> knownConnections_;             // numbers of all connections so far: none begins twice
  int rejectedCount_ = 0;
};

}  // namespace bps::plugin::tcp
