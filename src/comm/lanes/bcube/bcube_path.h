// BcubePath: carries the calls of a communicator whose machines form a BCube. The schedule is that of
// plan/bcube/bcube.h. Only the holder of the progress lock (progress_engine.h) uses a BcubePath.
//
// A block of the schedule is a chunk of a call. All machines number their blocks alike, over all calls. With every
// neighbour there is a connection each way for aggregation, and one each way for distribution.
//
// A block goes through 2 k stages: the k steps of aggregation, and then the k steps of distribution in reverse order.
// At the beginning of a stage the machine sends a slice to each neighbour of the step's level. The stage is over when
// the slices of these neighbours are here and summed or copied. Aggregation sums into memory of the block, and its last
// step into the target of the chunk. A slice of distribution is copied to the target as soon as it arrives: it contains
// sums of all machines, so nobody needs this machine's contributions to it any more. Therefore the call may be in
// place.
//
// Blocks are in flight in a window, and go through their stages independently of each other. A machine sends slices
// only of blocks in its window, and a neighbour that has retired a block has got sums with all contributions of this
// machine. So 2 windows of slots suffice for the slices of a connection that are not used yet.
//
// Order of the additions: in each step the n contributions are added in the order of the digits of their machines, with
// one rounding. The order of the levels follows from the thread that carries the element.
//
// Disagreement. The header of a slice describes the call. If a neighbour's call has the same number and history, but
// differs, the path fails and names both calls. The neighbours connect all machines, so some two of them detect every
// disagreement.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/memory.h"
#include "src/base/status.h"
#include "src/comm/call/chunk_buffers.h"
#include "src/comm/lanes/bcube/bcube_connections.h"
#include "src/comm/lanes/lane_remains.h"
#include "src/plan/bcube/bcube.h"
#include "src/service/peer_wait.h"
#include "src/service/round.h"
#include "src/service/summation.h"
#include "src/trace/recorder.h"

namespace bps {

struct BcubeSpec : Summation {
  explicit BcubeSpec(Summation sums = {}) : Summation(std::move(sums)) {}

  Bcube shape;
  size_t address = 0;             // of this machine
  std::vector<size_t> machineAt;  // the machine with each address
  std::vector<std::string> nics;  // the interface of each level
  size_t maxBlockBytes = 0, window = 0;
  trace::ChunkRecorder recorder{};
};

// The connections with one neighbour.
struct BcubeNeighbour {
  std::unique_ptr<net::Comm> aggregateOut, aggregateIn, distributeOut, distributeIn;
};

class BcubePath {
 public:
  // `neighbours` has n entries per level, by digit; that of this machine's own digit is empty.
  static Result<std::unique_ptr<BcubePath>> create(ChunkBuffers& buffers, BcubeSpec spec,
                                                   std::vector<std::vector<BcubeNeighbour>> neighbours);

  // Submits all chunks of a call.
  void submit(Collective& call);
  // Makes one step without blocking and returns whether anything moved. If a connection broke, step() fails once, and
  // failedMachine() is the neighbour. The other connections still move. After any other failure nothing moves.
  Result<bool> step();
  std::optional<size_t> failedMachine() const { return failedMachine_; }

  // True if every submitted chunk is complete, and the transport has accepted all data for neighbours.
  bool idle() const;
  // If no chunk has been completed for waitReportTime, returns the oldest call and the machine whose slice it waits
  // for. If this machine's own NIC does not run meanwhile, the next step() fails. Call this function regularly.
  std::optional<EndpointWait> checkWait();
  // Adds what the oldest block still needs.
  void addPeerWaits(std::vector<PeerWait>& waits) const;
  void forEachComm(const std::function<void(net::Comm&)>& use);

