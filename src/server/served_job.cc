#include "src/server/served_job.h"

#include <unistd.h>

#include <algorithm>

#include "cpu_reduce/reduce.h"
#include "src/base/format.h"
#include "src/base/log.h"
#include "src/control/host_id.h"
#include "src/plan/send_order.h"
#include "src/service/parameters/param_service.h"
#include "src/service/sum_service.h"

namespace bps {
namespace {

constexpr size_t kPeersAtATime = 8;

void addRail(uint32_t number, const ChunkService& service, JobReport& job) {
  for (const CallInfo& call : service.pendingCalls()) {
    if (job.calls.size() == JobReport::kMaxCalls) break;
    const size_t bytes = call.count * elementBytes(static_cast<DataType>(call.type));
    job.calls.push_back({describe(call), call.number, bytes, number});
  }
  std::vector<PeerWait> waits;
  service.addPeerWaits(waits);
  for (PeerWait& wait : waits) job.lanes.push_back({std::move(wait.peer), number, wait.missing, wait.unsent});
}

}  // namespace

Result<std::unique_ptr<ServedJob>> ServedJob::create(const Env& env, const JobSpec& spec, const JobPlan& plan) {
  std::unique_ptr<ServedJob> job(new ServedJob(env, spec, plan));
  job->plugin_ = BPS_TRY(net::Plugin::load(env.netPlugin, spec.roster.jobId));
  const net::MeshShape shape{spec.endpoint, spec.roster.machines.size(), plan.owners};
  for (size_t number = 0; number < plan.rails; ++number) {
    Rail rail;
    rail.number = number;
    rail.mesh = std::make_unique<net::Mesh>(*job->plugin_, 0, shape);
    rail.closed.resize(shape.machines);
    job->rails_.push_back(std::move(rail));
  }
  return job;
}

// A job runs also if its trace cannot be written.
void ServedJob::startTrace() {
  if (env_.trace.empty()) return;
  const Roster& roster = spec_.roster;
  trace::Header header = trace::headerOf(roster);
  header.server = true;
  header.endpoint = static_cast<uint32_t>(spec_.endpoint);
  header.number = static_cast<uint32_t>(spec_.endpoint - roster.machines.size());
  header.host = localHostName();
  header.pid = static_cast<uint32_t>(::getpid());
  std::string path = trace::expandPath(env_.trace, trace::fileNameOf(roster.servers[header.number].name));
  auto recorder = trace::Recorder::create(std::move(path), std::move(header), spec_.clock);
  if (!recorder.ok()) {
    logWarn(Subsystem::kServer, "{}; the trace of this job is not recorded", recorder.error().message());
    return;
  }
  recorder_ = std::move(recorder).value();
  recorder_->begin();
}

ServedJob::~ServedJob() {
  if (recorder_ != nullptr) recorder_->writeOrWarn();
}

std::vector<Blob> ServedJob::handles() const {
  std::vector<Blob> all;
  for (const Rail& rail : rails_)
    for (Blob& handle : rail.mesh->handles()) all.push_back(std::move(handle));
  return all;
}

// A rail for which no peer sent a handle is not used.
Status ServedJob::setPeerHandles(const std::vector<Blob>& handles) {
  const auto endpoints = static_cast<ptrdiff_t>(spec_.roster.endpoints());
  if (state_ != State::kListening) return {Code::kInternal, "received handles in the wrong state"};
  if (handles.size() != rails_.size() * spec_.roster.endpoints())
    return failure(Code::kRemote, "received {} handles for {} rails and {} endpoints", handles.size(), rails_.size(),
                   endpoints);
  std::vector<Rail> used;
  for (Rail& rail : rails_) {
    const auto begin = handles.begin() + static_cast<ptrdiff_t>(rail.number) * endpoints;
    const std::vector<Blob> own(begin, begin + endpoints);
    const bool anybody = std::any_of(own.begin(), own.end(), [](const Blob& handle) { return !handle.empty(); });
    if (!anybody && plan_.owners[spec_.endpoint]) continue;
    BPS_TRY(rail.mesh->setPeerHandles(own));
    used.push_back(std::move(rail));
  }
  if (used.empty()) return {Code::kRemote, "no worker has sent handles"};
  rails_ = std::move(used);
  state_ = State::kConnecting;
  return {};
}

Status ServedJob::build(Rail& rail) {
  if (!plan_.owners[spec_.endpoint]) return {};
  const size_t machines = spec_.roster.machines.size();
  std::vector<ChunkService::Lane> lanes(machines);
  for (size_t m = 0; m < machines; ++m) {
    net::PeerConnections link = rail.mesh->take(m);
    lanes[m] = {std::move(link.pushIn), std::move(link.answerOut)};
  }
  if (spec_.roster.settings.parameters) {
    ParamSpec params(Summation::of(spec_.roster, env_.reduceThreads));
    params.endpoints = spec_.roster.endpoints();
    params.depth = plan_.depth;
    params.maxChunkBytes = plan_.limits.maxChunkBytes;
    params.staleness = spec_.roster.settings.staleness;
    params.store = std::make_shared<ParamStore>(machines, env_.reduceThreads, spec_.reserve);
    rail.service = BPS_TRY(ParamService::create(std::move(params), std::move(lanes)));
    return {};
  }
  ServiceSpec spec(Summation::of(spec_.roster, env_.reduceThreads));
  spec.order = answerOrder(plan_.weights, spec_.endpoint, machines);
  spec.depth = plan_.depth;
  spec.maxChunkBytes = plan_.limits.maxChunkBytes;
  spec.measuresWaits = true;
  spec.recorder = {recorder_.get(), static_cast<uint16_t>(spec_.endpoint), static_cast<uint8_t>(rail.number)};
  rail.service = BPS_TRY(SumService::create(std::move(spec), std::move(lanes)));
  return {};
}

Result<ServedJob::Step> ServedJob::step() {
  switch (state_) {
    case State::kOpening:
      return listen();
    case State::kListening:
      return Step::kIdle;
    case State::kConnecting:
      return connect();
    case State::kServing:
      return serve();
  }
  return Step::kIdle;
}

Result<ServedJob::Step> ServedJob::listen() {
  for (Rail& rail : rails_) {
    if (BPS_TRY(rail.mesh->listen(0)) == Progress::kDone) continue;
    BPS_TRY(rail.mesh->listen(kPeersAtATime));
    return Step::kMoved;
  }
  state_ = State::kListening;
  return Step::kListening;
}

Result<ServedJob::Step> ServedJob::connect() {
  Rail& rail = rails_[nextRail_++ % rails_.size()];
  Result<Progress> progress = rail.mesh->step(kPeersAtATime);
  if (!progress.ok()) {
    const size_t peer = spec_.roster.memberOf(rail.mesh->current(), rail.number);
    return std::move(progress).status().within("connecting with " + spec_.roster.memberName(peer));
  }
  const auto connected = [](const Rail& each) { return each.mesh->connected(); };
  if (!std::all_of(rails_.begin(), rails_.end(), connected)) return Step::kIdle;
  startTrace();
  for (Rail& each : rails_) {
    BPS_TRY(build(each));
    each.mesh.reset();
  }
  state_ = State::kServing;
  return Step::kConnected;
}

Result<ServedJob::Step> ServedJob::serve() {
  if (!plan_.owners[spec_.endpoint]) return finishing_ ? Step::kEnded : Step::kIdle;  // no share
  bool moved = false, open = false;
  for (Rail& rail : rails_) {
    Result<bool> served = serve(rail);
    if (!served.ok()) return finishing_ && !active() ? Result<Step>(Step::kEnded) : std::move(served).status();
    moved = std::move(served).value() || moved;
    open = open || !std::all_of(rail.closed.begin(), rail.closed.end(), [](bool closed) { return closed; });
  }
  // Many transports do not report that a worker has closed its lanes, so the job does not wait for
  // that.
  if ((finishing_ && !active()) || !open) return Step::kEnded;
  return moved ? Step::kMoved : Step::kIdle;
}

void ServedJob::lose(size_t machine) {
  for (const Rail& rail : rails_)
    if (rail.service != nullptr) rail.service->lose(machine);
}

Result<bool> ServedJob::serve(Rail& rail) {
  Result<bool> outcome = rail.service->step();
  for (size_t m = 0; m < rail.closed.size(); ++m) rail.closed[m] = rail.closed[m] || rail.service->lost(m);
  if (outcome.ok()) return outcome;
  const std::optional<size_t> failedMachine = rail.service->failedMachine();
  if (!failedMachine) return outcome;
  if (!rail.closed[*failedMachine])
    lost_.push_back({spec_.roster.memberOf(*failedMachine, rail.number), outcome.error().message()});
  rail.closed[*failedMachine] = true;
  return false;
}

std::optional<Heartbeat> ServedJob::checkWait() {
  warnOfWait();
  Heartbeat wait;
  for (const Rail& rail : rails_) {
    const std::optional<EndpointWait> lasting = rail.service != nullptr ? rail.service->checkWait() : std::nullopt;
    if (!lasting || (wait.waitsFor != Heartbeat::kNobody && wait.call <= lasting->call)) continue;
    wait.call = lasting->call;
    wait.waitsFor = static_cast<uint32_t>(spec_.roster.memberOf(lasting->endpoint, rail.number));
  }
  if (wait.sameWait(waits_.reported)) return {};
  waits_.reported = wait;
  return wait;
}

void ServedJob::warnOfWait() {
  if (!active()) return waits_.backoff.restart();
  const auto waited = waits_.backoff.check(Deadline::Clock::now());
  if (!waited) return;
  for (const Rail& rail : rails_) {
    std::vector<PeerWait> waits;
    if (rail.service != nullptr) rail.service->addPeerWaits(waits);
    const std::string text = describeWaits(waits);
    if (text.empty()) continue;
    const std::vector<CallInfo> calls = rail.service->pendingCalls();
    logWarn(Subsystem::kServer, "job {:016x}: {} has made no progress for {} s; {}", id(),
            calls.empty() ? "a call" : describe(calls.front()), waited->count(), text);
  }
}

const char* ServedJob::stateName() const {
  switch (state_) {
    case State::kOpening:
      return "opening";
    case State::kListening:
      return "waiting for the workers";
    case State::kConnecting:
      return "connecting";
    case State::kServing:
      return finishing_ ? "finishing" : "serving";
  }
  return "";
}

JobReport ServedJob::report() const {
  const auto now = Deadline::Clock::now();
  const auto seconds = [](std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); };
  JobReport job;
  job.id = id();
  job.state = stateName();
  job.hub = spec_.roster.rankName(0);
  job.machines = static_cast<uint32_t>(spec_.roster.machines.size());
  job.ranks = static_cast<uint32_t>(spec_.roster.ranks.size());
  job.ageSeconds = seconds(now - opened_);
  job.idleSeconds = seconds(waits_.backoff.waited(now));
  job.bytesSummed = bytesSummed();
  for (const Rail& rail : rails_)
    if (rail.service != nullptr) addRail(static_cast<uint32_t>(rail.number), *rail.service, job);
  std::stable_partition(job.lanes.begin(), job.lanes.end(), [](const LaneReport& lane) { return lane.missing > 0; });
  if (job.lanes.size() <= JobReport::kMaxLanes) return job;
  job.lanesLeftOut = static_cast<uint32_t>(job.lanes.size() - JobReport::kMaxLanes);
  job.lanes.resize(JobReport::kMaxLanes);
  return job;
}

