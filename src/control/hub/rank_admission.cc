#include "src/control/hub/rank_admission.h"

#include <algorithm>

#include "bps/bps.h"
#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/control_node.h"
#include "src/control/frames.h"

namespace bps {

RankAdmission::RankAdmission(RankTable table, std::optional<AuthListener> listener, uint32_t timeoutMs,
                             Deadline deadline)
    : table_(std::move(table)),
      listener_(std::move(listener)),
      timeoutMs_(timeoutMs),
      deadline_(deadline),
      since_(Deadline::in({})),
      where_("this process") {
  if (!listener_) return;
  Result<Address> address = listener_->address();
  if (address.ok()) where_ = std::move(address).value().text();
}

void RankAdmission::watch(PollSet& set) const {
  if (listener_) listener_->watch(set);
  for (const JoiningPeer& joining : joiningPeers_) {
    joining.link->watch(set);
    set.wakeAt(joining.deadline.at());
  }
}

Status RankAdmission::step(const PollSet& set) {
  if (!listener_) return {};
  for (Peer& peer : listener_->step(set)) addPeer(std::move(peer));
  for (size_t i = 0; i < joiningPeers_.size();) {
    if (BPS_TRY(receive(joiningPeers_[i], set)))
      joiningPeers_.erase(joiningPeers_.begin() + static_cast<std::ptrdiff_t>(i));
    else ++i;
  }
  return {};
}

void RankAdmission::addPeer(Peer peer) {
  if (joiningPeers_.size() >= kMaxUnidentifiedPeers) {
    logWarn(Subsystem::kInit, "{} has not sent its rank, and other connections wait",
            joiningPeers_.front().link->name());
    joiningPeers_.erase(joiningPeers_.begin());
  }
  const std::string name = "a rank at " + peer.socket->peer();
  joiningPeers_.push_back({std::make_unique<Link>(std::move(peer), name, timeoutMs_),
                           Deadline::in(std::chrono::milliseconds(timeoutMs_) / 2)});
}

Result<bool> RankAdmission::receive(JoiningPeer& joining, const PollSet& set) {
  Status status = joining.link->step(set);
  std::optional<Frame> frame;
  if (status.ok()) {
    Result<std::optional<Frame>> came = joining.link->next();
    if (came.ok()) frame = std::move(came).value();
    else status = std::move(came).status();
  }
  if (status.ok() && !frame && joining.deadline.passed())
    status = failure(Code::kRemote, "{} has not sent its rank", joining.link->name());
  if (status.ok() && !frame) return false;
  if (status.ok() && frame->header.type != MessageType::kJoin) status = unexpectedFrame(*joining.link, *frame);
  if (status.ok()) {
    Result<Join> join = decodeFrom<Join>(*joining.link, *frame);
    if (join.ok()) return admit(joining, std::move(join).value());
    status = std::move(join).status();
  }
  logWarn(Subsystem::kInit, "{}", status.message());
  return true;
}

Result<bool> RankAdmission::admit(JoiningPeer& joining, const Join& join) {
  Status refusal = table_.admit(join);
  if (RankTable::isDisagreement(refusal)) return refusal;
  if (!refusal.ok()) {
    listener_->reject(joining.link->takeSocket(), Refusal{Refusal::Kind::kInvalid, refusal.code(), refusal.message()});
    return true;
  }
  if (join.libraryVersion != BPS_VERSION_CODE)
    logWarn(Subsystem::kInit, "{} runs library version {}, this rank runs {}", table_.name(join.rank),
            join.libraryVersion, BPS_VERSION_CODE);
  joining.link->rename(table_.name(join.rank));
  deadline_ = deadline_.earlier(deadlineIn(join.remainingMs));
  joinedRanks_.push_back({join.rank, std::move(joining.link)});
  return true;
}

std::string RankAdmission::missing() const {
  return fmt::format("{}; waited {:g} s at {}", table_.missing(), secondsSince(since_.at()), where_);
}

void RankAdmission::close() {
  joiningPeers_.clear();
  if (listener_) listener_->close();
}

void RankAdmission::sendFailure(const Status& failure) {
  for (JoiningPeer& joining : joiningPeers_)
    listener_->reject(joining.link->takeSocket(), Refusal{Refusal::Kind::kInvalid, failure.code(), failure.message()});
  joiningPeers_.clear();
}

}  // namespace bps
