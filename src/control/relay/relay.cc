#include "src/control/relay/relay.h"

#include <algorithm>
#include <optional>

#include "src/base/guard.h"
#include "src/base/io/socket.h"
#include "src/base/log.h"
#include "src/base/process/thread_name.h"

namespace bps {
namespace {

constexpr int kAcceptsPerStep = 16;
constexpr std::chrono::milliseconds kAcceptPause(100);  // if the process may open no further descriptor

}  // namespace

Result<std::unique_ptr<Relay>> Relay::create(std::vector<UniqueFd> listeners, std::chrono::milliseconds timeout) {
  Doorbell bell = BPS_TRY(Doorbell::create());
  return std::unique_ptr<Relay>(new Relay(std::move(listeners), std::move(bell), timeout));
}

Relay::Relay(std::vector<UniqueFd> listeners, Doorbell bell, std::chrono::milliseconds timeout)
    : timeout_(timeout), bell_(std::move(bell)), listeners_(std::move(listeners)), thread_([this] { main(); }) {}

Relay::~Relay() {
  if (drainMs_ < 0) drain();
  thread_.join();
}

void Relay::drain(std::chrono::milliseconds limit) {
  drainMs_ = limit.count();
  bell_.ring();
  closed_.wait(false);
}

void Relay::main() {
  nameThread("bps-relay");
  const Status status = guarded([this]() -> Status { return loop(); });
  if (!status.ok()) logWarn(Subsystem::kInit, "relay of control connections: {}", status.message());
  connections_.clear();
  closeListeners();
  ended_ = true;
}

void Relay::closeListeners() {
  listeners_.clear();
  closed_ = true;
  closed_.notify_all();
}

Status Relay::loop() {
  PollSet set;
  std::optional<Deadline> end;
  while (!end || (!connections_.empty() && !end->passed())) {
    set.clear();
    set.add(bell_.fd());
    if (end) set.wakeAt(end->at());
    watch(set);
    BPS_TRY(set.wait());
    bell_.clear();
    accept(set);
    std::erase_if(connections_, [&](auto& connection) { return !connection->step(set, targets_); });
    count_ = connections_.size();
    if (drainMs_ < 0) continue;
    const Deadline limit = Deadline::in(std::chrono::milliseconds(drainMs_));
    end = end ? end->earlier(limit) : limit;
    closeListeners();
  }
  return {};
}

void Relay::watch(PollSet& set) const {
  for (const auto& connection : connections_) connection->watch(set);
  if (!pause_.passed()) return set.wakeAt(pause_.at());
  for (const UniqueFd& listener : listeners_) set.add(listener.get());
}

void Relay::accept(const PollSet& set) {
  for (const UniqueFd& listener : listeners_) {
    for (int turn = 0; turn < kAcceptsPerStep && set.ready(listener.get()); ++turn) {
      Result<std::optional<UniqueFd>> accepted = acceptFrom(listener.get());
      if (!accepted.ok()) pause_ = Deadline::in(kAcceptPause);
      if (!accepted.ok()) break;
      std::optional<UniqueFd> client = std::move(accepted).value();
      if (!client) break;
      add(std::move(*client));
    }
  }
}

// If there are too many connections, the oldest one without a request makes room. Such a connection costs a stranger
// nothing. A connection in use is never closed for a new one.
void Relay::add(UniqueFd client) {
  auto connection = std::make_unique<RelayConnection>(std::move(client), timeout_);
  if (connections_.size() >= targets_.maxConnections()) {
    const auto silent = std::ranges::find_if(connections_, [](const auto& each) { return each->awaitsRequest(); });
    if (silent == connections_.end()) return connection->refuse(RelayReply::Outcome::kFull);
    (*silent)->refuse(RelayReply::Outcome::kFull);
    connections_.erase(silent);
  }
  connections_.push_back(std::move(connection));
}

}  // namespace bps
