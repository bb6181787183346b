#include "tools/bps_doctor/network/meeting.h"

#include <poll.h>

#include <list>

#include "src/base/format.h"
#include "src/control/link/dialer.h"
#include "src/control/link/printable.h"
#include "src/control/unique_id.h"

namespace bps::doctor {
namespace {

constexpr size_t kMaxReportBytes = 4U << 20;
constexpr std::chrono::seconds kHandshakeTime(4);
constexpr size_t kMostNewcomers = 1024, kMostRefused = 64;

Credentials credentialsOf(const MeetingPlace& place) {
  return {place.key, place.auth, static_cast<uint32_t>(std::chrono::milliseconds(kHandshakeTime).count())};
}

// A connection to rank 0 until its first message has arrived.
struct Newcomer {
  AcceptingHandshake handshake;
  std::string address;
  Deadline deadline = Deadline::in(kHandshakeTime);
  std::unique_ptr<Line> line;  // after the handshake
  bool ended = false;
};

// Returns the number of the rank in its first message, or a failure if this rank cannot have sent it.
Result<int> rankOf(const nlohmann::json& report, const Gathered& all, int ranks) {
  const auto facts = report.find("facts");
  if (facts == report.end() || !facts->is_object() || !facts->contains("rank") ||
      !facts->at("rank").is_number_integer())
    return Status(Code::kRemote, "it sent no report of a rank");
  const int rank = facts->at("rank").get<int>();
  if (rank < 1 || rank >= ranks) return failure(Code::kRemote, "it says it is rank {} of {}", rank, ranks);
  if (all.reports.contains(rank)) return failure(Code::kRemote, "it is a second process that says it is rank {}", rank);
  return rank;
}

class Gathering {
 public:
  Gathering(const MeetingPlace& place, UniqueFd listener) : place_(place), listener_(std::move(listener)) {}

  Result<Gathered> run(Deadline deadline) {
    PollSet set;
    while (all_.lines.size() + 1 < static_cast<size_t>(place_.ranks) && !deadline.passed()) {
      set.clear();
      set.wakeAt(deadline.at());
      if (newcomers_.size() < kMostNewcomers) set.add(listener_.get());
      for (const Newcomer& each : newcomers_) {
        set.wakeAt(each.deadline.at());
        if (!each.ended) set.add(each.handshake.socket().fd(), each.handshake.socket().wantsWrite());
      }
      BPS_TRY(set.wait());
      for (Newcomer& each : newcomers_) step(each);
      newcomers_.remove_if([](const Newcomer& each) { return each.ended && each.deadline.passed(); });
      BPS_TRY(accept());
    }
    return std::move(all_);
  }

 private:
  Status accept() {
    if (newcomers_.size() >= kMostNewcomers) return {};
    std::optional<UniqueFd> fd = BPS_TRY(acceptFrom(listener_.get()));
    if (!fd) return {};
    auto socket = std::make_unique<ControlSocket>(std::move(*fd));
    const std::string address = socket->peer();
    newcomers_.push_back({.handshake = {std::move(socket), credentialsOf(place_), Purpose::kProbe, 0},
                          .address = address,
                          .line = nullptr});
    return {};
  }
  void step(Newcomer& each) {
    if (each.ended) return;
    const Status done = advance(each);
    if (done.ok() && (each.ended || !each.deadline.passed())) return;
    refuse(each, done.ok() ? "it sent nothing in time" : done.message());
  }
  // The connection stays open for a while, so that the peer can read the reason.
  void refuse(Newcomer& each, const std::string& why) {
    if (all_.refused.size() < kMostRefused) all_.refused.push_back({each.address, printable(why)});
    if (each.line == nullptr) (void)each.handshake.socket().flush();
    each.ended = true;
    each.deadline = Deadline::in(std::chrono::seconds(1));
  }
  Status advance(Newcomer& each) {
    if (BPS_TRY(each.handshake.step()) == Progress::kPending) return {};
    // The first message of an authenticated rank follows at once.
    each.line = std::make_unique<Line>(each.handshake.take(), Line::End::kRoot);
    nlohmann::json report = BPS_TRY(each.line->receive(Deadline::in(kHandshakeTime)));
    const int rank = BPS_TRY(rankOf(report, all_, place_.ranks));
    all_.lines.emplace(rank, std::move(*each.line));
    all_.reports.emplace(rank, std::move(report));
    each.ended = true;
    each.deadline = Deadline::in({});
    return {};
  }

  const MeetingPlace& place_;
  UniqueFd listener_;
  std::list<Newcomer> newcomers_;
  Gathered all_;
};

}  // namespace

Line::Line(Peer peer, End end)
    : socket_(std::move(peer.socket)),
      sends_(end == End::kRoot ? MessageType::kStatus : MessageType::kStatusReport),
      receives_(end == End::kRoot ? MessageType::kStatusReport : MessageType::kStatus) {
  socket_->limitFrames(kMaxReportBytes);
}

Status Line::poll(bool write, Deadline deadline) const {
  pollfd wait{socket_->fd(), static_cast<short>(write ? POLLOUT : POLLIN), 0};
  const bool ready = ::poll(&wait, 1, deadline.leftMs()) > 0;
  return ready || !deadline.passed() ? Status() : Status(Code::kTimeout, "it sent no answer in time");
}

Status Line::send(const nlohmann::json& message, Deadline deadline) {
  const std::string text = message.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  socket_->queue(sends_, Blob(text.begin(), text.end()));
  while (BPS_TRY(socket_->flush()) == Progress::kPending) BPS_TRY(poll(true, deadline));
  return {};
}

Result<nlohmann::json> Line::receive(Deadline deadline) {
  while (true) {
    std::optional<Frame> frame = BPS_TRY(socket_->read());
    if (!frame) {
      BPS_TRY(poll(false, deadline));
      continue;
    }
    nlohmann::json message = nlohmann::json::parse(frame->payload, nullptr, false);
    if (frame->header.type != receives_ || !message.is_object())
      return Status(Code::kRemote, "it sent something that is no message of bps-doctor");
    return message;
  }
}

Result<MeetingPlace> meetingPlace(const Env& env, int ranks) {
  const UniqueId id = BPS_TRY(UniqueId::create(env));
  return MeetingPlace{id.address, id.key, env.auth, ranks};
}

Result<Gathered> gather(const MeetingPlace& place, Deadline deadline) {
  return Gathering(place, BPS_TRY(listenOn(place.root))).run(deadline);
}

Result<Line> join(const MeetingPlace& place, Deadline deadline) {
  Dialer dialer({{place.root}, credentialsOf(place), Purpose::kProbe, 0}, deadline);
  PollSet set;
  do {
    set.clear();
    dialer.watch(set);
    BPS_TRY(set.wait());
  } while (BPS_TRY(dialer.step(set)) == Progress::kPending);
  return Line(dialer.take(), Line::End::kRank);
}

}  // namespace bps::doctor
