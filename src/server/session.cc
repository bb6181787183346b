#include "src/server/session.h"

#include <algorithm>
#include <iterator>

#include "bps/bps.h"
#include "src/base/format.h"
#include "src/base/log.h"

namespace bps::server {
namespace {

// Limit for the largest roster or exchange of a job. A larger frame would block the control thread for too long.
constexpr size_t kMaxHubFrameBytes = size_t{16} << 20;

}  // namespace

struct Session::Rule {
  State state;
  MessageType message;
  Status (Session::*take)(const Frame& frame);
};

// Lists every message that a hub may send in each state. The class Link handles heartbeats.
const Session::Rule Session::kRules[] = {
    {State::kOffered, MessageType::kCheck, &Session::check},
    {State::kOffered, MessageType::kStatus, &Session::status},
    {State::kOffered, MessageType::kOpenJob, &Session::open},
    {State::kOffered, MessageType::kFailure, &Session::hubFailed},
    {State::kOffered, MessageType::kGoodbye, &Session::hubLeftBeforeStart},
    {State::kOpening, MessageType::kOpenJob, &Session::open},
    {State::kOpening, MessageType::kFailure, &Session::hubFailed},
    {State::kOpening, MessageType::kGoodbye, &Session::hubLeftBeforeStart},
    {State::kOpen, MessageType::kOpenJob, &Session::open},
    {State::kOpen, MessageType::kBegin, &Session::begin},
    {State::kOpen, MessageType::kFailure, &Session::hubFailed},
    {State::kOpen, MessageType::kGoodbye, &Session::hubLeftBeforeStart},
    {State::kExchanging, MessageType::kControlOpResult, &Session::exchangeDone},
    {State::kExchanging, MessageType::kLeft, &Session::memberLeft},
    {State::kExchanging, MessageType::kFailure, &Session::hubFailed},
    {State::kExchanging, MessageType::kGoodbye, &Session::hubLeftBeforeStart},
    {State::kConnecting, MessageType::kLeft, &Session::memberLeft},
    {State::kConnecting, MessageType::kFailure, &Session::hubFailed},
    {State::kConnecting, MessageType::kGoodbye, &Session::hubLeft},
    {State::kAwaitingBarrier, MessageType::kControlOpResult, &Session::barrierDone},
    {State::kAwaitingBarrier, MessageType::kLeft, &Session::memberLeft},
    {State::kAwaitingBarrier, MessageType::kFailure, &Session::hubFailed},
    {State::kAwaitingBarrier, MessageType::kGoodbye, &Session::hubLeft},
    {State::kServing, MessageType::kLeft, &Session::memberLeft},
    {State::kServing, MessageType::kFailure, &Session::hubFailed},
    {State::kServing, MessageType::kGoodbye, &Session::hubLeft},
};

Session::Session(Peer hub, SessionArgs args)
    : args_(std::move(args)),
      job_(hub.socket->job()),
      clock_(args_.measuresClocks ? std::make_shared<ClockOffset>() : nullptr) {
  const std::string where = "the hub at " + hub.socket->peer();
  hub.socket->limitFrames(kMaxHubFrameBytes);
  hub_ = std::make_unique<Link>(std::move(hub), where, args_.timeoutMs);
  hub_->send(Offer{BPS_VERSION_CODE, args_.bytesPerSecond});
}

Session::~Session() { closeJob(); }

void Session::watch(PollSet& set) const {
  if (hub_) hub_->watch(set);
  set.wakeAt(end_.at());
}

void Session::step(const PollSet& set) {
  Received received = hub_ ? receive(set) : Received();
  Status status = std::move(received.status);
  if (!status.ok() && !received.reported && losesHub()) {
    logInfo(Subsystem::kServer, "job {:016x} goes on without its hub: {}", job_, status.message());
    hub_.reset();
    state_ = State::kHubLeft;
    return;
  }
  if (!status.ok() && begun_ && hub_->silent()) status = hub_->declareDead(status, name());
  if (!status.ok()) finishWithWarning(status.message());
  if (end_.passed()) finishWithWarning("its workers did not close their connections in time after the hub's goodbye");
}

Session::Received Session::receive(const PollSet& set) {
  Status status = hub_->step(set);
  while (status.ok() && hub_) {
    Result<std::optional<Frame>> frame = hub_->next();
    if (!frame.ok()) return {std::move(frame).status()};
    const std::optional<Frame> got = std::move(frame).value();
    if (!got) break;
    Status handled = handle(*got);
    if (!handled.ok()) return {std::move(handled), true};
  }
  return {std::move(status)};
}

// In asynchronous training the workers go on without the hub. The job then ends with their connections.
bool Session::losesHub() const {
  return state_ == State::kServing && spec_.roster.settings.parameters && (hub_->broken() || hub_->silent());
}

Status Session::handle(const Frame& frame) {
  const auto* const rule = std::find_if(std::begin(kRules), std::end(kRules), [&](const Rule& each) {
    return each.state == state_ && each.message == frame.header.type;
  });
  return rule == std::end(kRules) ? unexpected(frame) : (this->*rule->take)(frame);
}

Status Session::unexpected(const Frame& frame) const {
  return hub_->protocolError(failure(Code::kRemote, "unexpected message {}", static_cast<int>(frame.header.type)));
}

// A hub may send its next check only after the previous reply is sent, so that unread replies do
// not accumulate.
Status Session::check(const Frame& frame) {
  if (!frame.payload.empty() || !hub_->flushed()) return unexpected(frame);
  const ServerLoad load = args_.runner.load();
  hub_->send(CheckReport{load.jobs, args_.maxJobs, load.bytesSummed, load.freeDescriptors, load.freeBytes});
  return {};
}

Status Session::status(const Frame& frame) {
  if (!frame.payload.empty() || !hub_->flushed() || !args_.status.ask(job_).ok()) return unexpected(frame);
  return {};
}

Status Session::open(const Frame& frame) {
  const OpenJob message = BPS_TRY(decode<OpenJob>(frame.payload));
  JobSpec spec{BPS_TRY(decodeRoster(message.roster)), message.endpoint, clock_};
  if (spec.roster.jobId != job_ || spec.endpoint >= spec.roster.endpoints() || !spec.roster.isServer(spec.endpoint))
    return hub_->protocolError(Status(Code::kRemote, "the proposal is not for this server"));
  closeJob();  // closes the job of the previous proposal
  handles_.clear();
  spec_ = std::move(spec);
  proposal_ = message.proposal;
  hub_->setTimeout(spec_.roster.settings.timeoutMs);
  hub_->rename(fmt::format("{}, the hub,", spec_.roster.rankName(0)));
  state_ = State::kOpening;
  if (jobState_ == JobState::kNone) start();
  return {};
}

void Session::start() {
  Status opened = args_.draining ? Status(Code::kSystem, "server is draining") : Status();
  if (opened.ok()) opened = args_.runner.open(spec_, args_.events);
  if (!opened.ok()) return reject(opened.message());
  jobState_ = JobState::kOpened;
}

Status Session::begin(const Frame& frame) {
  if (!frame.payload.empty()) return unexpected(frame);
  state_ = State::kExchanging;
  begun_ = Deadline::Clock::now();
  args_.counters.jobsBegun.add();
  logInfo(Subsystem::kServer, "job {:016x} begins: {} ranks on {} machines, {} servers; hub {} at {}", job_,
          spec_.roster.ranks.size(), spec_.roster.machines.size(), spec_.roster.servers.size(),
          spec_.roster.rankName(0), hub_->peer());
  if (clock_ != nullptr) hub_->measureClock(clock_);
  hub_->send(ControlOpInput{ControlOp::kExchange, 0, 0, std::exchange(handles_, {})});
  return {};
}

// A server takes part in the first exchange and in the first barrier only.
Result<ControlOpResult> Session::decodeResult(const Frame& frame, ControlOp kind, size_t blobs) const {
  ControlOpResult answer = BPS_TRY(decode<ControlOpResult>(frame.payload));
  if (answer.kind != kind || answer.number != 0)
    return hub_->protocolError(
        failure(Code::kRemote, "unexpected result of {} {}", controlOpName(answer.kind), answer.number));
  if (answer.blobs.size() != blobs)
    return hub_->protocolError(
        failure(Code::kRemote, "received {} items, the roster requires {}", answer.blobs.size(), blobs));
  return answer;
}

Status Session::exchangeDone(const Frame& frame) {
  const size_t blobs = spec_.roster.rails() * spec_.roster.endpoints();
  ControlOpResult answer = BPS_TRY(decodeResult(frame, ControlOp::kExchange, blobs));
  state_ = State::kConnecting;
  args_.runner.connect(job_, std::move(answer.blobs));
  return {};
}

Status Session::barrierDone(const Frame& frame) {
  BPS_TRY(decodeResult(frame, ControlOp::kBarrier, 0));
  state_ = State::kServing;
  return {};
}

Status Session::memberLeft(const Frame& frame) {
  const Left left = BPS_TRY(decode<Left>(frame.payload));
  if (left.member >= spec_.roster.members()) return unexpected(frame);
  // In asynchronous training every rank is a machine.
  if (spec_.roster.settings.parameters && left.member < spec_.roster.machines.size() && jobState_ == JobState::kOpened)
    args_.runner.lose(job_, left.member);
  return {};
}

Status Session::hubFailed(const Frame& frame) {
  return {Code::kRemote, BPS_TRY(decode<FailureMessage>(frame.payload)).text};
}

Status Session::hubLeftBeforeStart(const Frame& frame) {
  if (!frame.payload.empty()) return unexpected(frame);
  finish("its hub has left");
  return {};
}

Status Session::hubLeft(const Frame& frame) {
  if (!frame.payload.empty()) return unexpected(frame);
  state_ = State::kHubLeft;
  if (askedToLeave_) args_.counters.jobsLeft.add();
  args_.listener.flushAndClose(hub_->takeSocket());
  hub_.reset();
  args_.runner.finish(job_);
  end_ = Deadline::in(std::chrono::milliseconds(spec_.roster.settings.timeoutMs));
  return {};
}

void Session::listening(std::vector<Blob> handles) {
  if (state_ != State::kOpening || jobState_ != JobState::kOpened) return;
  state_ = State::kOpen;
  handles_ = std::move(handles);
  hub_->send(JobOpened{proposal_});
}

void Session::connected() {
  if (state_ != State::kConnecting) return;
  state_ = State::kAwaitingBarrier;
  hub_->send(ControlOpInput{ControlOp::kBarrier, 0, 0, {}});
}

void Session::failed(const Status& why) {
  if (jobState_ != JobState::kOpened) return;
  if (hub_) hub_->send(FailureMessage{why.code(), name() + ": " + why.message()});
  finishWithWarning(why.message());
}

// If a connection to a rank ends without goodbye, the rank may have died, or only this connection
// may have broken. The hub finds out what happened.
void Session::lost(size_t rank, const std::string& why) {
  if (jobState_ != JobState::kOpened) return;
  const std::string text = fmt::format("connection of {} with {}: {}", name(), spec_.roster.rankName(rank), why);
  logInfo(Subsystem::kServer, "job {:016x}: {}", job_, text);
  if (hub_ && (state_ == State::kAwaitingBarrier || state_ == State::kServing))
    hub_->send(Suspect{static_cast<uint32_t>(rank), text});
}

void Session::ended() {
  if (jobState_ != JobState::kOpened) return;
  if (hub_) hub_->send(MessageType::kGoodbye);
  finish(state_ == State::kHubLeft ? "all its calls are complete" : "all its workers have closed their connections");
}

void Session::closed() {
  if (jobState_ != JobState::kClosing) return;
  jobState_ = JobState::kNone;
  if (state_ == State::kOpening) start();
  if (state_ == State::kEnding) state_ = State::kOver;
}

void Session::reject(const std::string& why) {
  args_.counters.jobsRefused.add();
  args_.listener.reject(hub_->takeSocket(), Refusal{Refusal::Kind::kBusy, Code::kRemote, why});
  hub_.reset();
  leave();
}

void Session::drain() {
  if (state_ == State::kHubLeft && end_.at() == Deadline::never().at()) return finish("this server is asked to end");
  if (state_ != State::kServing || std::exchange(askedToLeave_, true)) return;
  hub_->send(MessageType::kDrain);
}

void Session::abort(const std::string& why) {
  if (state_ == State::kEnding || state_ == State::kOver) return;
  if (hub_) hub_->send(FailureMessage{Code::kRemote, opened() ? name() + ": " + why : why});
  finishWithWarning(why);
}

void Session::closeJob() {
  if (jobState_ != JobState::kOpened) return;
  jobState_ = JobState::kClosing;
  args_.runner.close(job_);
}

void Session::finish(const std::string& why) {
  if (begun_) args_.counters.jobsCompleted.add();
  logInfo(Subsystem::kServer, "job {:016x} {}", job_, summaryText(why));
  leave();
}

void Session::finishWithWarning(const std::string& why) {
  if (begun_) args_.counters.jobsFailed.add();
  logWarn(Subsystem::kServer, "job {:016x} {}", job_, summaryText(why));
  leave();
}

std::string Session::summaryText(const std::string& why) const {
  if (!begun_) return "ended before it began: " + why;
  const std::chrono::duration<double> lasted = Deadline::Clock::now() - *begun_;
  return fmt::format("ended after {:.1f} s: {}", lasted.count(), why);
}

void Session::leave() {
  if (hub_) args_.listener.flushAndClose(hub_->takeSocket());
  hub_.reset();
  closeJob();
  end_ = Deadline::never();
  state_ = jobState_ == JobState::kNone ? State::kOver : State::kEnding;
}

std::string Session::name() const { return spec_.roster.endpointName(spec_.endpoint); }

}  // namespace bps::server
