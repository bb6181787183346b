#include "src/comm/parameters/param_group.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "src/base/format.h"
#include "src/base/io/wire_io.h"
#include "src/base/log.h"
#include "src/base/wait_backoff.h"

namespace bps {
namespace {

constexpr std::chrono::milliseconds kMaxPause(20);  // between two questions whether all ranks have reached a barrier

struct Declared {
  uint64_t key = 0, count = 0;
  uint8_t type = 0;

  bool operator==(const Declared&) const = default;
  std::string text() const { return fmt::format("key {} with {} {}", key, count, typeName(type)); }
};

// The lowest rank that is not lost; the item of a lost rank is empty.
size_t firstOf(const std::vector<Blob>& items) {
  return static_cast<size_t>(std::find_if(items.begin(), items.end(), [](const Blob& item) { return !item.empty(); }) -
                             items.begin());
}

Result<Declared> decode(const Blob& bytes) {
  WireReader in(bytes);
  Declared declared{in.get<uint64_t>(), in.get<uint64_t>(), in.get<uint8_t>()};
  BPS_TRY(in.finish("parameter"));
  if (declared.type >= kDataTypes) return failure(Code::kRemote, "parameter of type {}", declared.type);
  return declared;
}

}  // namespace

Result<std::unique_ptr<ParamGroup>> ParamGroup::create(Communicator& parent) {
  std::unique_ptr<ParamGroup> group(new ParamGroup);
  std::optional<Membership> membership = BPS_TRY(parent.split(0, static_cast<int>(parent.rank())));
  membership->parameters = true;
  group->stream_ = std::make_shared<HostStream>();
  group->comm_ = BPS_TRY(Communicator::create(parent.env(), *membership));
  return group;
}

Status ParamGroup::start(const Communicator& parent) {
  BPS_TRY(comm_->start());
  comm_->useTuningOf(parent);
  return {};
}

void ParamGroup::abort() const {
  comm_->abort();
  comm_->releaseFailedStreams();
}

// Returns the lowest rank that is not lost.
Result<size_t> ParamGroup::agree(uint64_t key, size_t count, DataType type) {
  WireWriter out;
  out.put(key).put(uint64_t{count}).put(static_cast<uint8_t>(type));
  const std::vector<Blob> all = BPS_TRY(comm_->allGather(std::move(out).take()));
  std::optional<Declared> first;
  size_t firstRank = 0;
  for (size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;  // it is lost
    const Declared other = BPS_TRY(decode(all[rank]));
    if (!first) {
      first = other;
      firstRank = rank;
    } else if (!(other == *first)) {
      return bps::failure(Code::kInvalidUsage, "ranks disagree: {} initializes {}, but {} initializes {}",
                          comm_->roster().rankName(firstRank), first->text(), comm_->roster().rankName(rank),
                          other.text());
    }
  }
  return firstRank;
}

Status ParamGroup::run(CallOp op, Parameter& parameter, void* data) {
  AllReduceCall call;
  call.send = call.recv = data;
  call.count = parameter.count;
  call.type = parameter.type;
  call.op = op;
  call.stream = stream_;
  ParamCall param{parameter.index, 0};
  parameter.latest = param.progress;
  BPS_TRY(comm_->requestParameter(call, std::move(param)));
  BPS_TRY(stream_->synchronize());
  return comm_->waitForDevice();
}

Status ParamGroup::init(uint64_t key, void* data, size_t count, DataType type) {
  size_t root = BPS_TRY(agree(key, count, type));
  if (parameters_.contains(key)) return bps::failure(Code::kInvalidUsage, "key {} has been initialized already", key);
  Parameter& parameter = parameters_[key];
  parameter.index = static_cast<uint32_t>(parameters_.size() - 1);
  parameter.count = count;
  parameter.type = type;
  comm_->addParameter(count, type);
  if (count == 0) return {};
  // If the root is lost, the next rank sets the value.
  std::vector<Blob> living;
  do {
    if (comm_->rank() == root) BPS_TRY(run(CallOp::kParamSet, parameter, data));
    living = BPS_TRY(comm_->allGather(Blob(1)));
  } while (living[root].empty() && (root = firstOf(living)) < living.size());
  if (comm_->rank() != root) BPS_TRY(run(CallOp::kParamPull, parameter, data));
  return comm_->allGather(Blob(1)).status();  // no rank pushes before all have the value
}

Result<const ParamGroup::Parameter*> ParamGroup::find(uint64_t key) const {
  const auto found = parameters_.find(key);
  if (found != parameters_.end()) return &found->second;
  return bps::failure(Code::kInvalidArgument, "key is {}, which bpsParamInit has not initialized", key);
}

Status ParamGroup::request(uint64_t key, const AllReduceCall& call) {
  BPS_TRY(find(key));
  Parameter& parameter = parameters_.at(key);
  if (call.count != parameter.count || call.type != parameter.type)
    return bps::failure(Code::kInvalidArgument, "key {} has {} {}, the call has {} {}", key, parameter.count,
                        typeName(static_cast<uint8_t>(parameter.type)), call.count,
                        typeName(static_cast<uint8_t>(call.type)));
  if (call.count == 0) return {};
  ParamCall param{parameter.index, isPush(call.op) ? parameter.pushes + 1 : 0};
  const std::shared_ptr<ParamCall::Progress> latest = param.progress;
  BPS_TRY(comm_->requestParameter(call, std::move(param)));
  if (isPush(call.op)) ++parameter.pushes;
  parameter.latest = latest;
  return {};
}

Result<std::vector<uint32_t>> ParamGroup::pushes(uint64_t key) const {
  const Parameter& parameter = *BPS_TRY(find(key));
  std::vector<uint32_t> pushes = parameter.latest != nullptr ? parameter.latest->machines() : std::vector<uint32_t>();
  pushes.resize(comm_->nRanks());
  return pushes;
}

Result<std::vector<uint32_t>> ParamGroup::askOwners(CallOp op, uint32_t number) {
  AllReduceCall call;
  call.op = op;
  call.stream = stream_;
  ParamCall param;
  param.push = number;
  const std::shared_ptr<ParamCall::Progress> answers = param.progress;
  BPS_TRY(comm_->requestParameter(call, std::move(param)));
  BPS_TRY(stream_->synchronize());
  return answers->machines();
}

Status ParamGroup::barrier() {
  ++barriers_;
  WaitBackoff wait;
  for (std::chrono::milliseconds pause(1);; pause = std::min(2 * pause, kMaxPause)) {
    const std::vector<uint32_t> reached = BPS_TRY(askOwners(CallOp::kParamReach, barriers_));
    const auto late = std::find_if(reached.begin(), reached.end(), [this](uint32_t each) { return each < barriers_; });
    if (late == reached.end()) return {};
    if (const auto waited = wait.check(Deadline::Clock::now()))
      logWarn(Subsystem::kColl, "bpsParamBarrier has waited {} s for {}", waited->count(),
              comm_->roster().rankName(static_cast<size_t>(late - reached.begin())));
    std::this_thread::sleep_for(pause);
  }
}

Status ParamGroup::finish() {
  BPS_TRY(barrier());
  BPS_TRY(askOwners(CallOp::kParamLeave, 0));
  return comm_->finalize();
}

}  // namespace bps
