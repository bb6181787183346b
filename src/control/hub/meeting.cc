#include "src/control/hub/meeting.h"

#include <algorithm>

#include "bps/bps.h"
#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/frames.h"
#include "src/control/star.h"

namespace bps {

Meeting::Meeting(const Join& hub, std::optional<Doorman> doorman, uint32_t timeoutMs, Deadline deadline)
    : table_(hub),
      doorman_(std::move(doorman)),
      timeoutMs_(timeoutMs),
      deadline_(deadline),
      since_(Deadline::in({})),
      where_("this process") {
  if (!doorman_) return;
  Result<Address> address = doorman_->address();
  if (address.ok()) where_ = std::move(address).value().text();
}

void Meeting::watch(PollSet& set) const {
  if (doorman_) doorman_->watch(set);
  for (const Newcomer& newcomer : newcomers_) {
    newcomer.link->watch(set);
    set.wakeAt(newcomer.deadline.at());
  }
}

Status Meeting::step(const PollSet& set) {
  if (!doorman_) return {};
  for (Peer& peer : doorman_->step(set)) meet(std::move(peer));
  for (size_t i = 0; i < newcomers_.size();) {
    if (BPS_TRY(receive(newcomers_[i], set))) newcomers_.erase(newcomers_.begin() + static_cast<std::ptrdiff_t>(i));
    else ++i;
  }
  return {};
}

void Meeting::meet(Peer peer) {
  if (newcomers_.size() >= kMostSilentPeers) {
    logWarn(Subsystem::kInit, "{} does not say which rank it is, and others wait", newcomers_.front().link->name());
    newcomers_.erase(newcomers_.begin());
  }
  const std::string name = "a rank at " + peer.socket->peer();
  newcomers_.push_back({std::make_unique<Link>(std::move(peer), name, timeoutMs_),
                        Deadline::in(std::chrono::milliseconds(timeoutMs_) / 2)});
}

Result<bool> Meeting::receive(Newcomer& newcomer, const PollSet& set) {
  Status status = newcomer.link->tick(set);
  std::optional<Frame> frame;
  if (status.ok()) {
    Result<std::optional<Frame>> came = newcomer.link->next();
    if (came.ok()) frame = std::move(came).value();
    else status = std::move(came).status();
  }
  if (status.ok() && !frame && newcomer.deadline.passed())
    status = failure(Code::kRemote, "{} does not say which rank it is", newcomer.link->name());
  if (status.ok() && !frame) return false;
  if (status.ok() && frame->header.type != MessageType::kJoin) status = notDue(*newcomer.link, *frame);
  if (status.ok()) {
    Result<Join> join = decodeFrom<Join>(*newcomer.link, *frame);
    if (join.ok()) return admit(newcomer, std::move(join).value());
    status = std::move(join).status();
  }
  logWarn(Subsystem::kInit, "{}", status.message());
  return true;
}

Result<bool> Meeting::admit(Newcomer& newcomer, const Join& join) {
  Status refusal = table_.admit(join);
  if (RankTable::disagreement(refusal)) return refusal;
  if (!refusal.ok()) {
    doorman_->dismiss(newcomer.link->takeSocket(), Refusal{Refusal::Kind::kInvalid, refusal.code(), refusal.message()});
    return true;
  }
  if (join.libraryVersion != BPS_VERSION_CODE)
    logWarn(Subsystem::kInit, "{} runs version {} of the library, this rank {}", table_.name(join.rank),
            join.libraryVersion, BPS_VERSION_CODE);
  newcomer.link->rename(table_.name(join.rank));
  deadline_ = deadline_.earlier(deadlineOf(join.patienceMs));
  arrivals_.push_back({join.rank, std::move(newcomer.link)});
  return true;
}

std::string Meeting::missing() const {
  return fmt::format("{}; waited {:g} s at {}", table_.missing(), secondsSince(since_.at()), where_);
}

void Meeting::close() {
  newcomers_.clear();
  if (doorman_) doorman_->close();
}

void Meeting::tell(const Status& failure) {
  for (Newcomer& newcomer : newcomers_)
    doorman_->dismiss(newcomer.link->takeSocket(), Refusal{Refusal::Kind::kInvalid, failure.code(), failure.message()});
  newcomers_.clear();
}

}  // namespace bps
