// LocalReducer: how the ranks of one machine combine their buffers. Every rank carries out its part of the machine's
// plan (topo/plan/program.h) on every chunk, several chunks at different stages at a time. Before the last stage, where
// there is a network, the ranks that drive it put their parts of the machine's sum on their way as its contribution.
//
// A rank's device memory is the user's buffer, which no other process sees: what a rank gets from another is one copy
// through the shared areas, counted once, from the one's seat to the other's. Memory that the CPU cannot reach is taken
// from and given to its staging buffers (staged_buffers.h): a chunk begins when its contribution has come there.
//
// Belongs to who has the turn on its rank (progress_engine.h).
#pragma once
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/comm/failure/first_error.h"
#include "src/comm/lanes/chunk_buffers.h"
#include "src/comm/lanes/rails.h"
#include "src/comm/local/local_ring.h"
#include "src/comm/local/machine_traffic.h"
#include "src/comm/local/step_cache.h"
#include "src/service/round.h"
#include "src/wire/roster.h"

namespace bps {

struct LocalReducerSpec {
  const Roster* roster = nullptr;
  uint32_t rank = 0;
  const Env* env = nullptr;     // of the leader; what it says of the machine holds for all
  double network = 0;           // bytes through the machine's NICs, each way, for every byte of a buffer
  LocalRingShape shape;         // stages and counters follow from the plan
  ChunkBuffers* own = nullptr;  // where this rank's chunks lie; null: in the user's buffers
  std::string device;           // where on the bus this rank\'s CUDA device is; empty: it has none
  int reduceThreads = 1;
  std::shared_ptr<Doorbell> bell;       // wakes this rank's channel
  const FirstError* failure = nullptr;  // of the communicator: ends a meeting
};

class LocalReducer final : public ChunkBuffers {
 public:
  // Meets the other ranks of the machine; ends at the deadline, naming who did not come.
  static Result<std::unique_ptr<LocalReducer>> bootstrap(LocalReducerSpec spec, Deadline deadline);
  LocalReducer(LocalReducerSpec spec, std::unique_ptr<const MachinePlan> plan, LocalRing ring,
               std::vector<Doorbell> bells);

  // Which ranks drive the network; before the first call.
  void setRails(const Rails& rails);
  // The call's chunks, in call order. The call stays until its remaining chunks are 0.
  void submit(Collective& call);
  // Takes the steps that can be taken; true when anything moved.
  Result<bool> step();

  ChunkBuffers& buffers() { return *this; }
  bool ready(const Collective& call, size_t index) const override { return call.firstChunk + index < readyBelow_; }
  ChunkView view(const Collective& call, size_t index) const override;
  void finished(Collective& call, size_t index) override;

  // This rank says goodbye: it will not contribute again. Any thread, once no call is in flight.
  void leave();
  // All ranks have taken all that this one has. Any thread.
  bool allRanksFinished() const;
  MachineTraffic& traffic() { return traffic_; }

  // Around a sleep of the channel; false: something changed, do not sleep.
  bool prepareToSleep();
  void endSleep();

 private:
  struct ChunkCursor {  // the chunks of submitted calls, one after the other
    std::deque<Collective*> calls;
    size_t index = 0;
    uint64_t bytes() const { return calls.front()->chunks[index].bytes; }
    void next();
  };
  size_t lastStage() const { return cursors_.size() - 1; }
  bool networked() const { return spec_.roster->machines.size() > 1; }
  // How far a rank is; of this one without a look at memory that others look at.
  uint64_t done(uint32_t rank, size_t stage) const {
    return rank == localRank_ ? ownDone_[stage] : ring_.done(rank, stage).load();
  }
  uint64_t doneByOthers(size_t stage) const;
  bool allRanksDone(size_t stage, uint64_t chunk) const;
  // Every rank has taken the chunk that had this one's slot before.
  bool slotFree(uint64_t chunk) const;
  // What any rank of the machine may do next.
  bool canRun(uint32_t rank, size_t stage) const;
  // The sum over the machine is there of the next chunk that the rank awaits as a driver.
  bool sumIsReady(uint32_t rank) const;
  bool published(uint64_t chunk) const;
  bool takeReadySums();
  void publish();
  bool canRunAnyStage(uint32_t rank) const;
  Status failIfRankLeft() const;
  Status checkPeerCounters() const;
  Status runStage(size_t stage);
  void skipEmptyStages();
  bool admitReadyChunks();
  Status checkCallsUpTo(uint64_t chunk);
  Status checkCalls(uint64_t chunk);
  void run(const Piece& piece, const ChunkView& own, uint64_t number);
  const uint8_t* locate(const Source& source, const uint8_t* own, uint64_t number) const;
  void wakeOthers() const;

  LocalReducerSpec spec_;
  uint32_t localRank_;
  const Machine* machine_;
  UserBuffers userBuffers_;
  ChunkBuffers& ownBuffers_;
  LocalRing ring_;
  std::vector<Doorbell> doorbells_;  // of every local rank
  MachineTraffic traffic_;
  const LocalProgram& program_;
  StepCache stepCache_;
  ChunkCursor arrivalCursor_;         // of contributions
  std::vector<ChunkCursor> cursors_;  // by stage
  std::vector<uint64_t> ownDone_;     // by stage: done() of this rank
  // What others read of this rank: its own memory of it, see LocalRing.
  uint64_t arrived_ = 0, published_ = 0;
  uint64_t checked_ = 0;                              // chunks whose calls have been compared
  mutable uint64_t freeBelow_ = 0;                    // slots of chunks below it are known to be free
  mutable std::optional<uint32_t> inconsistentRank_;  // a rank that says it has come further than it can have
  bool asleep_ = false;
  uint64_t submitted_ = 0;
  // As a driver of a rail: chunks that it carries, in order. Their sums over the machine have not been seen yet; the
  // network has not brought theirs yet.
  std::deque<uint64_t> awaitedSums_;
  std::deque<std::pair<uint64_t, bool>> unpublished_;  // true: it has, but not of one before
  uint64_t readyBelow_ = 0;                            // of carried chunks below it
  Rails rails_;
  std::vector<uint32_t> drivers_;
  std::vector<Contribution> contributions_;
  RoundSum partSum_, machineSum_;  // of some of the machine's ranks; of all of them
};

}  // namespace bps
