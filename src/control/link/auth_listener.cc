#include "src/control/link/auth_listener.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "src/base/format.h"
#include "src/base/log.h"

namespace bps {
namespace {

using std::chrono::milliseconds;
using Reason = AdmissionCounters::Refusal;
constexpr milliseconds kMaxHandshakeStageTime(2000);  // maximum time for one stage of the handshake
constexpr milliseconds kFlushTime(1000);              // time for a refused peer to read the reason
constexpr milliseconds kAcceptRetryPause(100);        // pause before the next accept after descriptors ran out
constexpr size_t kAcceptsPerStep = 64;
constexpr int kEventsPerStep = 128;
constexpr size_t kMinPendingPerStage = 32, kDescriptorShare = 16;
constexpr size_t kLinesPerPeriod = 5;
constexpr std::chrono::seconds kLogPeriod(10);

size_t pendingLimit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kMinPendingPerStage;
  return std::clamp<size_t>(limit.rlim_cur / kDescriptorShare, kMinPendingPerStage, AuthListener::kMaxPendingPerStage);
}

std::string hostOf(const std::string& peer) { return peer.substr(0, peer.rfind(':')); }

}  // namespace

void RefusalLog::add(const std::string& peer, const std::string& why) {
  step();
  if (periodEnd_.passed()) {
    periodEnd_ = Deadline::in(kLogPeriod);
    logged_ = 0;
  }
  if (logged_ < kLinesPerPeriod) {
    ++logged_;
    logWarn(Subsystem::kNet, "connection from {} refused: {}", peer, why);
    return;
  }
  ++more_;
  last_ = fmt::format("from {}: {}", peer, why);
}

void RefusalLog::step() {
  if (more_ == 0 || !periodEnd_.passed()) return;
  logWarn(Subsystem::kNet, "{} more connections refused within {} s, the last one {}", more_, kLogPeriod.count(),
          last_);
  more_ = 0;
}

AuthListener::AuthListener(UniqueFd listener, UniqueFd epoll, const Credentials& credentials, Purpose purpose)
    : listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      credentials_(credentials),
      purpose_(purpose),
      maxPending_(pendingLimit()) {}

Result<AuthListener> AuthListener::create(const Address& address, const Credentials& credentials, Purpose purpose,
                                          uint64_t job) {
  return create(BPS_TRY(listenOn(address, kBacklog)), credentials, purpose, job);
}

Result<AuthListener> AuthListener::create(UniqueFd listener, const Credentials& credentials, Purpose purpose,
                                          uint64_t job) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return systemFailure("epoll_create1", errno);
  AuthListener created(std::move(listener), std::move(epoll), credentials, purpose);
  created.job_ = job;
  return created;
}

milliseconds AuthListener::stageTimeout(Stage stage) const {
  if (stage == kRefused || stage == kFlushing) return kFlushTime;
  return std::min(kMaxHandshakeStageTime, milliseconds(credentials_.timeoutMs) / 2);
}

void AuthListener::watch(PollSet& set) const {
  if (listener_ && pause_.passed()) set.add(listener_.get());
  else if (listener_) set.wakeAt(pause_.at());
  set.add(epoll_.get());
  for (const StageQueue& queue : queues_)
    if (!queue.connections.empty()) set.wakeAt(queue.connections.front().deadline.at());
  set.wakeAt(log_.wakeAt().at());
}

std::vector<Peer> AuthListener::step(const PollSet& set) {
  std::vector<Peer> admitted;
  if (set.ready(epoll_.get())) stepReady(admitted);
  if (listener_ && set.ready(listener_.get())) accept(admitted);
  closeExpired();
  evictSurplus();
  log_.step();
  return admitted;
}

// The events point to connections, so handling one event must not remove the connection of another event.
void AuthListener::stepReady(std::vector<Peer>& admitted) {
  std::array<epoll_event, kEventsPerStep> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerStep, 0);
  for (int i = 0; i < count; ++i) {
    Connection& connection = *static_cast<Connection*>(events[static_cast<size_t>(i)].data.ptr);
    if (connection.handshake) stepHandshake(connection, admitted);
    else sendAndDrain(connection);
  }
}

void AuthListener::stepHandshake(Connection& connection, std::vector<Peer>& admitted) {
  Result<Progress> progress = connection.handshake->step();
  if (!progress.ok()) {
    const bool wrongKey = connection.handshake->provedWrongKey();
    return refuse(connection, progress.error(), wrongKey ? Reason::kWrongKey : Reason::kHandshake);
  }
  if (std::move(progress).value() == Progress::kDone) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, connection.handshake->socket().fd(), nullptr);
    counters_->countAccepted();
    admitted.push_back(connection.handshake->take());
    return remove(connection);
  }
  if (connection.stage == kAwaitingHello && connection.handshake->helloReceived()) move(connection, kHelloReceived);
  updateEpoll(connection, false);
}

