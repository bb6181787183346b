#include "src/control/root/root_desk.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/frames.h"
#include "src/control/star.h"

namespace bps {

using std::chrono::milliseconds;

RootDesk::RootDesk(Doorman doorman, uint32_t timeoutMs)
    : doorman_(std::move(doorman)), timeoutMs_(timeoutMs), end_(Deadline::in(milliseconds(timeoutMs))) {}

void RootDesk::watch(PollSet& set) const {
  doorman_.watch(set);
  set.wakeAt(end_.at());
  for (const Visitor& visitor : visitors_) {
    visitor.link->watch(set);
    set.wakeAt(visitor.deadline.at());
  }
}

void RootDesk::step(const PollSet& set) {
  for (Peer& peer : doorman_.step(set)) meet(std::move(peer));
  std::erase_if(visitors_, [&](Visitor& visitor) { return !serve(visitor, set); });
}

void RootDesk::meet(Peer peer) {
  const auto silent = [](const Visitor& visitor) { return !visitor.question; };
  if (std::count_if(visitors_.begin(), visitors_.end(), silent) >= static_cast<std::ptrdiff_t>(kMostSilentPeers))
    visitors_.erase(std::find_if(visitors_.begin(), visitors_.end(), silent));
  const std::string name = "a rank at " + peer.socket->peer();
  end_ = Deadline::in(milliseconds(timeoutMs_));
  visitors_.push_back({std::make_unique<Link>(std::move(peer), name, timeoutMs_), {}, Deadline::in({}), end_});
}

bool RootDesk::serve(Visitor& visitor, const PollSet& set) {
  const Status status = read(visitor, set);
  if (!status.ok()) {
    logInfo(Subsystem::kInit, "root: {}", status.message());
    return false;
  }
  if (hub_ && visitor.question) {
    visitor.link->send(Redirect{hub_->hub});
    doorman_.seeOff(visitor.link->takeSocket());
    if (visitor.question->rank < hub_->nRanks) answered_.insert(visitor.question->rank);
    return false;
  }
  if (!visitor.deadline.passed()) return true;
  dismiss(visitor, fmt::format("rank 0 has not come within {:g} s", secondsSince(visitor.arrived.at())));
  return false;
}

Status RootDesk::read(Visitor& visitor, const PollSet& set) {
  BPS_TRY(visitor.link->tick(set));
  std::optional<Frame> frame = BPS_TRY(visitor.link->next());
  if (!frame) return {};
  if (frame->header.type != MessageType::kAskRoot || visitor.question) return notDue(*visitor.link, *frame);
  const AskRoot question = BPS_TRY(decodeFrom<AskRoot>(*visitor.link, *frame));
  if (Status wrong = check(question); !wrong.ok()) return visitor.link->protocolError(wrong);
  visitor.question = question;
  visitor.deadline = question.patienceMs == 0 ? visitor.deadline : deadlineOf(question.patienceMs);
  if (question.isHub) hub_ = question;
  return {};
}

Status RootDesk::check(const AskRoot& question) const {
  if (question.rank >= question.nRanks) return failure(Code::kRemote, "rank {} of {}", question.rank, question.nRanks);
  if (question.isHub != (question.rank == 0) || question.isHub != (question.hub.length() != 0))
    return failure(Code::kRemote, "rank {} {} the hub", question.rank, question.isHub ? "as" : "not as");
  if (question.isHub && hub_)
    return failure(Code::kRemote, "rank 0 has come before, the hub is at {}", hub_->hub.text());
  return {};
}

void RootDesk::dismiss(Visitor& visitor, const std::string& text) {
  doorman_.dismiss(visitor.link->takeSocket(), Refusal{Refusal::Kind::kInvalid, Code::kRemote, text});
}

bool RootDesk::done() const {
  const bool all = hub_ && answered_.size() >= hub_->nRanks;
  return (all || (visitors_.empty() && end_.passed())) && doorman_.idle();
}

}  // namespace bps
