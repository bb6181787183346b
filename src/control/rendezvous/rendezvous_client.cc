#include "src/control/rendezvous/rendezvous_client.h"

#include "src/base/format.h"
#include "src/control/control_node.h"
#include "src/control/frames.h"

namespace bps {

RendezvousClient::RendezvousClient(DialArgs args, const RendezvousRequest& request, Deadline deadline)
    : where_("the rendezvous server at " + args.addresses.front().text()),
      timeoutMs_(args.credentials.timeoutMs),
      request_(request),
      deadline_(deadline),
      dialer_(std::move(args), deadline) {}

void RendezvousClient::watch(PollSet& set) const {
  if (link_) link_->watch(set);
  else dialer_.watch(set);
}

Result<std::optional<Address>> RendezvousClient::step(const PollSet& set) {
  if (link_) {
    BPS_TRY(link_->step(set));
    return readAnswer();
  }
  Result<Progress> progress = dialer_.step(set);
  if (!progress.ok())
    return std::move(progress).status().within(
        "cannot reach the rendezvous server (the process that made the unique id)");
  if (std::move(progress).value() == Progress::kPending) return std::optional<Address>();
  link_ = std::make_unique<Link>(dialer_.take(), where_, timeoutMs_);
  request_.remainingMs = remainingMs(deadline_);
  link_->send(request_);
  return std::optional<Address>();
}

Result<std::optional<Address>> RendezvousClient::readAnswer() {
  std::optional<Frame> frame = BPS_TRY(link_->next());
  if (!frame) return std::optional<Address>();
  if (!isOneOf(frame->header.type, {MessageType::kRendezvousReply, MessageType::kRefusal}))
    return unexpectedFrame(*link_, *frame);
  if (frame->header.type == MessageType::kRefusal) {
    const Refusal refusal = BPS_TRY(decodeFrom<Refusal>(*link_, *frame));
    return Status(refusal.code, refusal.text);
  }
  const Address hub = BPS_TRY(decodeFrom<RendezvousReply>(*link_, *frame)).hub;
  if (hub.length() == 0) return link_->protocolError(Status(Code::kRemote, "the hub's address is missing"));
  return std::optional<Address>(hub);
}

}  // namespace bps
