// Mesh: establishes all data connections of one endpoint (machine or server) of a communicator. Only one thread uses a
// Mesh.
//
// Two one-way connections join a machine w and an owner o (another machine or a server). One carries pushes from w to
// o, and one carries answers from o to w. The receiving side of a connection listens, and the control plane's exchange
// carries the handle of its listener to the sending side.
//
// If the plugins of both endpoints support reverse(), two one-way connections of opposite directions share one
// transport connection. Data in one direction then carries the acknowledgements of the opposite direction, which saves
// packets (docs/transport.md). Between a machine and a server, the pushes and their answers share a transport
// connection. Between two machines, the pushes of the two directions share one transport connection, and the answers of
// the two directions share a second transport connection.
//
// If the shape says so, the machines are also connected for the exchange path: machine m sends to the machines m - 1,
// m - 2, m - 4 and so on (modulo the number of machines), so each machine has about log2(machines) connections each
// way.
//
// The caller first calls listen() until it is done. Then the endpoints exchange their handles() and pass the received
// handles to setPeerHandles(). Finally the caller calls step() until it is done, and take() for each endpoint.
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
  size_t machines = 0;       // endpoints below this number are machines; only machines push
  std::vector<bool> owners;  // per endpoint: true if the endpoint sums a share and sends answers
  bool exchanges = false;    // true if the machines are also connected for the exchange path
};

struct PeerConnections {
  std::unique_ptr<Comm> pushOut, answerIn;        // carry this endpoint's chunks to the peer, and the sums back
  std::unique_ptr<Comm> pushIn, answerOut;        // carry the peer's chunks to this endpoint, and the sums back
  std::unique_ptr<Comm> exchangeOut, exchangeIn;  // the connections of the exchange path to and from the peer
};

class Mesh {
 public:
  static constexpr size_t kAll = ~size_t{0};

  // The constructor opens no listeners.
  Mesh(Plugin& plugin, int device, MeshShape shape);
  // Opens the listeners for the next `maxEndpoints` endpoints.
  Result<Progress> listen(size_t maxEndpoints = kAll);
  // Creates a Mesh and opens all listeners.
  static Result<Mesh> createListening(Plugin& plugin, int device, MeshShape shape);

  // Returns one blob per endpoint, which the caller sends to this endpoint. The blob is empty if there is no connection
  // to the endpoint.
  std::vector<Blob> handles() const;
  // Takes the blobs that the endpoints have sent. If a handle is missing, the failure contains the number of the
  // endpoint.
  Status setPeerHandles(const std::vector<Blob>& handles);
  // Advances the connections of the next `maxEndpoints` endpoints; successive calls cycle through all endpoints. Does
  // not block.
  Result<Progress> step(size_t maxEndpoints = kAll);
  // The endpoint on which step() failed. If step() has not failed, the first endpoint that is not connected yet.
  size_t current() const;
  bool connected() const { return current() == pairs_.size(); }

  PeerConnections take(size_t endpoint) { return std::move(connections_[endpoint]); }

 private:
  // Two connections of opposite directions between this endpoint and a peer. The endpoint with `connectsFirst` opens
  // the first connection, and its peer accepts. The peer opens the second connection only if the first connection has
  // no reverse direction. If the exchange path needs only one direction, `out` or `in` is null.
  struct ConnectionPair {
    std::unique_ptr<Comm> PeerConnections::*out;
    std::unique_ptr<Comm> PeerConnections::*in;
    bool connectsFirst;
    bool triesReverse = false;  // the reverse direction of the first connection, if there is one, is the second
    std::unique_ptr<Connector> connector;
    std::unique_ptr<Listener> listener;

    // connect(), accept() and step() return true if their connection exists or is not needed.
    Result<bool> connect(PeerConnections& connections);
    Result<bool> accept(PeerConnections& connections);
    Result<bool> step(PeerConnections& connections);
  };
  using ConnectionPairs = std::vector<ConnectionPair>;
  bool sumsFor(size_t owner, size_t machine) const;
  bool exchangeSends(size_t from, size_t to) const;
  ConnectionPairs connectionPairsWith(size_t peer) const;
  bool canReverse() const { return plugin_->canReverse(); }
  Result<Progress> stepEndpoint(size_t endpoint);

  Plugin* plugin_;
  int device_;
  MeshShape shape_;
  std::vector<ConnectionPairs> pairs_;  // by endpoint
  std::vector<PeerConnections> connections_;
  std::vector<bool> connected_;  // by endpoint
  size_t listeningCount_ = 0;    // endpoints below this number have listeners
  size_t lastStepped_;           // step() continues with the endpoint below this one
  std::optional<size_t> failed_;
};

}  // namespace bps::net
