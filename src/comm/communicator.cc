#include "src/comm/communicator.h"

#include <algorithm>
#include <cstring>
#include <map>
#include <thread>

#include "cpu_reduce/dispatch.h"
#include "src/base/format.h"
#include "src/base/log.h"
#include "src/base/memory.h"
#include "src/wire/split_request.h"

namespace bps {
namespace {

std::chrono::nanoseconds timeoutOf(const Env& env) {
  return std::chrono::nanoseconds(static_cast<int64_t>(env.timeout.value * 1e9));
}

// Enough slots for the windows of all owners, and for what is copied to and from the device meanwhile.
StagingConfig stagingShape(const JobPlan& plan, std::chrono::nanoseconds timeout) {
  const auto owners = static_cast<size_t>(std::count(plan.owners.begin(), plan.owners.end(), true));
  return {std::clamp<size_t>(owners * (plan.depth + 2), 8, 64), plan.limits.maxChunkBytes, timeout};
}

// Of a call that no stream waits for.
class NoStreamPosition final : public StreamPosition {
 public:
  bool mayStart() const override { return true; }
  void complete(const Status&) override {}
};

}  // namespace

Result<std::unique_ptr<Communicator>> Communicator::create(const Env& env, const Membership& membership) {
  std::unique_ptr<Communicator> communicator(new Communicator(env, membership));
  BPS_TRY(communicator->prepare());
  return communicator;
}

Communicator::Communicator(const Env& env, const Membership& membership)
    : env_(env),
      membership_(membership),
      failurePropagator_(std::make_shared<FailurePropagator>([this](const Status& failure) {
        // What broke a part's connection the hub may know better, and say in the whole's words.
        if (failure.code() == Code::kRemote) control_->suspect(failure.message());
        else control_->report(failure);
      })) {}

void Communicator::failed(const Status& failure) {
  if (failure_.set(failure)) {
    logWarn(Subsystem::kColl, "communicator ended: {}", failure.message());
    propagateFailure(failure);
  }
  bell_->ring();
}

void Communicator::propagateFailure(const Status& failure) {
  failurePropagator_->parentFailed(failure);
  const MutexLock lock(parentMutex_);
  if (parentLink_) parentLink_->parent->childFailed(failure.clone().within(parentLink_->name));
}

void Communicator::linkToParent(const Communicator& parent, std::string name) {
  const uint64_t number = parent.failurePropagator_->addChild([this](const Status& failure) {
    if (!failure_.set(failure)) return;
    control_->interrupt();
    bell_->ring();
  });
  {
    const MutexLock lock(parentMutex_);
    parentLink_ = {parent.failurePropagator_, number, std::move(name)};
  }
  if (cuda_ != nullptr) cuda_->holdFailedStreams();
  if (failure_.failed()) propagateFailure(failure_.get());
}

void Communicator::releaseFailedStreams() const {
  if (cuda_ != nullptr) cuda_->releaseFailedStreams();
}

Status Communicator::prepare() {
  BPS_TRY(cpu::chooseTarget(env_.cpuTarget));
  cuda_ = BPS_TRY(CudaBackend::create(env_, membership_.device));
  bell_ = std::make_shared<Doorbell>(BPS_TRY(Doorbell::create()));
  JoinArgs args;
  args.id = membership_.id;
  args.rank = membership_.rank;
  args.nRanks = membership_.nRanks;
  control_ = BPS_TRY(ControlPlane::create(env_, args, [this](const Status& why) { failed(why); }));
  return {};
}

Status Communicator::start() {
  const Deadline deadline = Deadline::in(timeoutOf(env_));
  BPS_TRY(control_->join(deadline));
  hasRoster_.store(true, std::memory_order_release);
  Status connected = connect(deadline);
  if (connected.ok()) connected = tune(deadline);
  if (connected.ok()) {
    if (traffic() != nullptr) traffic()->clear();  // what measured the network does not count
    logStart();
    return {};
  }
  // What everybody was told is the better explanation; what only this rank knows, everybody is told.
  if (failure_.failed()) return failure_.get();
  control_->report(connected.clone().within(control_->roster().rankName(membership_.rank)));
  return connected;
}

Status Communicator::connect(Deadline deadline) {
  const Roster& roster = control_->roster();
  plan_ = BPS_TRY(JobPlan::make(roster));
  BPS_TRY(setUpLocalReducer(deadline));
  BPS_TRY(chooseRails(deadline));
  ProgressThreadArgs args;
  args.env = env_;
  args.session = {control_.get(), &failure_, bell_, plan_, rails_, local_.get(), traffic(), nullptr};
  args.fail = [this](const Status& why) { failed(why); };
  if (cuda_ != nullptr) {
    cuda_->start({bell_, stagingShape(plan_, timeoutOf(env_))});
    args.session.staged = &cuda_->buffers();
  }
  args.nic = nicName();
  args.plugin = plugin_;
  args.whyNoGpuDirect = whyNoGpuDirect();
  args.cpus = cpus();
  args.deadline = deadline;
  progressThread_ = BPS_TRY(ProgressThread::start(std::move(args)));
  return control_->barrier(deadline);
}

Status Communicator::tune(Deadline deadline) {
  tuning_ = BPS_TRY(chooseTuning(plan_, control_->roster(), [&](size_t bytes, const Tuning& tuning) {
    tuning_ = tuning;
    return measureSlowestRank(bytes, deadline);
  }));
  nextCall_ = 0;  // the application's calls count from 0
  return {};
}

// Seconds that a call of so many bytes takes on the slowest rank.
Result<double> Communicator::measureSlowestRank(size_t bytes, Deadline deadline) {
  const PageBuffer buffer = BPS_TRY(PageBuffer::create(bytes));
  std::memset(buffer.data(), 0, bytes);
  probeBytes_ += bytes;
  AllReduceCall call;
  call.send = call.recv = buffer.data();
  call.count = bytes;
  call.type = DataType::kUint8;
  call.stream = std::make_shared<HostStream>();
  BPS_TRY(control_->gather({}, deadline));  // all begin at once
  const auto start = Deadline::Clock::now();
  BPS_TRY(allReduce(call));
  BPS_TRY(call.stream->synchronize());
  const std::chrono::duration<double> own = Deadline::Clock::now() - start;
  return slowestSeconds(BPS_TRY(control_->gather(encodeSeconds(own.count()), deadline)), control_->roster());
}

Communicator::~Communicator() {  // the channel first, then what it uses
  failurePropagator_->parentDestroyed();
  const MutexLock lock(parentMutex_);
  if (parentLink_) parentLink_->parent->removeChild(parentLink_->number);
}

Status Communicator::allReduce(const AllReduceCall& call) {
  BPS_TRY(checkOpen());
  auto collective = makeCollective(call);
  collective->deviceScalar = call.deviceScalar;
  collective->send = static_cast<const uint8_t*>(call.send);
  collective->recv = static_cast<uint8_t*>(call.recv);
  BPS_TRY(enterStream(call, *collective));
  const size_t bytes = call.count * elementBytes(call.type);
  // A CUDA stream's caller must not be held up by what other calls have to do.
  const bool startHere = collective->onHostStream && bytes <= constants::kMaxInlineBytes;
  return submit(std::move(collective), startHere);
}

Status Communicator::checkOpen() {
  if (failure_.failed()) return recordRefusal(failure_.get());
  if (finalized_) return {Code::kInvalidUsage, "the communicator has been finalized"};
  return {};
}

std::unique_ptr<Collective> Communicator::makeCollective(const AllReduceCall& call) const {
  auto collective = std::make_unique<Collective>();
  collective->call.count = call.count;
  collective->call.type = static_cast<uint8_t>(call.type);
  collective->call.op = static_cast<uint8_t>(call.op);
  collective->call.hasScalar = call.op == CallOp::kPreMulSum;
  collective->call.scalar = call.scalar;
  collective->limits = tuning_.limits;
  collective->window = tuning_.window;
  return collective;
}

Status Communicator::submit(std::unique_ptr<Collective> collective, bool startHere) {
  collective->call.number = nextCall_++;
  collective->call.history = history_;
  history_ = historyAfter(collective->call);
  const std::shared_ptr<StreamPosition> position = collective->position;
  if (progressThread_->progress()->submit(collective, startHere)) return {};
  const Status ended = failure_.failed() ? failure_.get() : Status(Code::kInvalidUsage, "the communicator was aborted");
  position->complete(ended);
  return recordRefusal(ended);
}

Status Communicator::recordRefusal(const Status& why) {
  hasRefusedCall_ = true;
  return why.clone();
}

Result<bool> Communicator::isOnDevice(const AllReduceCall& call) {
  return cuda_ != nullptr ? cuda_->holds(call) : Result<bool>(false);
}

Status Communicator::submitCheckOnly(const AllReduceCall& call) {
  BPS_TRY(checkOpen());
  auto collective = makeCollective(call);
  collective->call.byGpuGroups = true;
  collective->position = std::make_shared<NoStreamPosition>();
  collective->onHostStream = false;
  return submit(std::move(collective), false);
}

Result<std::vector<Blob>> Communicator::allGather(const Blob& mine) {
  return control_->gather(mine, Deadline::in(2 * timeoutOf(env_)));  // those who are gone are noticed sooner
}

Deadline Communicator::timeoutDeadline() const { return Deadline::in(timeoutOf(env_)); }

// Finds the call its place in its stream: CUDA's, or the host's.
Status Communicator::enterStream(const AllReduceCall& call, Collective& collective) {
  if (cuda_ != nullptr) collective.position = BPS_TRY(cuda_->enter(call, collective));
  collective.onHostStream = collective.position == nullptr;
  if (!collective.onHostStream) return {};
  if (call.stream == nullptr)
    return bps::failure(Code::kInvalidArgument, "stream {} is not a host stream", call.handle);
  const size_t bytes = call.count * elementBytes(call.type);
  collective.position = call.stream->enter({call.send, bytes}, {call.recv, bytes}, progressThread_->progress());
  return {};
}

Result<std::optional<Communicator::Membership>> Communicator::split(int color, int key) {
  if (failure_.failed()) return failure_.get();
  const Blob mine = SplitRequest{color, key}.bytes();
  const std::vector<Blob> wishes = BPS_TRY(control_->gatherForSplit(mine, timeoutDeadline()));
  const std::vector<uint32_t> group = BPS_TRY(splitGroup(wishes, color, control_->roster()));

  // The new rank 0 opens the meeting point of its group; its id travels over the authenticated star.
  Membership membership;
  Blob offer;
  Status opened;
  if (color >= 0 && group.front() == rank()) {
    Result<UniqueId> id = UniqueId::createHere(env_);
    if (!id.ok()) {
      opened = std::move(id).status();
    } else {
      const auto bytes = std::move(id).value().bytes();
      offer.assign(bytes.begin(), bytes.end());
    }
  }
  const std::vector<Blob> offers = BPS_TRY(control_->gatherForSplit(offer, timeoutDeadline()));
  BPS_TRY(std::move(opened));
  if (color < 0) return std::optional<Membership>();
  const Blob& chosen = offers[group.front()];
  if (chosen.size() != kUniqueIdBytes)
    return bps::failure(Code::kRemote, "{} could not open the new communicator's meeting point",
                        control_->roster().rankName(group.front()));
  membership.id = BPS_TRY(UniqueId::parse(std::span<const uint8_t, kUniqueIdBytes>(chosen)));
  membership.nRanks = static_cast<uint32_t>(group.size());
  membership.device = device().value_or(-1);
  const std::vector<RankEntry>& ranks = control_->roster().ranks;
  membership.onOneMachine = std::all_of(
      group.begin(), group.end(), [&](uint32_t member) { return ranks[member].machine == ranks[rank()].machine; });
  membership.rank = static_cast<uint32_t>(std::find(group.begin(), group.end(), rank()) - group.begin());
  return std::optional<Membership>(membership);
}

Status Communicator::finalize() {
  if (finalized_.exchange(true)) return {Code::kInvalidUsage, "the communicator has been finalized already"};
  auto pause = std::chrono::microseconds(20);
  ProgressEngine& progress = *progressThread_->progress();
  // Ends: every call completes, or fails within BPS_TIMEOUT of a peer's death.
  while (!progress.drained() && !progress.hasEnded()) {
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
  if (progress.endedWithCalls() || hasRefusedCall_) {
    Status why = failure_.get();
    return why.ok() ? Status(Code::kInvalidUsage, "the communicator was aborted") : std::move(why);
  }
  if (local_ != nullptr) local_->leave();
  Status written = writeTraffic(Deadline::in(timeoutOf(env_)));
  control_->leave(Deadline::in(timeoutOf(env_)));
  return written;
}

void Communicator::abort() {
  const bool joined = hasRoster_.load(std::memory_order_acquire);
  const std::string name = joined ? control_->roster().rankName(rank()) : fmt::format("rank {}", rank());
  control_->report(bps::failure(Code::kRemote, "{} aborted the communicator", name));
  const Status aborted(Code::kInvalidUsage, "aborted");
  if (failure_.set(aborted)) failurePropagator_->parentFailed(aborted);
  control_->interrupt();
  bell_->ring();
}

void Communicator::fail(const Status& why) {
  const Status named = why.clone().within(control_->roster().rankName(rank()));
  control_->report(named);
  if (failure_.set(named)) failurePropagator_->parentFailed(named);
  bell_->ring();
}

// Copies on a device that has failed do not end, see StagedBuffers.
void Communicator::waitForBuffersIdle() const {
  const Deadline deadline = Deadline::in(std::min<std::chrono::nanoseconds>(std::chrono::seconds(2), timeoutOf(env_)));
  while (!progressThread_->progress()->hasEnded() && !deadline.passed())
    std::this_thread::sleep_for(std::chrono::microseconds(50));
}

void Communicator::failIfPeerLeft(Deadline& until) {
  const Roster& roster = control_->roster();
  const std::vector<uint32_t>& localRanks = roster.machines[roster.ranks[rank()].machine].ranks;
  const auto gone = std::find_if(localRanks.begin(), localRanks.end(),
                                 [&](uint32_t other) { return other != rank() && control_->hasLeft(other); });
  if (gone == localRanks.end()) return;
  if (until.at() == Deadline::never().at()) until = Deadline::in(2 * timeoutOf(env_));
  if (until.passed())
    fail({Code::kRemote, fmt::format("{} has left the communicator, calls on device memory cannot end",
                                     roster.rankName(control_->hasLeft(0) ? 0 : *gone))});
}

void Communicator::logStart() const {
  const Roster& roster = control_->roster();
  const std::string transport = progressThread_->transport().empty() ? "none needed" : progressThread_->transport();
  logInfo(Subsystem::kInit,
          "rank {} of {}: {} machines, {} servers, transport {}, sums by {} kernels, chunks of {} bytes", rank(),
          nRanks(), roster.machines.size(), roster.servers.size(), transport, reduceTarget(),
          tuning_.limits.targetChunkBytes);
  const std::string& obstacle = progressThread_->whyNoGpuDirect();
  if (cuda_ != nullptr && roster.machines.size() > 1)
    logInfo(Subsystem::kInit, "rank {}: CUDA device {}: GPUDirect RDMA is {}{}", rank(), cuda_->ordinal(),
            obstacle.empty() ? "used, by NIC " : "not used: ", obstacle.empty() ? nicName().name : obstacle);
  const RankEntry& self = roster.ranks[rank()];
  if (local_ != nullptr && self.localRank == 0)
    logInfo(Subsystem::kTopo, "{} local ranks, {}", roster.machines[self.machine].ranks.size(),
            local_->traffic().plan().describe());
}

}  // namespace bps
