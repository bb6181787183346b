#include "src/server/control_server.h"

#include <algorithm>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/keys/crypto.h"
#include "src/server/status/report_text.h"

namespace bps::server {
namespace {

constexpr double kBytesPerGbit = 1e9 / 8;
constexpr std::chrono::milliseconds kFailureFlushTime(500);
constexpr size_t kMaxClosingJobs = 64;  // limit for jobs that are being closed, in addition to kMaxJobs

uint32_t timeoutMs(const Env& env) { return static_cast<uint32_t>(env.timeout.value * 1000); }

}  // namespace

Result<std::unique_ptr<ControlServer>> ControlServer::create(const Env& env, const Address& listen, const Key& key,
                                                             JobRunner& runner) {
  BPS_TRY(cryptoInit());
  const Credentials credentials{key, env.auth, timeoutMs(env)};
  AuthListener listener = BPS_TRY(AuthListener::create(listen, credentials, Purpose::kServer, 0));
  const Address address = BPS_TRY(listener.address());
  Doorbell bell = BPS_TRY(Doorbell::create());
  CreateArgs args{std::move(listener), std::move(bell), address, env};
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(args), runner));
}

ControlServer::ControlServer(CreateArgs args, JobRunner& runner)
    : listener_(std::move(args.listener)),
      address_(args.address),
      env_(std::move(args.env)),
      runner_(runner),
      events_(std::make_shared<EventQueue>(std::move(args.bell))) {}

void ControlServer::requestMode(Mode what) {
  Mode now = requestedMode();
  while (now < what && !requestedMode_.compare_exchange_weak(now, what, std::memory_order_acq_rel)) continue;
  events_->bell().ring();
}

void ControlServer::logStatus() {
  status_.askForLog();
  events_->bell().ring();
}

void ControlServer::useKey(const Key& key) {
  {
    MutexLock lock(mutex_);
    newKey_ = key;
  }
  events_->bell().ring();
}

Status ControlServer::run() {
  PollSet set;
  while (requestedMode() != Mode::kStop) {
    BPS_TRY(pollOnce(set));
    draining_ = requestedMode() != Mode::kServe;
    if (draining_) drainSessions();
    if (draining_ && sessions_.empty()) break;
  }
  shutDown(set);
  return {};
}

// Rejects sessions that have not opened a job.
void ControlServer::drainSessions() {
  for (auto& session : sessions_) {
    if (session->hasHub() && !session->opened()) session->reject("server is draining");
    else session->drain();
  }
  std::erase_if(sessions_, [](const auto& session) { return session->over(); });
}

Status ControlServer::pollOnce(PollSet& set) {
  set.clear();
  set.add(events_->bell().fd());
  listener_.watch(set);
  for (const auto& session : sessions_) session->watch(set);
  status_.watch(set);
  BPS_TRY(set.wait());
  counters_.turns.add();
  {
    MutexLock lock(mutex_);
    if (const auto key = std::exchange(newKey_, std::nullopt)) listener_.useKey(*key);
  }
  for (EventQueue::Event& event : events_->take()) deliver(std::move(event));
  for (auto& session : sessions_) session->step(set);
  std::erase_if(sessions_, [](const auto& session) { return session->over(); });
  for (Peer& hub : listener_.step(set)) admit(std::move(hub));
  status_.step(runner_, events_);
  answerStatus();
  return {};
}

void ControlServer::admit(Peer hub) {
  const uint64_t job = hub.socket->job();
  const bool known =
      std::any_of(sessions_.begin(), sessions_.end(), [&](const auto& session) { return session->job() == job; });
  std::string refusal;
  if (job == 0 || known) refusal = "the job's id is 0 or in use";
  if (draining_) refusal = "server is draining";
  if (refusal.empty() && !evictIdleSession()) refusal = fmt::format("server has {} jobs, its limit", kMaxJobs);
  if (!refusal.empty())
    return listener_.reject(std::move(hub.socket), Refusal{Refusal::Kind::kBusy, Code::kRemote, refusal});
  sessions_.push_back(std::make_unique<Session>(
      std::move(hub),
      SessionArgs{runner_, events_, listener_, env_.bandwidth.value * kBytesPerGbit, timeoutMs(env_), draining_,
                  static_cast<uint32_t>(kMaxJobs), status_, counters_, !env_.trace.empty()}));
}

// Rejects the oldest session whose job has not begun, so that idle sessions do not prevent new
// jobs.
bool ControlServer::evictIdleSession() {
  if (sessions_.size() < kMaxJobs) return true;
  const auto idle = std::find_if(sessions_.begin(), sessions_.end(),
                                 [](const auto& session) { return session->hasHub() && !session->begun(); });
  if (idle == sessions_.end()) return false;
  (*idle)->reject("server has no place left and this job has not begun");
  if ((*idle)->over()) sessions_.erase(idle);
  return sessions_.size() < kMaxJobs + kMaxClosingJobs;
}

void ControlServer::answerStatus() {
  const auto answer = status_.take();
  if (!answer) return;
  for (const uint64_t job : answer->sessions)
    for (const auto& session : sessions_)
      if (session->job() == job) session->reportStatus(answer->report);
  if (!answer->toLog) return;
  for (const std::string& line : reportLines(answer->report))
    logWrite(LogLevel::kInfo, Subsystem::kServer, "state: " + line);
}

void ControlServer::deliver(EventQueue::Event event) {
  if (event.kind == EventQueue::Kind::kReported) return status_.add(event.job, std::move(event.jobs));
  const auto it = std::find_if(sessions_.begin(), sessions_.end(),
                               [&](const auto& session) { return session->job() == event.job; });
  if (it == sessions_.end()) return;
  switch (event.kind) {
    case EventQueue::Kind::kListening:
      return (*it)->listening(std::move(event.handles));
    case EventQueue::Kind::kConnected:
      return (*it)->connected();
    case EventQueue::Kind::kFailed:
      return (*it)->failed(event.why);
    case EventQueue::Kind::kLost:
      return (*it)->lost(event.rank, event.why.message());
    case EventQueue::Kind::kWaits:
      return (*it)->waits(event.wait);
    case EventQueue::Kind::kEnded:
      return (*it)->ended();
    case EventQueue::Kind::kClosed:
      return (*it)->closed();
    case EventQueue::Kind::kReported:
      return;
  }
}

// Closes every job and gives the hubs time to read the reason.
void ControlServer::shutDown(PollSet& set) {
  for (auto& session : sessions_) session->abort("the server was stopped");
  sessions_.clear();
  listener_.close();
  const Deadline end = Deadline::in(kFailureFlushTime);
  while (!listener_.idle() && !end.passed()) {
    set.clear();
    listener_.watch(set);
    set.wakeAt(end.at());
    if (!set.wait().ok()) return;
    [[maybe_unused]] const std::vector<Peer> nobody = listener_.step(set);
  }
}

}  // namespace bps::server
