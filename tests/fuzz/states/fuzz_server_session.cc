// Fuzzes a Session of bps-server with an arbitrary hub. The input gives the order of the hub's frames and of the job's
// events. A fake runner checks the session's calls: a call that the real runner does not allow ends the program.
#include <sys/socket.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>

#include "src/base/io/host_lookup.h"
#include "src/base/log.h"
#include "src/server/session.h"

namespace bps {
namespace {

constexpr uint64_t kJob = 7;

void require(bool holds) {
  if (!holds) std::abort();
}

class StrictRunner final : public JobRunner {
 public:
  Status open(const JobSpec& spec, std::shared_ptr<JobEvents> events) override {
    require(!events_ && spec.roster.jobId == kJob);
    require(spec.endpoint < spec.roster.endpoints() && spec.roster.isServer(spec.endpoint));
    if (refuses) return {Code::kSystem, "no room"};
    events_ = std::move(events);
    blobs_ = spec.roster.rails() * spec.roster.endpoints();
    machines_ = spec.roster.machines.size();
    listening_ = connecting_ = connected_ = finished_ = closing_ = false;
    return {};
  }
  void connect(uint64_t job, std::vector<Blob> handles) override {
    require(job == kJob && events_ && listening_ && !connecting_ && !closing_ && handles.size() == blobs_);
    connecting_ = true;
  }
  void lose(uint64_t job, size_t machine) override {
    require(job == kJob && events_ && listening_ && !closing_ && machine < machines_);
  }
  void finish(uint64_t job) override {
    require(job == kJob && events_ && connecting_ && !finished_ && !closing_);
    finished_ = true;
  }
  void close(uint64_t job) override {
    require(job == kJob && events_ && !closing_);
    closing_ = true;
  }
  ServerLoad load() const override { return {}; }
  size_t report(uint64_t, const std::shared_ptr<JobEvents>&) override { return 0; }
  bool holds() const { return events_ != nullptr; }
  bool closing() const { return closing_; }

  // Reports the event `what` of the job if the job's state allows that event now.
  void say(uint8_t what, uint8_t number) {
    if (!events_) return;
    if (what == 0 && !listening_) {
      listening_ = true;
      events_->listening(kJob, std::vector<Blob>(blobs_));
    }
    if (what == 1 && connecting_ && !connected_) {
      connected_ = true;
      events_->connected(kJob);
    }
    if (what == 2) events_->failed(kJob, Status(Code::kRemote, "a lane broke"));
    if (what == 3) events_->lost(kJob, number, "it is gone");
    if (what == 4) events_->ended(kJob);
    if (what == 5 && closing_) std::exchange(events_, nullptr)->closed(kJob);
  }

  bool refuses = false;

 private:
  std::shared_ptr<JobEvents> events_;
  size_t blobs_ = 0, machines_ = 0;
  bool listening_ = false, connecting_ = false, connected_ = false, finished_ = false, closing_ = false;
};

class Input {
 public:
  Input(const uint8_t* data, size_t size) : at_(data), end_(data + size) {}
  bool empty() const { return at_ == end_; }
  uint8_t next() { return empty() ? uint8_t{0} : *at_++; }
  Blob bytes(size_t count) {
    count = std::min(count, static_cast<size_t>(end_ - at_));
    at_ += count;
    return {at_ - count, at_};
  }

