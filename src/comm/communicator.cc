#include "src/comm/communicator.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "cpu_reduce/dispatch.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/memory.h"
#include "src/base/poll_until.h"
#include "src/comm/call/fused_position.h"
#include "src/comm/startup/connect.h"
#include "src/comm/startup/describe.h"
#include "src/comm/startup/probe_times.h"
#include "src/comm/startup/shrink.h"
#include "src/control/host_id.h"

namespace bps {
namespace {

// The position of a call that is in no stream.
class NoStreamPosition final : public StreamPosition {
 public:
  bool mayStart() const override { return true; }
  void complete(const Status&) override {}
};

std::unique_ptr<Collective> makeCollective(const AllReduceCall& call) {
  auto collective = std::make_unique<Collective>();
  collective->call.count = call.count;
  collective->call.type = static_cast<uint8_t>(call.type);
  collective->call.op = static_cast<uint8_t>(call.op);
  collective->call.hasScalar = call.op == CallOp::kPreMulSum;
  collective->call.scalar = call.scalar;
  return collective;
}

// A caller with a CUDA stream must not wait for the work of other calls. No caller may wait for the
// copies of a large call.
ProgressEngine::Start startOf(const Collective& collective) {
  if (!collective.onHostStream) return ProgressEngine::Start::kByProgressThread;
  const size_t bytes = collective.call.count * elementBytes(static_cast<DataType>(collective.call.type));
  return bytes <= constants::kMaxInlineBytes ? ProgressEngine::Start::kHere : ProgressEngine::Start::kByWaitingCaller;
}

JoinArgs joinArgs(const Env& env, const Membership& membership) {
  JoinArgs join{membership.id, membership.rank, membership.nRanks, "", membership.shrink};
  join.parameters = membership.parameters;
  if (membership.parameters) join.hostId = fmt::format("{} rank {}", localHostId(env), membership.rank);
  return join;
}

FusedCalls fusedCallsOf(std::span<const AllReduceCall> calls) {
  FusedCalls fused;
  uint64_t before = *calls.front().number;
  for (const AllReduceCall& call : calls) {
    const uint64_t distance = *call.number - std::exchange(before, *call.number);
    fused.add({static_cast<uint16_t>(call.count), static_cast<uint8_t>(distance)});
  }
  return fused;
}

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(const Env& env, const Membership& membership) {
  BPS_TRY(cpu::chooseTarget(env.cpuTarget));
  BPS_TRY(trace::checkPattern(env.trace));
  auto cuda = BPS_TRY(CudaBackend::create(env, membership.device));
  auto bell = std::make_shared<Doorbell>(BPS_TRY(Doorbell::create()));
  std::unique_ptr<Communicator> made(new Communicator(env, membership, std::move(bell)));
  made->cuda_ = std::move(cuda);
  CommunicatorFailure& failure = made->failure_;
  made->control_ = BPS_TRY(ControlPlane::create(env, joinArgs(env, membership),
                                                {[&failure](const Status& why) { failure.set(why); },
                                                 [made = made.get()](const ServerEvent& event) {
                                                   made->state_.serverEvents.add(event);
                                                   made->bell_->ring();
                                                 }}));
  return made;
}

Communicator::Communicator(const Env& env, const Membership& membership, std::shared_ptr<Doorbell> bell)
    : env_(env), membership_(membership), bell_(std::move(bell)), failure_(bell_, [this](const Status& why) {
        // kRemote means that a connection of a child broke. The hub may know the cause better, so
        // this rank only reports a suspicion.
        if (why.code() == Code::kRemote) control_->suspect(why.message());
        else control_->report(why);
      }) {}

Communicator::~Communicator() { failure_.unlink(); }

Status Communicator::start() {
  const Deadline deadline = timeoutDeadline();
  BPS_TRY(control_->join(deadline));
  state_.joined.store(true, std::memory_order_release);
  state_.metrics = RankMetrics::enter(env_, roster(), rank(), [this] { return failure_.get(); });
  if (membership_.parameters) {
    state_.store = std::make_shared<ParamStore>(roster().machines.size(), env_.reduceThreads);
    state_.parameters = std::make_unique<ParamTable>();
  }
  Status started = connect(deadline);
  if (started.ok() && !membership_.parameters) started = tune(deadline);
  if (started.ok()) {
    logStart({*progressThread_, tuning_, probeBytes_});
    return {};
  }
  // If the hub has announced a failure, that failure explains more than `started`. Otherwise only
  // this rank knows of `started`, so it reports `started`.
  if (failure_.failed()) return failure_.get();
  control_->report(started.clone().within(roster().rankName(rank())));
  return started;
}

Status Communicator::connect(Deadline deadline) {
  progressThread_ =
      BPS_TRY(bps::connect({env_, *control_, failure_, state_.serverEvents, bell_, cuda_.get(), *state_.priority,
                            state_.metrics != nullptr ? &state_.metrics->counters() : nullptr, state_.store,
                            state_.parameters != nullptr ? state_.parameters->copies() : nullptr},
                           deadline));
  BPS_TRY(shareDevices(deadline));
  return control_->barrier(deadline);
}

// Learns whether any rank has a CUDA device.
Status Communicator::shareDevices(Deadline deadline) {
  const Blob own(device() ? 1 : 0);
  const std::vector<Blob> all = BPS_TRY(control_->gather(own, deadline));
  state_.onlyHostMemory = std::all_of(all.begin(), all.end(), [](const Blob& device) { return device.empty(); });
  return {};
}

Status Communicator::tune(Deadline deadline) {
  const Session& session = progressThread_->session();
  const auto run = [&](size_t bytes, int calls, const CutLimits& limits) {
    tuning_.limits = limits;
    session.cutter->forgetCalls();  // the probe before gave some owners more than their share
    return timeCalls(bytes, calls, deadline);
  };
  tuning_ = BPS_TRY(chooseTuning(session.plan, roster(), run));
  state_.priority->setHoldTime(std::chrono::microseconds(std::llround(1e6 * holdSeconds(tuning_, session.plan))));
  // The probes are over. The first call of the application gets number 0, and only the bytes of the
  // application's calls are counted. The hub must not take the probes for calls of the application.
  nextCall_ = 0;
  session.cutter->forgetCalls();
  control_->reportCallsStarted(0);
  if (session.traffic() != nullptr) session.traffic()->clear();
  if (session.recorder != nullptr) session.recorder->begin();
  state_.counters = session.counters;
  return {};
}

// Makes calls of this size one after the other. Returns the mean seconds of a call on the slowest rank. All ranks begin
// at the same time.
Result<double> Communicator::timeCalls(size_t bytes, int calls, Deadline deadline) {
  const PageBuffer buffer = BPS_TRY(PageBuffer::create(bytes));
  std::memset(buffer.data(), 0, bytes);
  probeBytes_ += bytes * static_cast<size_t>(calls);
  AllReduceCall call;
  call.send = call.recv = buffer.data();
  call.count = bytes;
  call.type = DataType::kUint8;
  call.stream = std::make_shared<HostStream>();
  BPS_TRY(control_->gather({}, deadline));
  const auto start = Deadline::Clock::now();
  for (int i = 0; i < calls; ++i) {
    BPS_TRY(allReduce(call));
    BPS_TRY(call.stream->synchronize());
  }
  const double own = std::chrono::duration<double>(Deadline::Clock::now() - start).count() / calls;
  return slowestSeconds(BPS_TRY(control_->gather(encodeSeconds(own), deadline)), roster());
}

Status Communicator::allReduce(const AllReduceCall& call) {
  BPS_TRY(checkOpen());
  auto collective = makeCollective(call);
  collective->deviceScalar = call.deviceScalar;
  collective->send = static_cast<const uint8_t*>(call.send);
  collective->recv = static_cast<uint8_t*>(call.recv);
  if (cuda_ != nullptr && BPS_TRY(cuda_->prepare(call, *collective))) {
    collective->onHostStream = false;
    BPS_TRY(cut(*collective));
    return issueOnDevice(call, std::move(collective));
  }
  if (call.stream == nullptr)
    return bps::failure(Code::kInvalidArgument, "stream {} is not a host stream", call.handle);
  BPS_TRY(cut(*collective));
  collective->position = call.stream->enter(call.buffers(), progressThread_->engine());
  return submit(std::move(collective), call.number);
}

void Communicator::addParameter(size_t count, DataType type) {
  CutLimits limits = progressThread_->session().plan.limits;
  limits.targetChunkBytes = std::min(limits.maxChunkBytes, tuning_.limits.targetChunkBytes);
  limits.chunkCostBytes = tuning_.limits.chunkCostBytes;
  limits.latencyBytes = tuning_.limits.latencyBytes;
  limits.singleOwnerBytes = std::min(limits.maxChunkBytes, tuning_.limits.singleOwnerBytes);
  state_.parameters->add(progressThread_->session().cutter->cutParameter(count, type, limits), type);
}

Status Communicator::requestParameter(const AllReduceCall& call, ParamCall param) {
  BPS_TRY(checkOpen());
  auto collective = makeCollective(call);
  collective->send = static_cast<const uint8_t*>(call.send);
  collective->recv = static_cast<uint8_t*>(call.recv);
  state_.parameters->prepare(*collective, std::move(param), progressThread_->session().plan.owners);
  if (cuda_ != nullptr && BPS_TRY(cuda_->prepare(call, *collective))) {
    collective->onHostStream = false;
    return issueOnDevice(call, std::move(collective));
  }
  if (call.stream == nullptr)
    return bps::failure(Code::kInvalidArgument, "stream {} is not a host stream", call.handle);
  collective->position = call.stream->enter(call.buffers(), progressThread_->engine());
  return submit(std::move(collective), call.number);
}

Status Communicator::waitForDevice() const {
  if (cuda_ == nullptr) return {};
  const ProgressEngine& engine = *progressThread_->engine();
  pollUntil([&] { return cuda_->idle() || engine.hasEnded(); }, Deadline::never());
  return engine.hasEnded() ? failureOrAborted() : Status();
}

Status Communicator::issueOnDevice(const AllReduceCall& call, std::unique_ptr<Collective> collective) {
  Status issued = guarded([&] { return submitOnDevice(call, std::move(collective)); });
  if (issued.ok()) return issued;
  if (!failure_.failed()) fail(issued);
  return recordLostCall(std::move(issued));
}

// The progress thread gets the call first: the queues of the driver may have room for the whole call only after it has
// made progress.
Status Communicator::submitOnDevice(const AllReduceCall& call, std::unique_ptr<Collective> collective) {
  const cuda::CopyQueue::PlacedCall placed = BPS_TRY(cuda_->place(call, *collective));
  BPS_TRY(submit(std::move(collective), call.number));
  return cuda_->enqueue(call, placed);
}

Status Communicator::allReduceFused(std::span<const AllReduceCall> calls) {
  BPS_TRY(checkOpen());
  auto collective = makeCollective(calls.front());
  collective->call.fused = fusedCallsOf(calls);
  for (const AllReduceCall& call : calls.subspan(1)) collective->call.count += call.count;
  BPS_TRY(cut(*collective));
  const auto position = FusedPosition::enter(calls, progressThread_->engine());
  collective->send = position->contributions();
  collective->recv = position->sums();
  collective->position = position;
  return submit(std::move(collective), calls.front().number);
}

Status Communicator::submitCheckOnly(const AllReduceCall& call) {
  BPS_TRY(checkOpen());
  auto collective = makeCollective(call);
  collective->call.byGpuGroups = true;
  collective->position = std::make_shared<NoStreamPosition>();
  collective->onHostStream = false;
  BPS_TRY(cut(*collective));
  return submit(std::move(collective), std::nullopt);
}

Status Communicator::checkOpen() {
  if (failure_.failed()) return recordLostCall(failure_.get());
  if (finalized()) return {Code::kInvalidUsage, "the communicator has been finalized"};
  return {};
}

Status Communicator::cut(Collective& collective) {
  collective.limits = tuning_.limits;
  Status cut = progressThread_->session().cutter->cut(collective, failure_.firstError());
  return cut.ok() ? std::move(cut) : recordLostCall(std::move(cut));
}

Status Communicator::submit(std::unique_ptr<Collective> collective, std::optional<uint64_t> number) {
  const ProgressEngine::Start start = startOf(*collective);
  collective->call.number = number ? *number : nextCall_++;
  collective->call.history = history_;
  history_ = historyAfter(collective->call);
  if (progressThread_->session().recorder != nullptr) collective->submittedAt = std::chrono::steady_clock::now();
  const std::shared_ptr<StreamPosition> position = collective->position;
  countBegin(*collective, state_.counters);
  if (progressThread_->engine()->submit(collective, start)) return {};
  Status ended = failureOrAborted();
  if (collective != nullptr) countEnd(*collective, false);
  position->complete(ended);
  return recordLostCall(std::move(ended));
}

Status Communicator::recordLostCall(Status why) {
  state_.lostCall = true;
  return why;
}

Status Communicator::failureOrAborted() const {
  Status why = failure_.get();
  return why.ok() ? Status(Code::kInvalidUsage, "the communicator was aborted") : std::move(why);
}

Result<bool> Communicator::isOnDevice(const AllReduceCall& call) {
  return cuda_ != nullptr ? cuda_->holds(call) : Result<bool>(false);
}

Result<std::vector<Blob>> Communicator::allGather(const Blob& mine) {
  return control_->gather(mine, Deadline::in(2 * timeoutOf(env_)));
}

Deadline Communicator::timeoutDeadline() const { return Deadline::in(timeoutOf(env_)); }

Result<std::optional<Membership>> Communicator::split(int color, int key) {
  if (failure_.failed()) return failure_.get();
  std::optional<Membership> membership = BPS_TRY(splitMembership(env_, *control_, {color, key}));
  if (membership) membership->device = device().value_or(-1);
  return membership;
}

Membership Communicator::shrink(const std::vector<uint32_t>& excluded) const {
  Membership membership = shrunkenMembership(*control_, membership_.id.key, excluded);
  membership.device = device().value_or(-1);
  return membership;
}

Status Communicator::finalize() {
  if (state_.finalized.exchange(true)) return {Code::kInvalidUsage, "the communicator has been finalized already"};
  const ProgressEngine& engine = *progressThread_->engine();
  // The wait ends, because every call completes or, if a peer dies, fails within BPS_TIMEOUT.
  pollUntil([&] { return (engine.drained() && !state_.serverEvents.pending()) || engine.hasEnded(); },
            Deadline::never());
  if (engine.endedWithCalls() || state_.lostCall) return failureOrAborted();
  if (cuda_ != nullptr) cuda_->waitForCopies(timeoutDeadline());
  const Session& session = progressThread_->session();
  if (session.local != nullptr) session.local->leave();
  Status written = writeTraffic(session, timeoutDeadline());
  control_->leave(timeoutDeadline());
  return written;
}

void Communicator::abort() {
  const bool joined = state_.joined.load(std::memory_order_acquire);
  const std::string name = joined ? roster().rankName(rank()) : fmt::format("rank {}", rank());
  // An asynchronous training goes on without this rank. The hub would report the end of all.
  if (!membership_.parameters || rank() != 0)
    control_->report(bps::failure(Code::kRemote, "{} aborted the communicator", name));
  failure_.setByThisRank(Status(Code::kInvalidUsage, "aborted"));
  control_->interrupt();
}

void Communicator::fail(const Status& why) {
  const Status named = why.clone().within(roster().rankName(rank()));
  control_->report(named);
  failure_.setByThisRank(named);
}

void Communicator::linkToParent(const Communicator& parent, std::string name) {
  state_.priority->follow(parent.state_.priority);
  failure_.linkToParent(parent.failure_, std::move(name), [this] { control_->interrupt(); });
}

void Communicator::releaseFailedStreams() const {
  if (cuda_ != nullptr) cuda_->releaseFailedStreams();
}

void Communicator::waitForBuffersIdle() const {
  pollUntil([this] { return progressThread_->engine()->hasEnded(); },
            timeoutDeadline().earlier(Deadline::in(std::chrono::seconds(2))));
}

void Communicator::failIfPeerLeft(Deadline& until) {
  const std::vector<uint32_t>& localRanks = roster().machines[roster().ranks[rank()].machine].ranks;
  const auto left = std::find_if(localRanks.begin(), localRanks.end(),
                                 [&](uint32_t other) { return other != rank() && control_->hasLeft(other); });
  if (left == localRanks.end()) return;
  if (until.at() == Deadline::never().at()) until = Deadline::in(2 * timeoutOf(env_));
  if (!until.passed()) return;
  // After rank 0 has left, the hub reports no other rank, so the message names rank 0.
  const uint32_t named = control_->hasLeft(0) ? 0 : *left;
  fail(bps::failure(Code::kRemote, "{} has left the communicator, calls on device memory cannot end",
                    roster().rankName(named)));
}

std::string Communicator::describe() const { return describeCommunicator({*progressThread_, tuning_, probeBytes_}); }

std::string Communicator::describeTraffic() const { return bps::describeTraffic(progressThread_->session()); }

}  // namespace bps
