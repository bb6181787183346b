#include "src/control/link/doorman.h"

#include <sys/epoll.h>
#include <sys/resource.h>

#include <algorithm>
#include <cerrno>

#include "src/base/format.h"
#include "src/base/log.h"

namespace bps {
namespace {

using std::chrono::milliseconds;
constexpr milliseconds kMostPatience(2000);  // with a stranger in one stage, whatever the time-out
constexpr milliseconds kFarewell(1000);      // for a refused peer to read why
constexpr milliseconds kShortage(100);       // before accepting again when descriptors are short
constexpr size_t kAcceptsPerTurn = 64;
constexpr int kEventsPerTurn = 128;
constexpr size_t kLeastPlaces = 32, kDescriptorShare = 16;
constexpr size_t kLinesPerPeriod = 5;
constexpr std::chrono::seconds kLogPeriod(10);

size_t placesOfProcess() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return kLeastPlaces;
  return std::clamp<size_t>(limit.rlim_cur / kDescriptorShare, kLeastPlaces, Doorman::kMostPlaces);
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

Doorman::Doorman(UniqueFd listener, UniqueFd epoll, const Credentials& credentials, Purpose purpose)
    : listener_(std::move(listener)),
      epoll_(std::move(epoll)),
      credentials_(credentials),
      purpose_(purpose),
      places_(placesOfProcess()) {}

Result<Doorman> Doorman::create(const Address& address, const Credentials& credentials, Purpose purpose, uint64_t job) {
  return create(BPS_TRY(listenOn(address, kBacklog)), credentials, purpose, job);
}

Result<Doorman> Doorman::create(UniqueFd listener, const Credentials& credentials, Purpose purpose, uint64_t job) {
  UniqueFd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return systemFailure("epoll_create1", errno);
  Doorman doorman(std::move(listener), std::move(epoll), credentials, purpose);
  doorman.job_ = job;
  return doorman;
}

milliseconds Doorman::patience(Stage stage) const {
  if (stage == kRefused || stage == kLeaving) return kFarewell;
  return std::min(kMostPatience, milliseconds(credentials_.timeoutMs) / 2);
}

void Doorman::watch(PollSet& set) const {
  if (listener_ && pause_.passed()) set.add(listener_.get());
  else if (listener_) set.wakeAt(pause_.at());
  set.add(epoll_.get());
  for (const Room& room : rooms_)
    if (!room.guests.empty()) set.wakeAt(room.guests.front().deadline.at());
  set.wakeAt(log_.wakeAt().at());
}

std::vector<Peer> Doorman::step(const PollSet& set) {
  std::vector<Peer> welcome;
  if (set.ready(epoll_.get())) answerAll(welcome);
  if (listener_ && set.ready(listener_.get())) accept(welcome);
  endOverdue();
  trim();
  log_.step();
  return welcome;
}

// No guest but the one that an event is for is removed meanwhile.
void Doorman::answerAll(std::vector<Peer>& welcome) {
  std::array<epoll_event, kEventsPerTurn> events{};
  const int count = ::epoll_wait(epoll_.get(), events.data(), kEventsPerTurn, 0);
  for (int i = 0; i < count; ++i) {
    Guest& guest = *static_cast<Guest*>(events[static_cast<size_t>(i)].data.ptr);
    if (guest.handshake) answer(guest, welcome);
    else sayFarewell(guest);
  }
}

void Doorman::answer(Guest& guest, std::vector<Peer>& welcome) {
  Result<Progress> progress = guest.handshake->step();
  if (!progress.ok()) return refuse(guest, progress.error());
  if (std::move(progress).value() == Progress::kDone) {
    ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, guest.handshake->socket().fd(), nullptr);
    welcome.push_back(guest.handshake->take());
    return remove(guest);
  }
  if (guest.stage == kSilent && guest.handshake->greeted()) move(guest, kGreeted);
  awaitEvents(guest, false);
}

void Doorman::accept(std::vector<Peer>& welcome) {
  for (size_t i = 0; i < kAcceptsPerTurn; ++i) {
    Result<std::optional<UniqueFd>> accepted = acceptFrom(listener_.get());
    if (!accepted.ok()) {
      log_.add("a new peer", accepted.error().message());
      pause_ = Deadline::in(kShortage);
      if (!rooms_[kSilent].guests.empty()) giveWay(rooms_[kSilent]);
      return;
    }
    std::optional<UniqueFd> fd = std::move(accepted).value();
    if (!fd) return;
    auto socket = std::make_unique<ControlSocket>(std::move(*fd));
    Guest guest{.stage = kSilent, .host = hostOf(socket->peer()), .handshake = nullptr, .socket = nullptr};
    guest.handshake = std::make_unique<AcceptingHandshake>(std::move(socket), credentials_, purpose_, job_);
    answer(enter(std::move(guest)), welcome);
  }
}

void Doorman::refuse(Guest& guest, const Status& why) {
  log_.add(guest.handshake->socket().peer(), why.message());
  if (guest.handshake->socket().broken()) return remove(guest);
  guest.socket = guest.handshake->take().socket;
  guest.handshake.reset();
  move(guest, kRefused);
  sayFarewell(guest);
}

void Doorman::dismiss(std::unique_ptr<ControlSocket> socket, const Refusal& refusal) {
  log_.add(socket->peer(), refusal.text);
  socket->queue(refusal);
  seeOff(std::move(socket));
}

void Doorman::seeOff(std::unique_ptr<ControlSocket> socket) {
  std::string host = hostOf(socket->peer());
  Guest guest{.stage = kLeaving, .host = std::move(host), .handshake = nullptr, .socket = std::move(socket)};
  sayFarewell(enter(std::move(guest)));
}

// Writes the last words, then reads until the peer has gone too: closing with unread input would destroy them.
void Doorman::sayFarewell(Guest& guest) {
  if (!guest.said) {
    Result<Progress> progress = guest.socket->flush();
    if (!progress.ok()) return remove(guest);
    guest.said = std::move(progress).value() == Progress::kDone;
    if (guest.said) guest.socket->shutdownWrite();
  }
  if (guest.said && guest.socket->drain() == Progress::kDone) return remove(guest);
  awaitEvents(guest, false);
}

void Doorman::endOverdue() {
  for (Room& room : rooms_) {
    while (!room.guests.empty() && room.guests.front().deadline.passed()) {
      Guest& guest = room.guests.front();
      if (guest.handshake) refuse(guest, Status(Code::kRemote, "the handshake took too long"));
      else remove(guest);
    }
  }
}

void Doorman::trim() {
  for (Room& room : rooms_)
    while (room.guests.size() > places_) giveWay(room);
}

// The oldest of the host with the most guests of the room goes.
void Doorman::giveWay(Room& room) {
  size_t most = 0;
  for (const auto& [host, count] : room.perHost) most = std::max(most, count);
  const auto oldest = std::find_if(room.guests.begin(), room.guests.end(),
                                   [&](const Guest& guest) { return room.perHost[guest.host] == most; });
  if (oldest->handshake)
    log_.add(oldest->handshake->socket().peer(), "too many connections are being made, and this one is slow");
  remove(*oldest);
}

Doorman::Guest& Doorman::enter(Guest guest) {
  Room& room = rooms_[guest.stage];
  guest.deadline = Deadline::in(patience(guest.stage));
  ++room.perHost[guest.host];
  room.guests.push_back(std::move(guest));
  Guest& entered = room.guests.back();
  entered.self = std::prev(room.guests.end());
  awaitEvents(entered, true);
  return entered;
}

void Doorman::remove(Guest& guest) {
  Room& room = rooms_[guest.stage];
  const auto count = room.perHost.find(guest.host);
  if (--count->second == 0) room.perHost.erase(count);
  room.guests.erase(guest.self);
}

void Doorman::move(Guest& guest, Stage stage) {
  Room &from = rooms_[guest.stage], &to = rooms_[stage];
  const auto count = from.perHost.find(guest.host);
  if (--count->second == 0) from.perHost.erase(count);
  ++to.perHost[guest.host];
  to.guests.splice(to.guests.end(), from.guests, guest.self);
  guest.stage = stage;
  guest.deadline = Deadline::in(patience(stage));
}

void Doorman::awaitEvents(Guest& guest, bool added) {
  const ControlSocket& socket = guest.handshake ? guest.handshake->socket() : *guest.socket;
  epoll_event event{};
  event.events = socket.wantsWrite() ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.ptr = &guest;
  ::epoll_ctl(epoll_.get(), added ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, socket.fd(), &event);
}

void Doorman::close() {
  listener_.reset();
  for (const Stage stage : {kSilent, kGreeted, kRefused}) rooms_[stage] = {};
}

}  // namespace bps