void AuthListener::accept(std::vector<Peer>& admitted) {
  for (size_t i = 0; i < kAcceptsPerStep; ++i) {
    Result<std::optional<UniqueFd>> accepted = acceptFrom(listener_.get());
    if (!accepted.ok()) {
      counters_->countRefused(Reason::kDescriptors);
      log_.add("a new connection", accepted.error().message());
      pause_ = Deadline::in(kAcceptRetryPause);
      if (!queues_[kAwaitingHello].connections.empty()) evictOldest(queues_[kAwaitingHello]);
      return;
    }
    std::optional<UniqueFd> fd = std::move(accepted).value();
    if (!fd) return;
    auto socket = std::make_unique<ControlSocket>(std::move(*fd));
    Connection connection{
        .stage = kAwaitingHello, .host = hostOf(socket->peer()), .handshake = nullptr, .socket = nullptr};
    connection.handshake = std::make_unique<AcceptingHandshake>(std::move(socket), credentials_, purpose_, job_);
    stepHandshake(add(std::move(connection)), admitted);
  }
}

void AuthListener::refuse(Connection& connection, const Status& why, AdmissionCounters::Refusal reason) {
  counters_->countRefused(reason);
  log_.add(connection.handshake->socket().peer(), why.message());
  if (connection.handshake->socket().broken()) return remove(connection);
  connection.socket = connection.handshake->take().socket;
  connection.handshake.reset();
  move(connection, kRefused);
  sendAndDrain(connection);
}

void AuthListener::reject(std::unique_ptr<ControlSocket> socket, const Refusal& refusal) {
  counters_->countRefused(Reason::kBusy);
  log_.add(socket->peer(), refusal.text);
  socket->queue(refusal);
  flushAndClose(std::move(socket));
}

void AuthListener::flushAndClose(std::unique_ptr<ControlSocket> socket) {
  std::string host = hostOf(socket->peer());
  Connection connection{.stage = kFlushing, .host = std::move(host), .handshake = nullptr, .socket = std::move(socket)};
  sendAndDrain(add(std::move(connection)));
}

// Sends the queued output, then reads until the peer closes the connection. If this side closed a connection with
// unread input, the kernel would discard the output.
void AuthListener::sendAndDrain(Connection& connection) {
  if (!connection.sent) {
    Result<Progress> progress = connection.socket->flush();
    if (!progress.ok()) return remove(connection);
    connection.sent = std::move(progress).value() == Progress::kDone;
    if (connection.sent) connection.socket->shutdownWrite();
  }
  if (connection.sent && connection.socket->drain() == Progress::kDone) return remove(connection);
  updateEpoll(connection, false);
}

void AuthListener::closeExpired() {
  for (StageQueue& queue : queues_) {
    while (!queue.connections.empty() && queue.connections.front().deadline.passed()) {
      Connection& connection = queue.connections.front();
      if (connection.handshake)
        refuse(connection, Status(Code::kRemote, "the handshake took too long"), Reason::kTimeout);
      else remove(connection);
    }
  }
}

void AuthListener::evictSurplus() {
  for (StageQueue& queue : queues_)
    while (queue.connections.size() > maxPending_) evictOldest(queue);
}

// Evicts the oldest connection of the host that has the most connections in the stage.
void AuthListener::evictOldest(StageQueue& queue) {
  size_t most = 0;
  for (const auto& [host, count] : queue.perHost) most = std::max(most, count);
  const auto oldest =
      std::find_if(queue.connections.begin(), queue.connections.end(),
                   [&](const Connection& connection) { return queue.perHost[connection.host] == most; });
  if (oldest->handshake) {
    counters_->countRefused(Reason::kSurplus);
    log_.add(oldest->handshake->socket().peer(), "too many pending connections; this is the oldest of its host");
  }
  remove(*oldest);
}

AuthListener::Connection& AuthListener::add(Connection connection) {
  StageQueue& queue = queues_[connection.stage];
  connection.deadline = Deadline::in(stageTimeout(connection.stage));
  ++queue.perHost[connection.host];
  queue.connections.push_back(std::move(connection));
  Connection& entered = queue.connections.back();
  entered.self = std::prev(queue.connections.end());
  updateEpoll(entered, true);
  return entered;
}

void AuthListener::remove(Connection& connection) {
  StageQueue& queue = queues_[connection.stage];
  const auto count = queue.perHost.find(connection.host);
  if (--count->second == 0) queue.perHost.erase(count);
  queue.connections.erase(connection.self);
}

void AuthListener::move(Connection& connection, Stage stage) {
  StageQueue &from = queues_[connection.stage], &to = queues_[stage];
  const auto count = from.perHost.find(connection.host);
  if (--count->second == 0) from.perHost.erase(count);
  ++to.perHost[connection.host];
  to.connections.splice(to.connections.end(), from.connections, connection.self);
  connection.stage = stage;
  connection.deadline = Deadline::in(stageTimeout(stage));
}

void AuthListener::updateEpoll(Connection& connection, bool added) {
  const ControlSocket& socket = connection.handshake ? connection.handshake->socket() : *connection.socket;
  epoll_event event{};
  event.events = socket.wantsWrite() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.ptr = &connection;
  ::epoll_ctl(epoll_.get(), added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, socket.fd(), &event);
}

void AuthListener::close() {
  listener_.reset();
  for (const Stage stage : {kAwaitingHello, kHelloReceived, kRefused}) queues_[stage] = {};
}

}  // namespace bps
