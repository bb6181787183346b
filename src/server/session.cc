#include "src/server/session.h"

#include "bps/bps.h"
#include "src/base/format.h"
#include "src/base/log.h"

namespace bps::server {

Session::Session(Peer hub, SessionArgs args) : args_(args), job_(hub.socket->job()) {
  const std::string where = "the hub at " + hub.socket->peer();
  hub_ = std::make_unique<Link>(std::move(hub), where, args_.timeoutMs);
  hub_->send(Offer{BPS_VERSION_CODE, args_.bytesPerSecond});
}

Session::~Session() { closeJob(); }

void Session::watch(PollSet& set) const {
  if (hub_) hub_->watch(set);
  set.wakeAt(end_.at());
}

void Session::step(const PollSet& set) {
  if (state_ == State::kOver) return;
  Status status = hub_ ? listen(set) : Status();
  if (!status.ok()) {
    if (state_ == State::kRunning && hub_->silent()) status = hub_->giveUp(status, name());
    logWarn(Subsystem::kServer, "job {:016x} is closed: {}", job_, status.message());
    finish();
  }
  if (end_.passed()) {
    logWarn(Subsystem::kServer, "job {:016x} is closed: its lanes have not ended", job_);
    finish();
  }
}

Status Session::listen(const PollSet& set) {
  BPS_TRY(hub_->tick(set));
  while (hub_) {
    const std::optional<Frame> frame = BPS_TRY(hub_->next());
    if (!frame) return {};
    BPS_TRY(handle(*frame));
  }
  return {};
}

Status Session::handle(const Frame& frame) {
  switch (frame.header.type) {
    case MessageType::kFailure:
      return {Code::kRemote, BPS_TRY(decode<FailureMessage>(frame.payload)).text};
    case MessageType::kCheck:
      return state_ == State::kOffered ? check(frame) : unexpected(frame);
    case MessageType::kOpenJob:
      return state_ == State::kOffered || state_ == State::kOpen ? open(frame) : unexpected(frame);
    case MessageType::kBegin:
      if (state_ != State::kOpen) return unexpected(frame);
      if (!handles_) return unexpected(frame);
      state_ = State::kRunning;
      hub_->send(RoundPart{RoundKind::kExchange, 0, 0, std::move(*handles_)});
      return {};
    case MessageType::kRoundAnswer:
      return state_ == State::kRunning ? answer(frame) : unexpected(frame);
    case MessageType::kLeft:
      return {};
    case MessageType::kGoodbye:
      hubLeft();
      return {};
    default:
      return unexpected(frame);
  }
}

Status Session::unexpected(const Frame& frame) const {
  return hub_->protocolError(failure(Code::kRemote, "unexpected message {}", static_cast<int>(frame.header.type)));
}

// One question at a time: who does not take the answers gets no more of them.
Status Session::check(const Frame& frame) {
  if (!frame.payload.empty() || !hub_->flushed()) return unexpected(frame);
  const ServerLoad load = args_.runner.load();
  hub_->send(CheckReport{load.jobs, args_.mostJobs, load.bytesSummed, load.freeDescriptors, load.freeBytes});
  return {};
}

Status Session::open(const Frame& frame) {
  closeJob();  // of an earlier proposal
  const OpenJob message = BPS_TRY(decode<OpenJob>(frame.payload));
  spec_ = {BPS_TRY(decodeRoster(message.roster)), message.endpoint};
  if (spec_.roster.jobId != job_ || spec_.endpoint >= spec_.roster.endpoints() ||
      !spec_.roster.isServer(spec_.endpoint))
    return hub_->protocolError(Status(Code::kRemote, "the proposal is not for this server"));
  hub_->setTimeout(spec_.roster.settings.timeoutMs);
  Status opened = args_.draining ? Status(Code::kSystem, "server is draining") : Status();
  if (opened.ok()) opened = args_.runner.open(spec_, args_.events);
  if (!opened.ok()) {
    dismiss(opened.message());
    return {};
  }
  opened_ = true;
  state_ = State::kOpen;
  hub_->rename(fmt::format("{}, the hub,", spec_.roster.rankName(0)));
  proposal_ = message.proposal;
  logInfo(Subsystem::kServer, "job {:016x} opened: {} ranks on {} machines, {} servers", job_,
          spec_.roster.ranks.size(), spec_.roster.machines.size(), spec_.roster.servers.size());
  return {};
}

Status Session::answer(const Frame& frame) {
  RoundAnswer answer = BPS_TRY(decode<RoundAnswer>(frame.payload));
  if (answer.number != 0 || answer.kind == RoundKind::kGather) return unexpected(frame);
  if (answer.kind == RoundKind::kBarrier) return {};
  if (answer.blobs.size() != spec_.roster.rails() * spec_.roster.endpoints()) return unexpected(frame);
  args_.runner.connect(job_, std::move(answer.blobs));
  return {};
}

void Session::hubLeft() {
  if (state_ != State::kRunning) return finish();
  state_ = State::kHubLeft;
  args_.doorman.seeOff(hub_->takeSocket());
  hub_.reset();
  args_.runner.finish(job_);
  end_ = Deadline::in(std::chrono::milliseconds(spec_.roster.settings.timeoutMs));
}

void Session::listening(std::vector<Blob> handles) {
  if (state_ != State::kOpen) return;
  handles_ = std::move(handles);
  hub_->send(JobOpened{proposal_});
}

void Session::connected() {
  if (state_ == State::kRunning) hub_->send(RoundPart{RoundKind::kBarrier, 0, 0, {}});
}

void Session::failed(const Status& why) {
  logWarn(Subsystem::kServer, "job {:016x} failed: {}", job_, why.message());
  if (hub_) hub_->send(FailureMessage{why.code(), opened_ ? name() + ": " + why.message() : why.message()});
  finish();
}

// What the hub has no goodbye from may have died, or only this connection of it: the hub finds out.
void Session::lost(size_t rank, const std::string& why) {
  const std::string text = fmt::format("connection of {} with {}: {}", name(), spec_.roster.rankName(rank), why);
  logInfo(Subsystem::kServer, "job {:016x}: {}", job_, text);
  if (state_ == State::kRunning) hub_->send(Suspect{static_cast<uint32_t>(rank), text});
}

void Session::ended() {
  logInfo(Subsystem::kServer, "job {:016x} ended", job_);
  if (hub_) hub_->send(MessageType::kGoodbye);
  finish();
}

void Session::dismiss(const std::string& why) {
  args_.doorman.dismiss(hub_->takeSocket(), Refusal{Refusal::Kind::kBusy, Code::kRemote, why});
  hub_.reset();
  finish();
}

void Session::abort(const std::string& why) { failed(Status(Code::kRemote, why)); }

void Session::closeJob() {
  handles_.reset();
  if (!std::exchange(opened_, false)) return;
  args_.runner.close(job_);
  args_.events.forget(job_);
}

void Session::finish() {
  if (hub_) args_.doorman.seeOff(hub_->takeSocket());
  hub_.reset();
  closeJob();
  end_ = Deadline::never();
  state_ = State::kOver;
}

std::string Session::name() const { return spec_.roster.endpointName(spec_.endpoint); }

}  // namespace bps::server
