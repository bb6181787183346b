#include "src/net/mesh.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps::net {

Mesh::Mesh(Plugin& plugin, int device, MeshShape shape)
    : plugin_(&plugin),
      device_(device),
      shape_(std::move(shape)),
      pending_(shape_.owners.size()),
      links_(shape_.owners.size()) {}

bool Mesh::ownsFor(size_t owner, size_t machine) const {
  return owner != machine && machine < shape_.machines && shape_.owners[owner];
}

Result<Mesh> Mesh::listen(Plugin& plugin, int device, MeshShape shape) {
  Mesh mesh(plugin, device, std::move(shape));
  for (size_t peer = 0; peer < mesh.pending_.size(); ++peer) {
    if (mesh.ownsFor(mesh.shape_.self, peer)) mesh.pending_[peer].push = BPS_TRY(plugin.listen(device));
    if (mesh.ownsFor(peer, mesh.shape_.self)) mesh.pending_[peer].answer = BPS_TRY(plugin.listen(device));
  }
  return mesh;
}

std::vector<Blob> Mesh::handles() const {
  std::vector<Blob> blobs(pending_.size());
  for (size_t peer = 0; peer < pending_.size(); ++peer) {
    for (const Listener* listener : {pending_[peer].push.get(), pending_[peer].answer.get()})
      if (listener != nullptr)
        blobs[peer].insert(blobs[peer].end(), listener->handle().begin(), listener->handle().end());
  }
  return blobs;
}

Status Mesh::setPeerHandles(const std::vector<Blob>& handles) {
  if (handles.size() != pending_.size())
    return failure(Code::kRemote, "handles of {} endpoints came, {} are in the roster", handles.size(),
                   pending_.size());
  for (size_t peer = 0; peer < pending_.size(); ++peer) {
    const bool push = ownsFor(peer, shape_.self), answer = ownsFor(shape_.self, peer);
    const size_t expected = ((push ? 1U : 0U) + (answer ? 1U : 0U)) * kHandleBytes;
    if (handles[peer].size() != expected)
      return failure(Code::kRemote, "endpoint {} sent {} bytes of handles, expected {}", peer, handles[peer].size(),
                     expected);
    Handle handle{};
    auto at = handles[peer].begin();
    const auto next = [&] {
      std::copy_n(at, kHandleBytes, handle.begin());
      at += kHandleBytes;
      return plugin_->connect(device_, handle);
    };
    if (push) pending_[peer].pushOut = next();
    if (answer) pending_[peer].answerOut = next();
  }
  return {};
}

namespace {

// One step of one establishment; done when `comm` is there.
template <class Source, class Step>
Result<bool> advance(std::unique_ptr<Source>& source, std::unique_ptr<Comm>& comm, Step step) {
  if (source == nullptr) return true;
  comm = BPS_TRY(step(*source));
  if (comm == nullptr) return false;
  source.reset();
  return true;
}

}  // namespace

Result<Progress> Mesh::stepPeer(size_t endpoint) {
  Pending& p = pending_[endpoint];
  Link& link = links_[endpoint];
  const auto accept = [](Listener& listener) { return listener.accept(); };
  const auto connect = [](Connector& connector) { return connector.connect(); };
  bool done = BPS_TRY(advance(p.pushOut, link.pushOut, connect));
  done &= BPS_TRY(advance(p.answerOut, link.answerOut, connect));
  done &= BPS_TRY(advance(p.push, link.pushIn, accept));
  done &= BPS_TRY(advance(p.answer, link.answerIn, accept));
  return done ? Progress::kDone : Progress::kPending;
}

Result<Progress> Mesh::step() {
  size_t waiting = pending_.size();
  for (size_t peer = pending_.size(); peer-- > 0;) {
    current_ = peer;
    if (BPS_TRY(stepPeer(peer)) == Progress::kPending) waiting = peer;
  }
  current_ = waiting;
  return waiting == pending_.size() ? Progress::kDone : Progress::kPending;
}

}  // namespace bps::net
