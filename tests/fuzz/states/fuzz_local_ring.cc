// Fuzzes a rank whose peer on the same machine writes arbitrary values into the memory that they share. The fuzzed rank
// must continue, wait, or fail with an error that names its peer. The fuzzed rank must never access memory outside its
// buffers.
#include <sys/mman.h>
#include <unistd.h>

#include <cstdlib>

#include "src/comm/local/local_reducer.h"
#include "src/comm/local/machine/machine_plan.h"
#include "tests/fuzz/states/kernels.h"
#include "tests/fuzz/states/peers.h"

namespace {

using namespace bps;
using namespace bps::fuzz;

constexpr size_t kSlots = 8, kChunkBytes = 64;

struct Machine2 {
  Machine2() {
    roster.ranks = {{"a", "hostA", 1, 0, 0}, {"a", "hostA", 2, 0, 1}};
    roster.machines = {{{0, 1}, 0}};
    env.topoFile = "cpu";
    machineSpec = std::move(makeMachineSpec(env, 2, 0)).value();
  }
  Roster roster;
  Env env;
  MachineSpec machineSpec;
};

const Machine2& machine() {
  static const Machine2 instance;
  return instance;
}

class Scene {
 public:
  Scene() {
    auto plan = std::move(MachinePlan::make(machine().machineSpec)).value();
    stages_ = plan->program.stages();
    LocalRingShape shape{2, kSlots, kChunkBytes, static_cast<uint32_t>(stages_), 0};
    shape.counters = static_cast<uint32_t>(LinkByteCounters::size(plan->topology));
    LocalRing ring = std::move(LocalRing::create(shape)).value();
    other_ = std::make_unique<LocalRing>(std::move(LocalRing::attach(shape, UniqueFd(::dup(ring.fd())))).value());
    LocalReducerSpec spec;
    spec.roster = &machine().roster;
    spec.rank = 1;
    spec.env = &machine().env;
    std::vector<Doorbell> bells;
    for (int i = 0; i < 2; ++i) bells.push_back(std::move(Doorbell::create()).value());
    group_ = std::make_unique<LocalReducer>(std::move(spec), std::move(plan), std::move(ring), std::move(bells));
  }

  // Performs a random action, which is a call of the fuzzed rank or a write by its peer. Then steps the fuzzed rank.
  // Returns false if the fuzzed rank has failed.
  bool move(Input& in) {
    LocalRing::RankState& rankState = other_->rankState(in.number(2));
    switch (in.number(8)) {
      case 0:
        submit(1 + in.number(20));
        break;
      case 1:
        rankState.submitted.store(in.any());
        break;
      case 2:
        rankState.awaited.store(in.any());
        break;
      case 3:
        rankState.asleep.store(in.number(2));
        rankState.left.store(in.number(16) == 0 ? 1 : 0);
        break;
      case 4:
      case 5:
        other_->done(in.number(2), in.number(static_cast<uint32_t>(stages_))).store(in.any());
        break;
      case 6: {
        ChunkInfo& chunkInfo = other_->chunkInfo(in.number(kSlots), in.number(2));
        chunkInfo.call.number = in.number(4);
        chunkInfo.call.count = in.any();
        chunkInfo.call.type = in.byte();
        chunkInfo.call.op = in.byte();
        chunkInfo.call.scalar = in.any();
        chunkInfo.bytes = in.any();
        break;
      }
      default:
        play(in.number(kSlots));
    }
    Result<bool> step = group_->step();
    if (step.ok()) {
      if (group_->prepareToSleep()) group_->endSleep();
      else group_->endSleep();
    }
    return step.ok();
  }

 private:
  void submit(size_t chunks) {
    auto call = std::make_unique<Collective>();
    auto& buffer = buffers_.emplace_back(std::make_unique<std::vector<uint8_t>>(chunks * kChunkBytes));
    call->call.number = calls_.size();
    call->call.count = buffer->size();
    call->send = call->recv = buffer->data();
    for (size_t i = 0; i < chunks; ++i) {
      ChunkRef chunk;
      chunk.offset = i * kChunkBytes;
      chunk.bytes = kChunkBytes;
      call->chunks.push_back(chunk);
    }
    call->remaining = chunks;
    group_->submit(*call);
    calls_.push_back(std::move(call));
  }
  // Reports a stage of the peer's next chunk as finished, as a valid peer does.
  void play(size_t stage) {
    if (stage >= stages_) return;
    const uint64_t number = other_->done(0, stage).load();
    if (stage == 0) other_->chunkInfo(number, 0) = other_->chunkInfo(number, 1);
    other_->done(0, stage).store(number + 1);
  }

  size_t stages_ = 0;
  std::unique_ptr<LocalRing> other_;
  std::unique_ptr<LocalReducer> group_;
  std::vector<std::unique_ptr<std::vector<uint8_t>>> buffers_;
  std::vector<std::unique_ptr<Collective>> calls_;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 500) return 0;
  Scene scene;
  for (Input in(data, size); !in.empty();)
    if (!scene.move(in)) return 0;
  return 0;
}
