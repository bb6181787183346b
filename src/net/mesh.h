// Mesh: establishes all data connections of one endpoint of a communicator. Used by one thread.
//
// There are two one-way connections between a machine w and an owner o (another machine or a server): pushes w -> o and
// answers o -> w. The receiving side of each listens; the control plane's exchange carries its handle to the peer.
//
// If the plugins of both ends support reverse(), two connections share one transport connection, one in each direction.
// Data in one direction then carries the acknowledgements of the other, which saves packets (docs/transport.md). With a
// server, pushes share with their answers. Two machines push to each other, so the pushes share with the pushes and the
// answers with the answers, because a call on the exchange path has no answers.
//
// Use: listen() until done, exchange handles(), setPeerHandles(), step() until done, take() the connections of each
// endpoint.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "src/base/io/wire_io.h"
#include "src/base/status.h"
#include "src/net/net.h"

namespace bps::net {

struct MeshShape {
  size_t self = 0;
  size_t machines = 0;       // endpoints below this number are machines, which push
  std::vector<bool> owners;  // per endpoint: whether it sums a share and therefore answers
};

struct PeerConnections {
  std::unique_ptr<Comm> pushOut, answerIn;  // this endpoint's chunks to the peer's service, and the sums back
  std::unique_ptr<Comm> pushIn, answerOut;  // the peer's chunks to this endpoint's service, and the sums back
};

class Mesh {
 public:
  static constexpr size_t kAll = ~size_t{0};

  // Opens no listeners.
  Mesh(Plugin& plugin, int device, MeshShape shape);
  // Opens the listeners for the next `maxEndpoints` endpoints.
  Result<Progress> listen(size_t maxEndpoints = kAll);
  // Creates a Mesh and opens all listeners.
  static Result<Mesh> createListening(Plugin& plugin, int device, MeshShape shape);

  // Returns the blob to send to each endpoint; empty for endpoints without a connection to this one.
  std::vector<Blob> handles() const;
  // Takes the blobs received from the endpoints. If a handle is missing, the failure names the endpoint's number.
  Status setPeerHandles(const std::vector<Blob>& handles);
  // Advances the connections of the next `maxEndpoints` endpoints, round-robin. Does not block.
  Result<Progress> step(size_t maxEndpoints = kAll);
  // The endpoint on which step() failed, otherwise the first endpoint that is not connected yet.
  size_t current() const;
  bool connected() const { return current() == pairs_.size(); }

  PeerConnections take(size_t endpoint) { return std::move(connections_[endpoint]); }

 private:
  // Two connections in opposite directions. The end with `connectsFirst` connects. The other end accepts, and it
  // connects back only if the first connection has no reverse direction.
  struct ConnectionPair {
    std::unique_ptr<Comm> PeerConnections::*out;
    std::unique_ptr<Comm> PeerConnections::*in;
    bool connectsFirst;
    bool triesReverse = false;  // use the reverse direction of the first connection if it has one
    std::unique_ptr<Connector> connector;
    std::unique_ptr<Listener> listener;

    // These return true once the connection exists or is not needed.
    Result<bool> connect(PeerConnections& connections);
    Result<bool> accept(PeerConnections& connections);
    Result<bool> step(PeerConnections& connections);
  };
  using ConnectionPairs = std::vector<ConnectionPair>;
  bool sumsFor(size_t owner, size_t machine) const;
  ConnectionPairs connectionPairsWith(size_t peer) const;
  bool canReverse() const { return plugin_->canReverse(); }
  Result<Progress> stepEndpoint(size_t endpoint);

  Plugin* plugin_;
  int device_;
  MeshShape shape_;
  std::vector<ConnectionPairs> pairs_;  // by endpoint
  std::vector<PeerConnections> connections_;
  std::vector<bool> connected_;  // by endpoint
  size_t listeningCount_ = 0;    // endpoints below this number have their listeners
  size_t lastStepped_;           // step() goes downwards and continues with the endpoint below
  std::optional<size_t> failed_;
};

}  // namespace bps::net
