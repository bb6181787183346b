#include "src/control/rendezvous/rendezvous_state.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/control_node.h"
#include "src/control/frames.h"

namespace bps {

using std::chrono::milliseconds;

RendezvousState::RendezvousState(AuthListener listener, uint32_t timeoutMs)
    : listener_(std::move(listener)), timeoutMs_(timeoutMs), end_(Deadline::in(milliseconds(timeoutMs))) {}

void RendezvousState::watch(PollSet& set) const {
  listener_.watch(set);
  set.wakeAt(end_.at());
  for (const Client& client : clients_) {
    client.link->watch(set);
    set.wakeAt(client.deadline.at());
  }
}

void RendezvousState::step(const PollSet& set) {
  for (Peer& peer : listener_.step(set)) addClient(std::move(peer));
  std::erase_if(clients_, [&](Client& client) { return !serve(client, set); });
}

void RendezvousState::addClient(Peer peer) {
  const auto silent = [](const Client& client) { return !client.request; };
  if (std::count_if(clients_.begin(), clients_.end(), silent) >= static_cast<std::ptrdiff_t>(kMaxUnidentifiedPeers))
    clients_.erase(std::find_if(clients_.begin(), clients_.end(), silent));
  const std::string name = "a rank at " + peer.socket->peer();
  end_ = Deadline::in(milliseconds(timeoutMs_));
  clients_.push_back({std::make_unique<Link>(std::move(peer), name, timeoutMs_), {}, Deadline::in({}), end_});
}

bool RendezvousState::serve(Client& client, const PollSet& set) {
  const Status status = read(client, set);
  if (!status.ok()) {
    logInfo(Subsystem::kInit, "rendezvous server: {}", status.message());
    return false;
  }
  if (hub_ && client.request) {
    client.link->send(RendezvousReply{hub_->hub});
    listener_.flushAndClose(client.link->takeSocket());
    if (client.request->rank < hub_->nRanks) answered_.insert(client.request->rank);
    return false;
  }
  if (!client.deadline.passed()) return true;
  reject(client, fmt::format("rank 0 has not come within {:g} s", secondsSince(client.arrived.at())));
  return false;
}

Status RendezvousState::read(Client& client, const PollSet& set) {
  BPS_TRY(client.link->step(set));
  std::optional<Frame> frame = BPS_TRY(client.link->next());
  if (!frame) return {};
  if (frame->header.type != MessageType::kRendezvousRequest || client.request)
    return unexpectedFrame(*client.link, *frame);
  const RendezvousRequest request = BPS_TRY(decodeFrom<RendezvousRequest>(*client.link, *frame));
  if (Status wrong = check(request); !wrong.ok()) return client.link->protocolError(wrong);
  client.request = request;
  client.deadline = request.remainingMs == 0 ? client.deadline : deadlineIn(request.remainingMs);
  if (request.isHub) hub_ = request;
  return {};
}

Status RendezvousState::check(const RendezvousRequest& request) const {
  if (request.rank >= request.nRanks) return failure(Code::kRemote, "rank {} of {}", request.rank, request.nRanks);
  if (request.isHub != (request.rank == 0) || request.isHub != (request.hub.length() != 0))
    return failure(Code::kRemote, "rank {} {} the hub", request.rank, request.isHub ? "as" : "not as");
  if (request.isHub && hub_)
    return failure(Code::kRemote, "rank 0 has already come, the hub is at {}", hub_->hub.text());
  return {};
}

void RendezvousState::reject(Client& client, const std::string& text) {
  listener_.reject(client.link->takeSocket(), Refusal{Refusal::Kind::kInvalid, Code::kRemote, text});
}

bool RendezvousState::done() const {
  const bool all = hub_ && answered_.size() >= hub_->nRanks;
  return (all || (clients_.empty() && end_.passed())) && listener_.idle();
}

}  // namespace bps