 private:
  enum class Phase : uint8_t { kAggregate, kDistribute };
  struct Stage {
    Phase phase = Phase::kAggregate;
    size_t step = 0, level = 0;
  };
  struct Neighbour {  // one direction of one phase has one connection
    size_t level = 0, digit = 0, machine = 0;
    std::unique_ptr<BcubeSender> out[2];   // by phase
    std::unique_ptr<BcubeReceiver> in[2];  // by phase
    uint64_t seen[2] = {};                 // slices below this number are in `pending` or given to their blocks
    std::deque<uint64_t> pending[2];       // slices of blocks that are not in the window yet, or of later calls
    bool outReported[2] = {}, inReported[2] = {};
  };
  struct Input {  // a slice that has arrived
    bool here = false;
    uint64_t number = 0;
  };
  struct Block {
    SubmittedChunk chunk;
    ChunkView view;
    size_t thread = 0, elementBytes = 1, count = 0;
    size_t stage = 0;                // 2 k: complete
    bool begun = false;              // the slices of the stage are sent
    std::vector<Input> inputs;       // by stage and digit
    std::vector<uint64_t> lastSent;  // by neighbour and phase: one more than the number of the last slice
    uint8_t* partial = nullptr;      // memory for the sums of aggregation, one step after the other
  };
  struct Range {
    size_t offset = 0, bytes = 0;
  };
  struct Count {  // of blocks
    uint64_t admitted = 0, retired = 0;
    size_t bytesInFlight = 0;
  };
  struct Sums {
    std::vector<Contribution> round;  // by digit
    RoundSum someRanks, allRanks;
  };
  struct WaitCheck {
    uint64_t retired = 0;
    std::optional<Deadline::Clock::time_point> since;
    Deadline::Clock::time_point nicsChecked{};
  };

  BcubePath(ChunkBuffers& buffers, BcubeSpec spec);
  size_t inputIndex(Phase phase, size_t step, size_t digit) const {
    return (static_cast<size_t>(phase) * spec_.shape.k() + step) * spec_.shape.n() + digit;
  }
  size_t stages() const { return 2 * spec_.shape.k(); }
  Stage stageOf(const Block& block, size_t stage) const;
  Block& block(uint64_t number) { return blocks_[number % blocks_.size()]; }
  const Block& block(uint64_t number) const { return blocks_[number % blocks_.size()]; }
  Neighbour& neighbour(size_t level, size_t digit) { return neighbours_[level * spec_.shape.n() + digit]; }
  size_t ownDigit(size_t level) const { return spec_.shape.digit(spec_.address, level); }
  // The bytes of the cells whose owners agree with `address` in the levels of the first `steps` steps.
  Range range(const Block& block, size_t address, size_t steps) const;
  // Where this machine's partial sums of these cells are before the aggregation step.
  const uint8_t* partialSum(const Block& block, size_t step, const Range& range) const;
  size_t partialOffset(size_t step) const;
  bool mayAdmit() const;
  void admit();
  Result<bool> move();
  Result<bool> take(Neighbour& from, Phase phase);
  Result<bool> give(Neighbour& from, Phase phase, uint64_t number, const BcubeSlice& slice);
  Status check(const Block& block, const Neighbour& from, const BcubeSlice& slice, const Range& expected) const;
  Result<bool> advance(uint64_t number);
  Status sendSlices(uint64_t number, const Stage& stage);
  bool complete(const Block& block, const Stage& stage) const;
  void sum(Block& block, const Stage& stage);
  bool retireNext();
  Status takeFailure();
  Status checkNics() const;
  std::vector<size_t> awaitedMachines(const Block& block) const;

  ChunkBuffers& buffers_;
  const BcubeSpec spec_;
  std::vector<Neighbour> neighbours_;  // by level and digit; those of the own digits have no connections
  std::deque<SubmittedChunk> waiting_;
  PageBuffer partials_;
  std::vector<Block> blocks_;
  Count count_;
  Sums sums_;
  WaitCheck waitCheck_;
  Status failure_;  // a failure of move(), after which nothing moves
  std::optional<size_t> failedMachine_;
};

}  // namespace bps
