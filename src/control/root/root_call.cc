#include "src/control/root/root_call.h"

#include "src/base/format.h"
#include "src/control/frames.h"
#include "src/control/star.h"

namespace bps {

RootCall::RootCall(DialArgs args, const AskRoot& question, Deadline deadline)
    : where_("the root at " + args.addresses.front().text()),
      timeoutMs_(args.credentials.timeoutMs),
      question_(question),
      deadline_(deadline),
      dialer_(std::move(args), deadline) {}

void RootCall::watch(PollSet& set) const {
  if (link_) link_->watch(set);
  else dialer_.watch(set);
}

Result<std::optional<Address>> RootCall::step(const PollSet& set) {
  if (link_) {
    BPS_TRY(link_->tick(set));
    return readAnswer();
  }
  Result<Progress> progress = dialer_.step(set);
  if (!progress.ok())
    return std::move(progress).status().within("cannot reach the root (where the unique id was made)");
  if (std::move(progress).value() == Progress::kPending) return std::optional<Address>();
  link_ = std::make_unique<Link>(dialer_.take(), where_, timeoutMs_);
  question_.patienceMs = patienceMs(deadline_);
  link_->send(question_);
  return std::optional<Address>();
}

Result<std::optional<Address>> RootCall::readAnswer() {
  std::optional<Frame> frame = BPS_TRY(link_->next());
  if (!frame) return std::optional<Address>();
  if (!isOneOf(frame->header.type, {MessageType::kRedirect, MessageType::kRefusal})) return notDue(*link_, *frame);
  if (frame->header.type == MessageType::kRefusal) {
    const Refusal refusal = BPS_TRY(decodeFrom<Refusal>(*link_, *frame));
    return Status(refusal.code, refusal.text);
  }
  const Address hub = BPS_TRY(decodeFrom<Redirect>(*link_, *frame)).hub;
  if (hub.length() == 0) return link_->protocolError(Status(Code::kRemote, "the hub's address is missing"));
  return std::optional<Address>(hub);
}

}  // namespace bps
