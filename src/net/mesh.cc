#include "src/net/mesh.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps::net {

Mesh::Mesh(Plugin& plugin, int device, MeshShape shape)
    : plugin_(&plugin),
      device_(device),
      shape_(std::move(shape)),
      ways_(shape_.owners.size()),
      links_(shape_.owners.size()),
      connected_(shape_.owners.size()),
      turn_(shape_.owners.size()) {}

bool Mesh::ownsFor(size_t owner, size_t machine) const {
  return owner != machine && machine < shape_.machines && shape_.owners[owner];
}

Mesh::Ways Mesh::waysTo(size_t peer) const {
  const bool pushes = ownsFor(peer, shape_.self), answers = ownsFor(shape_.self, peer);
  Ways ways;
  const auto add = [&](std::unique_ptr<Comm> Link::*out, std::unique_ptr<Comm> Link::*in, bool opens) {
    ways.push_back({.out = out, .in = in, .opens = opens, .connector = {}, .listener = {}});
  };
  const bool first = shape_.self < peer;
  if (pushes && answers) {
    add(&Link::pushOut, &Link::pushIn, first);
    add(&Link::answerOut, &Link::answerIn, first);
  } else if (pushes) {
    add(&Link::pushOut, &Link::answerIn, true);
  } else if (answers) {
    add(&Link::answerOut, &Link::pushIn, false);
  }
  return ways;
}

Result<Mesh> Mesh::listening(Plugin& plugin, int device, MeshShape shape) {
  Mesh mesh(plugin, device, std::move(shape));
  BPS_TRY(mesh.listen());
  return mesh;
}

Result<Progress> Mesh::listen(size_t most) {
  for (; most > 0 && listening_ < ways_.size(); --most, ++listening_) {
    ways_[listening_] = waysTo(listening_);
    for (Way& way : ways_[listening_]) way.listener = BPS_TRY(plugin_->listen(device_));
  }
  return listening_ == ways_.size() ? Progress::kDone : Progress::kPending;
}

// Whether the plugin can reverse, then the handle for pushes, then the one for answers, as far as there are any.
std::vector<Blob> Mesh::handles() const {
  std::vector<Blob> blobs(ways_.size());
  for (size_t peer = 0; peer < ways_.size(); ++peer) {
    if (ways_[peer].empty()) continue;
    blobs[peer].push_back(canReverse() ? 1 : 0);
    for (const auto in : {&Link::pushIn, &Link::answerIn})
      for (const Way& way : ways_[peer])
        if (way.in == in) {
          const Handle& handle = way.listener->handle();
          blobs[peer].insert(blobs[peer].end(), handle.begin(), handle.end());
        }
  }
  return blobs;
}

Status Mesh::setPeerHandles(const std::vector<Blob>& handles) {
  if (handles.size() != ways_.size())
    return failure(Code::kRemote, "handles of {} endpoints came, {} are in the roster", handles.size(), ways_.size());
  for (size_t peer = 0; peer < ways_.size(); ++peer) {
    Ways& ways = ways_[peer];
    const size_t expected = ways.empty() ? 0 : 1 + ways.size() * kHandleBytes;
    if (handles[peer].size() != expected)
      return failure(Code::kRemote, "endpoint {} sent {} bytes of handles, expected {}", peer, handles[peer].size(),
                     expected);
    if (ways.empty()) continue;
    auto at = handles[peer].begin();
    const bool asks = *at++ == 1 && canReverse();
    for (const auto out : {&Link::pushOut, &Link::answerOut})
      for (Way& way : ways)
        if (way.out == out) {
          Handle handle{};
          std::copy_n(at, kHandleBytes, handle.begin());
          at += kHandleBytes;
          way.connector = plugin_->connect(device_, handle);
          way.asks = asks;
        }
  }
  return {};
}

Result<bool> Mesh::Way::connect(Link& link) {
  if (connector == nullptr) return true;
  link.*out = BPS_TRY(connector->connect());
  if (link.*out == nullptr) return false;
  connector.reset();
  return true;
}

Result<bool> Mesh::Way::accept(Link& link) {
  if (listener == nullptr) return true;
  link.*in = BPS_TRY(listener->accept());
  if (link.*in == nullptr) return false;
  listener.reset();
  return true;
}

Result<bool> Mesh::Way::step(Link& link) {
  if (!BPS_TRY(opens ? connect(link) : accept(link))) return false;
  if (asks) {
    asks = false;
    std::unique_ptr<Comm>&first = link.*(opens ? out : in), &second = link.*(opens ? in : out);
    second = BPS_TRY(first->reverse());
    if (second != nullptr) {
      connector.reset();
      listener.reset();
    }
  }
  return opens ? accept(link) : connect(link);
}

Result<Progress> Mesh::stepPeer(size_t endpoint) {
  bool done = true;
  for (Way& way : ways_[endpoint]) done &= BPS_TRY(way.step(links_[endpoint]));
  return done ? Progress::kDone : Progress::kPending;
}

Result<Progress> Mesh::step(size_t most) {
  for (size_t left = std::min(most, ways_.size()); left > 0; --left) {
    turn_ = turn_ == 0 ? ways_.size() - 1 : turn_ - 1;
    if (connected_[turn_]) continue;
    failed_ = turn_;
    connected_[turn_] = BPS_TRY(stepPeer(turn_)) == Progress::kDone;
    failed_.reset();
  }
  return connected() ? Progress::kDone : Progress::kPending;
}

size_t Mesh::current() const {
  if (failed_) return *failed_;
  return static_cast<size_t>(std::find(connected_.begin(), connected_.end(), false) - connected_.begin());
}

}  // namespace bps::net