bool ServedJob::active() const {
  return std::any_of(rails_.begin(), rails_.end(),
                     [](const Rail& rail) { return rail.service != nullptr && rail.service->active(); });
}

uint64_t ServedJob::bytesSummed() const {
  uint64_t bytes = 0;
  for (const Rail& rail : rails_) bytes += rail.service != nullptr ? rail.service->bytesSummed() : 0;
  return bytes;
}

JobCounters ServedJob::counters() const {
  JobCounters job;
  job.id = id();
  job.machines = spec_.roster.machines.size();
  job.ranks = spec_.roster.ranks.size();
  for (const Rail& rail : rails_) {
    if (rail.service == nullptr) continue;
    job.service += rail.service->counters();
    const WaitTimes& times = rail.service->waitTimes();
    for (size_t m = 0; m < job.machines; ++m) {
      const double seconds = std::chrono::duration<double>(times.waited(m)).count();
      job.furtherRanks = job.furtherRanks || job.waits.size() == JobCounters::kMaxWaits;
      if (job.furtherRanks) job.otherWaits += seconds;
      else job.waits.push_back({spec_.roster.memberOf(m, rail.number), seconds});
    }
  }
  return job;
}

void ServedJob::forEachComm(const std::function<void(net::Comm&)>& use) {
  for (Rail& rail : rails_)
    if (rail.service != nullptr) rail.service->forEachComm(use);
}

}  // namespace bps
