#include "src/net/mesh.h"

#include <algorithm>
#include <bit>

#include "src/base/format.h"

namespace bps::net {

Mesh::Mesh(Plugin& plugin, int device, MeshShape shape)
    : plugin_(&plugin),
      device_(device),
      shape_(std::move(shape)),
      pairs_(shape_.owners.size()),
      connections_(shape_.owners.size()),
      connected_(shape_.owners.size()),
      lastStepped_(shape_.owners.size()) {}

bool Mesh::sumsFor(size_t owner, size_t machine) const {
  return owner != machine && machine < shape_.machines && shape_.owners[owner];
}

bool Mesh::exchangeSends(size_t from, size_t to) const {
  const size_t machines = shape_.machines;
  if (!shape_.exchanges || from >= machines || to >= machines) return false;
  return std::has_single_bit((from + machines - to) % machines);
}

Mesh::ConnectionPairs Mesh::connectionPairsWith(size_t peer) const {
  const bool pushes = sumsFor(peer, shape_.self), answers = sumsFor(shape_.self, peer);
  ConnectionPairs pairs;
  const auto add = [&](std::unique_ptr<Comm> PeerConnections::*out, std::unique_ptr<Comm> PeerConnections::*in,
                       bool connectsFirst) {
    pairs.push_back({.out = out, .in = in, .connectsFirst = connectsFirst, .connector = {}, .listener = {}});
  };
  const bool first = shape_.self < peer;
  if (pushes && answers) {
    add(&PeerConnections::pushOut, &PeerConnections::pushIn, first);
    add(&PeerConnections::answerOut, &PeerConnections::answerIn, first);
  } else if (pushes) {
    add(&PeerConnections::pushOut, &PeerConnections::answerIn, true);
  } else if (answers) {
    add(&PeerConnections::answerOut, &PeerConnections::pushIn, false);
  }
  const bool sends = exchangeSends(shape_.self, peer), receives = exchangeSends(peer, shape_.self);
  if (sends || receives)
    add(sends ? &PeerConnections::exchangeOut : nullptr, receives ? &PeerConnections::exchangeIn : nullptr,
        sends && (first || !receives));
  return pairs;
}

Result<Mesh> Mesh::createListening(Plugin& plugin, int device, MeshShape shape) {
  Mesh mesh(plugin, device, std::move(shape));
  BPS_TRY(mesh.listen());
  return mesh;
}

Result<Progress> Mesh::listen(size_t maxEndpoints) {
  for (; maxEndpoints > 0 && listeningCount_ < pairs_.size(); --maxEndpoints, ++listeningCount_) {
    pairs_[listeningCount_] = connectionPairsWith(listeningCount_);
    for (ConnectionPair& pair : pairs_[listeningCount_])
      if (pair.in != nullptr) pair.listener = BPS_TRY(plugin_->listen(device_));
  }
  return listeningCount_ == pairs_.size() ? Progress::kDone : Progress::kPending;
}

// A blob begins with one byte that says whether the plugin supports reverse(). After this byte come the handle of the
// listener for pushes, that for answers and that for the exchange path, if these listeners exist.
std::vector<Blob> Mesh::handles() const {
  std::vector<Blob> blobs(pairs_.size());
  for (size_t peer = 0; peer < pairs_.size(); ++peer) {
    if (pairs_[peer].empty()) continue;
    blobs[peer].push_back(canReverse() ? 1 : 0);
    for (const auto in : {&PeerConnections::pushIn, &PeerConnections::answerIn, &PeerConnections::exchangeIn})
      for (const ConnectionPair& pair : pairs_[peer])
        if (pair.in == in) {
          const Handle& handle = pair.listener->handle();
          blobs[peer].insert(blobs[peer].end(), handle.begin(), handle.end());
        }
  }
  return blobs;
}

Status Mesh::setPeerHandles(const std::vector<Blob>& handles) {
  if (handles.size() != pairs_.size())
    return failure(Code::kRemote, "received handles of {} endpoints, the roster has {}", handles.size(), pairs_.size());
  for (size_t peer = 0; peer < pairs_.size(); ++peer) {
    ConnectionPairs& pairs = pairs_[peer];
    const auto outgoing =
        std::count_if(pairs.begin(), pairs.end(), [](const ConnectionPair& pair) { return pair.out != nullptr; });
    const size_t expected = pairs.empty() ? 0 : 1 + static_cast<size_t>(outgoing) * kHandleBytes;
    if (handles[peer].size() != expected)
      return failure(Code::kRemote, "endpoint {} sent {} bytes of handles, expected {}", peer, handles[peer].size(),
                     expected);
    if (pairs.empty()) continue;
    auto at = handles[peer].begin();
    const bool triesReverse = *at++ == 1 && canReverse();
    for (const auto out : {&PeerConnections::pushOut, &PeerConnections::answerOut, &PeerConnections::exchangeOut})
      for (ConnectionPair& pair : pairs)
        if (pair.out == out) {
          Handle handle{};
          std::copy_n(at, kHandleBytes, handle.begin());
          at += kHandleBytes;
          pair.connector = plugin_->connect(device_, handle);
          pair.triesReverse = triesReverse && pair.in != nullptr;
        }
  }
  return {};
}

Result<bool> Mesh::ConnectionPair::connect(PeerConnections& connections) {
  if (connector == nullptr) return true;
  connections.*out = BPS_TRY(connector->connect());
  if (connections.*out == nullptr) return false;
  connector.reset();
  return true;
}

Result<bool> Mesh::ConnectionPair::accept(PeerConnections& connections) {
  if (listener == nullptr) return true;
  connections.*in = BPS_TRY(listener->accept());
  if (connections.*in == nullptr) return false;
  listener.reset();
  return true;
}

Result<bool> Mesh::ConnectionPair::step(PeerConnections& connections) {
  if (!BPS_TRY(connectsFirst ? connect(connections) : accept(connections))) return false;
  if (triesReverse) {
    triesReverse = false;
    std::unique_ptr<Comm>&first = connections.*(connectsFirst ? out : in),
    &second = connections.*(connectsFirst ? in : out);
    second = BPS_TRY(first->reverse());
    if (second != nullptr) {
      connector.reset();
      listener.reset();
    }
  }
  return connectsFirst ? accept(connections) : connect(connections);
}

Result<Progress> Mesh::stepEndpoint(size_t endpoint) {
  bool done = true;
  for (ConnectionPair& pair : pairs_[endpoint]) done &= BPS_TRY(pair.step(connections_[endpoint]));
  return done ? Progress::kDone : Progress::kPending;
}

Result<Progress> Mesh::step(size_t maxEndpoints) {
  for (size_t left = std::min(maxEndpoints, pairs_.size()); left > 0; --left) {
    lastStepped_ = lastStepped_ == 0 ? pairs_.size() - 1 : lastStepped_ - 1;
    if (connected_[lastStepped_]) continue;
    failed_ = lastStepped_;
    connected_[lastStepped_] = BPS_TRY(stepEndpoint(lastStepped_)) == Progress::kDone;
    failed_.reset();
  }
  return connected() ? Progress::kDone : Progress::kPending;
}

size_t Mesh::current() const {
  if (failed_) return *failed_;
  return static_cast<size_t>(std::find(connected_.begin(), connected_.end(), false) - connected_.begin());
}

}  // namespace bps::net
