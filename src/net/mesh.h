// Mesh: establishes all data connections of one endpoint of a communicator.
//
// Between a machine w and an owner o (another machine or a server) run two one-way connections: pushes w -> o and
// answers o -> w. The receiving side of each listens; its handles travel to the peer by the control plane's exchange.
// Where the plugins of both ends can, two of them are the two directions of one connection, so that what goes one way
// acknowledges what came the other way: with a server pushes and their answers; between two machines, which both push
// and both answer, the pushes of both and the answers of both, since a direct call has no answers. Packets that only
// acknowledge would take 1.5 of the 9 us of a small call. Use: listen() until done, exchange handles(),
// setPeerHandles(), step() until done, take() each link. Belongs to one thread.
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
  size_t machines = 0;       // endpoints below this number push
  std::vector<bool> owners;  // per endpoint: sums a share, so it answers
};

struct PeerConnections {
  std::unique_ptr<Comm> pushOut, answerIn;  // this endpoint's chunks to the peer's service, and their sums back
  std::unique_ptr<Comm> pushIn, answerOut;  // the peer's chunks to this endpoint's service, and their sums back
};

class Mesh {
 public:
  static constexpr size_t kAll = ~size_t{0};

  // Nothing listens yet.
  Mesh(Plugin& plugin, int device, MeshShape shape);
  // Opens the listeners of the next `most` endpoints.
  Result<Progress> listen(size_t maxEndpoints = kAll);
  // The same, whole.
  static Result<Mesh> createListening(Plugin& plugin, int device, MeshShape shape);

  // What the exchange must carry to each endpoint; empty for those this one has no connection with.
  std::vector<Blob> handles() const;
  // What came from each endpoint. Fails naming the endpoint's number when a handle is missing.
  Status setPeerHandles(const std::vector<Blob>& handles);
  // Goes on with the next `most` endpoints, in turn.
  Result<Progress> step(size_t maxEndpoints = kAll);
  // The endpoint that step() failed on, or else the first one that is not connected yet.
  size_t current() const;
  bool connected() const { return current() == pairs_.size(); }

  PeerConnections take(size_t endpoint) { return std::move(connections_[endpoint]); }

 private:
  // Two connections that run opposite ways. The end that opens connects first; the other end connects only if that
  // connection turns out to have one direction.
  struct ConnectionPair {
    std::unique_ptr<Comm> PeerConnections::*out;
    std::unique_ptr<Comm> PeerConnections::*in;
    bool connectsFirst;
    bool triesReverse = false;  // for the other direction of the first connection
    std::unique_ptr<Connector> connector;
    std::unique_ptr<Listener> listener;

    // True when the connection is there, or not needed.
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
  size_t listeningCount_ = 0;    // endpoints below it listen
  size_t lastStepped_;           // the endpoint before it is next
  std::optional<size_t> failed_;
};

}  // namespace bps::net