 private:
  const uint8_t *at_, *end_;
};

Roster rosterOf(uint8_t shape) {
  Roster roster;
  roster.jobId = kJob;
  const uint32_t machines = 1 + shape % 3, perMachine = 1 + shape / 4 % 2;
  for (uint32_t m = 0; m < machines; ++m) {
    Machine machine;
    for (uint32_t i = 0; i < perMachine; ++i) {
      machine.ranks.push_back(m * perMachine + i);
      roster.ranks.push_back({"h", "h", 1, m, i});
    }
    roster.machines.push_back(machine);
  }
  for (uint32_t s = 0; s <= shape / 8U % 2; ++s) roster.servers.push_back({"s", 0});
  roster.settings.partitionBytes = 1 << 20;
  roster.settings.timeoutMs = 10'000;
  return roster;
}

// One session, and the hub's end of the connection to that session.
class Scene {
 public:
  explicit Scene(AuthListener& listener) : listener_(listener) {
    int fds[2];
    require(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fds) == 0);
    hub_ = std::make_unique<ControlSocket>(UniqueFd(fds[0]));
    Peer peer{std::make_unique<ControlSocket>(UniqueFd(fds[1])), 10'000};
    hub_->setJob(kJob);
    peer.socket->setJob(kJob);
    auto bell = Doorbell::create();
    require(bell.ok());
    events_ = std::make_shared<server::EventQueue>(std::move(bell).value());
    session_.emplace(std::move(peer),
                     server::SessionArgs{runner_, events_, listener_, 0, 10'000, draining_, 256, status_, counters_});
  }
  ~Scene() {
    session_.reset();
    require(!runner_.holds() || runner_.closing());
  }

  void act(Input& input) {
    const uint8_t what = input.next() % 16, number = input.next();
    if (what <= 8) send(what, number, input);
    else if (what <= 14) runner_.say(what - 9, number);
    else control(number % 4);
    turn();
  }

 private:
  void send(uint8_t what, uint8_t number, Input& input) {
    if (!hub_) return;
    if (what == 0) hub_->queue(static_cast<MessageType>(number % 32), input.bytes(input.next() % 64));
    if (what == 1) {
      roster_ = rosterOf(number);
      hub_->queue(OpenJob{number, static_cast<uint32_t>(roster_.machines.size() + number / 16 % 3), encode(roster_)});
    }
    if (what == 2) hub_->queue(MessageType::kBegin);
    if (what == 3)
      hub_->queue(ControlOpResult{ControlOp::kExchange, number % 8U == 7U ? 1U : 0U,
                                  std::vector<Blob>(roster_.rails() * roster_.endpoints() + number / 64)});
    if (what == 4) hub_->queue(ControlOpResult{static_cast<ControlOp>(number % 3), 0, std::vector<Blob>(number / 64)});
    if (what == 5) hub_->queue(Left{number});
    if (what == 6) hub_->queue(MessageType::kGoodbye);
    if (what == 7) hub_->queue(FailureMessage{Code::kRemote, "it failed"});
    if (what == 8) hub_->queue(MessageType::kHeartbeat);
    [[maybe_unused]] const bool sent = hub_->flush().ok();
  }

  void control(uint8_t what) {
    if (what == 0) runner_.refuses = !runner_.refuses;
    if (what == 1) draining_ = true;
    if (what == 2) hub_.reset();
    if (what == 3) session_->abort("the server was stopped");
  }

  void turn() {
    PollSet set;
    session_->watch(set);
    listener_.watch(set);
    set.wakeAt(Deadline::Clock::now());
    require(set.wait().ok());
    for (auto& event : events_->take()) deliver(std::move(event));
    session_->step(set);
    require(listener_.step(set).empty());
    require(!session_->over() || !runner_.holds());
    require(session_->opened() == runner_.holds());
  }

  void deliver(server::EventQueue::Event event) {
    using Kind = server::EventQueue::Kind;
    if (event.kind == Kind::kListening) session_->listening(std::move(event.handles));
    if (event.kind == Kind::kConnected) session_->connected();
    if (event.kind == Kind::kFailed) session_->failed(event.why);
    if (event.kind == Kind::kLost) session_->lost(event.rank, event.why.message());
    if (event.kind == Kind::kEnded) session_->ended();
    if (event.kind == Kind::kClosed) session_->closed();
  }

  AuthListener& listener_;
  StrictRunner runner_;
  bool draining_ = false;
  server::StatusRequests status_;
  server::ServerCounters counters_;
  Roster roster_ = rosterOf(1);
  std::unique_ptr<ControlSocket> hub_;
  std::shared_ptr<server::EventQueue> events_;
  std::optional<server::Session> session_;
};

AuthListener& listener() {
  static AuthListener instance = [] {
    logLevel() = static_cast<int>(LogLevel::kNone);
    auto addresses = resolve({"127.0.0.1", 0}, Deadline::in(std::chrono::seconds(1)));
    require(addresses.ok());
    auto made = AuthListener::create(std::move(addresses).value().front(), Credentials{}, Purpose::kServer, 0);
    require(made.ok());
    return std::move(made).value();
  }();
  return instance;
}

}  // namespace
}  // namespace bps

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1024) return 0;
  bps::Scene scene(bps::listener());
  for (bps::Input input(data, size); !input.empty();) scene.act(input);
  return 0;
}
