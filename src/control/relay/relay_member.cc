#include "src/control/relay/relay_member.h"

#include <unistd.h>

#include <algorithm>

#include "src/base/format.h"
#include "src/base/io/socket.h"
#include "src/base/log.h"

namespace bps {
namespace {

constexpr int kBacklog = 512;
constexpr std::chrono::milliseconds kAskInterval(500);

// The relays of this process. It has one, except in tests that run several machines in one process, and while the relay
// of an earlier communicator still serves neighbours.
class Registry {
 public:
  ~Registry() {
    MutexLock lock(mutex_);
    forgetAfterFork();
    for (Entry& entry : relays_)  // a program that exits without leaving its communicators does not wait
      if (entry.members > 0) entry.relay->drain(std::chrono::milliseconds(0));
    relays_.clear();
  }

  // The relay at these addresses. Null if another process listens there.
  Result<std::shared_ptr<Relay>> join(const RelayMemberArgs& args) {
    MutexLock lock(mutex_);
    forgetAfterFork();
    joinEnded();
    const std::string name = args.own.front().text();
    for (Entry& entry : relays_)
      if (entry.members > 0 && entry.name == name) {
        ++entry.members;
        return entry.relay;
      }
    std::vector<UniqueFd> listeners;
    std::vector<std::string> texts;
    for (const Address& address : args.own) {
      if (std::ranges::find(texts, address.text()) != texts.end()) continue;
      texts.push_back(address.text());
      std::optional<UniqueFd> listener = BPS_TRY(listenIfFree(address, kBacklog));
      if (!listener && listeners.empty()) return std::shared_ptr<Relay>();
      if (!listener)
        return failure(Code::kSystem, "BPS_FABRIC: the relay port of {} is free, but not {}: another program uses it",
                       name, address.text());
      listeners.push_back(std::move(*listener));
    }
    std::shared_ptr<Relay> relay = BPS_TRY(Relay::create(std::move(listeners), args.timeout));
    relays_.push_back({name, relay, 1});
    return relay;
  }

  void leave(const std::shared_ptr<Relay>& relay) {
    MutexLock lock(mutex_);
    forgetAfterFork();
    for (Entry& entry : relays_)
      if (entry.relay == relay && --entry.members == 0) relay->drain();
    joinEnded();
  }

  size_t running() {
    MutexLock lock(mutex_);
    joinEnded();
    return relays_.size();
  }

 private:
  struct Entry {
    std::string name;  // the first address
    std::shared_ptr<Relay> relay;
    size_t members = 0;
  };
  void joinEnded() BPS_REQUIRES(mutex_) {
    std::erase_if(relays_, [](const Entry& entry) { return entry.relay->ended(); });
  }
  // fork() does not copy threads, so a child process cannot join or destroy the relays of its parent.
  void forgetAfterFork() BPS_REQUIRES(mutex_) {
    if (owner_ == ::getpid()) return;
    owner_ = ::getpid();
    [[maybe_unused]] auto* const left = new std::vector<Entry>(std::exchange(relays_, {}));
  }

  Mutex mutex_;
  pid_t owner_ BPS_GUARDED_BY(mutex_) = ::getpid();
  std::vector<Entry> relays_ BPS_GUARDED_BY(mutex_);
};

Registry& registry() {
  static Registry instance;
  return instance;
}

}  // namespace

RelayMemberArgs relayMemberArgs(const FabricPlace& place, uint16_t port) {
  RelayMemberArgs args;
  for (size_t level = 0; level < place.levels.size(); ++level) {
    const size_t own = place.shape.digit(place.address, level);
    for (size_t digit = 0; digit < place.levels[level].machines.size(); ++digit) {
      Address address = place.levels[level].machines[digit];
      address.setPort(port);
      if (digit == own) {
        args.own.push_back(address);
        continue;
      }
      const size_t neighbour = place.shape.neighbour(place.address, level, digit);
      args.neighbours.push_back(
          {address, fmt::format("of machine {}, the neighbour of {} on level {}", place.shape.addressText(neighbour),
                                place.shape.addressText(place.address), level)});
    }
  }
  return args;
}

Result<std::shared_ptr<RelayMember>> RelayMember::create(RelayMemberArgs args) {
  std::shared_ptr<RelayMember> member(new RelayMember(std::move(args)));
  BPS_TRY(member->becomeRelay());
  return member;
}

// Becomes the relay of this machine, unless another process is.
Status RelayMember::becomeRelay() {
  relay_ = BPS_TRY(registry().join(args_));
  if (!relay_) return {};
  owner_ = relay_->targets().add(args_.self, args_.nRanks);
  for (const auto& [text, target] : targets_) {
    relay_->targets().expect(owner_, target.first);
    if (target.second) relay_->targets().reached(owner_, target.first, *target.second);
  }
  return {};
}

RelayMember::~RelayMember() {
  if (!relay_) return;
  relay_->targets().remove(owner_);
  registry().leave(relay_);
}

void RelayMember::expect(const Address& target) {
  targets_.try_emplace(target.text(), target, std::nullopt);
  if (relay_) relay_->targets().expect(owner_, target);
}

void RelayMember::reached(const Address& target, const RelayWay& way) {
  targets_[target.text()] = {target, way};
  if (relay_) relay_->targets().reached(owner_, target, way);
}

void RelayMember::ask(const Address& target) {
  if (!relay_) asked_ = target;
}

void RelayMember::watch(PollSet& set) const {
  if (!asked_) return;
  set.wakeAt(next_.at());
  if (question_) question_->watch(set);
}

// Asks again in intervals, because the other process may create this communicator later.
void RelayMember::step(const PollSet& set) {
  if (!asked_) return;
  if (question_ && readAnswer(set)) return;
  if (!next_.passed()) return;
  if (question_) setProblem("the program that listens there does not answer as a relay (no answer)");
  next_ = Deadline::in(kAskInterval);
  Result<RelayConnector> started = RelayConnector::start(args_.own.front(), {RelayRequest::Kind::kAsk, *asked_});
  if (started.ok()) question_ = std::move(started).value();
}

// True if the relay of this machine serves this communicator.
bool RelayMember::readAnswer(const PollSet& set) {
  Result<Progress> progress = question_->step(set);
  if (!progress.ok()) {
    setProblem(
        fmt::format("the program that listens there does not answer as a relay ({})", progress.error().message()));
    question_.reset();
    const Status tried = becomeRelay();  // the other process may have ended
    if (!tried.ok()) setProblem(tried.message());
    if (!relay_) return false;
    setProblem({});
    asked_.reset();
    return true;
  }
  if (std::move(progress).value() == Progress::kPending) return false;
  const bool serves = question_->reply().outcome != RelayReply::Outcome::kUnknown;
  setProblem(serves ? "" : question_->refusalText());
  question_.reset();
  if (serves) asked_.reset();
  return serves;
}

void RelayMember::setProblem(const std::string& why) {
  MutexLock lock(mutex_);
  problem_ = why;
}

std::string RelayMember::problem() const {
  MutexLock lock(mutex_);
  if (problem_.empty()) return {};
  return fmt::format(
      "the relay port {} of this machine is in use: {}; every job on a machine needs its own relay= in BPS_FABRIC",
      args_.own.front().text(), problem_);
}

size_t runningRelays() { return registry().running(); }

}  // namespace bps
