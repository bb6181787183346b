// Listener: accepts the sockets of connections whose peer has the listener's handle. A Listener is
// used by one thread at a time.
//
// The listener rejects peers without the handle. A rejected peer costs only a small, bounded amount
// of memory and time.
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
    std::vector<UniqueFd> sockets;  // empty if no connection is complete yet
    Carrier carrier = Carrier::kStream;
  };
  // Never blocks.
  Result<AcceptedConnection> accept();

 private:
  // A socket whose hello is incomplete.
  struct PendingSocket {
    UniqueFd socket;
    Deadline deadline;
    HelloBytes hello{};
    size_t got = 0;
  };
  // A connection that still lacks some sockets. A socket with a valid hello is stored at the index
  // that its hello contains.
  struct PendingConnection {
    uint64_t connection = 0;
    Carrier carrier = Carrier::kStream;
    Deadline deadline;
    std::vector<UniqueFd> sockets;
    size_t arrived = 0;
  };
  static constexpr size_t kMaxPendingSockets = 2 * kMaxSockets;
  static constexpr size_t kMaxPendingConnections = 16;
  static constexpr size_t kMaxConnections = 4096;  // limit per listener; bps needs one connection, NCCL needs a few
  static constexpr int kMaxLoggedRejections = 8;

  Listener(UniqueFd socket, const HandleData& handle, PeerTimeout peerTimeout)
      : socket_(std::move(socket)), handle_(handle), peerTimeout_(peerTimeout) {}

  static bool isComplete(const PendingConnection& pending) { return pending.arrived == pending.sockets.size(); }
  Status acceptSockets();
  // Returns the hello if it is complete, otherwise nullopt. Fails if the peer must be rejected.
  Result<std::optional<Hello>> readHello(PendingSocket& peer) const;
  // Reads the hellos of the pending sockets, starting with the socket at index `first`.
  void readHellosFrom(size_t first);
  Status addSocket(const Hello& hello, UniqueFd& socket);
  // Fails if a connection with this number has been seen before.
  Status checkNotReplayed(uint64_t connection);
  void reject(const UniqueFd& socket, const Status& why);
  AcceptedConnection takeCompleteConnection();

  UniqueFd socket_;
  HandleData handle_;
  PeerTimeout peerTimeout_;
  std::vector<PendingSocket> pendingSockets_;          // oldest first
  std::vector<PendingConnection> pendingConnections_;  // oldest first
  std::vector<uint64_t> knownConnections_;             // numbers of all connections so far
  int rejectedCount_ = 0;
};

}  // namespace bps::plugin::tcp
