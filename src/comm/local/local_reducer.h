// LocalReducer: combines the buffers of the ranks of one machine. Every rank runs its steps of the machine's plan
// (topo/plan/program.h) on every chunk; several chunks are at different stages at the same time. If the communicator
// uses the network, the ranks that drive a rail send their parts of the machine's sum before the last stage.
//
// No other process can access a rank's own buffer, so data passes from rank to rank through the shared areas. It counts
// as one copy from the location of one rank to that of the other. If the CPU cannot access a rank's memory, the rank's
// staging buffers (staged_buffers.h) stand in for it: a chunk begins when its contribution has arrived there.
//
// Only the holder of this rank's progress lock (progress_engine.h) calls it, except where a method says otherwise.
#pragma once
#include <chrono>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/comm/call/chunk_buffers.h"
#include "src/comm/failure/first_error.h"
#include "src/comm/local/local_ring.h"
#include "src/comm/local/machine_traffic.h"
#include "src/comm/local/step_cache.h"
#include "src/plan/rails.h"
#include "src/service/round.h"
#include "src/wire/roster.h"

namespace bps {

struct LocalReducerSpec {
  const Roster* roster = nullptr;
  uint32_t rank = 0;
  const Env* env = nullptr;     // used by the leader only: its settings of the machine apply to all local ranks
  double network = 0;           // bytes through the machine's NICs, each way, per byte of a buffer
  LocalRingShape shape;         // stages and counters are derived from the plan
  ChunkBuffers* own = nullptr;  // this rank's chunks; null: they are in the user's buffers
  std::string device;           // PCI bus id of this rank's CUDA device; empty: none
  int reduceThreads = 1;
  std::shared_ptr<Doorbell> bell;       // wakes this rank's progress engine
  const FirstError* failure = nullptr;  // of the communicator: a failure ends bootstrap()
};

class LocalReducer final : public ChunkBuffers {
 public:
  // Connects the ranks of the machine. If the deadline passes, the failure names the ranks that are missing.
  static Result<std::unique_ptr<LocalReducer>> bootstrap(LocalReducerSpec spec, Deadline deadline);
  LocalReducer(LocalReducerSpec spec, std::unique_ptr<const MachinePlan> plan, LocalRing ring,
               std::vector<Doorbell> bells);

  // Sets which ranks drive which rail. Call it before the first submit().
  void setRails(const Rails& rails);
  // Adds the call's chunks. All ranks submit calls in the same order. The call must live until none of its chunks is
  // left.
  void submit(Collective& call);
  // Runs the stages that can run now, without blocking. Returns whether anything moved.
  Result<bool> step();

  ChunkBuffers& buffers() { return *this; }
  bool ready(const Collective& call, size_t index) const override { return call.firstChunk + index < readyBelow_; }
  ChunkView view(const Collective& call, size_t index) const override;
  void finished(Collective& call, size_t index) override;

  // Marks this rank as having left: it will not contribute again. Any thread, once no call is in flight.
  void leave();
  // True if all ranks have finished every chunk that this rank has finished. Any thread.
  bool allRanksFinished() const;
  MachineTraffic& traffic() { return traffic_; }

  // The progress engine calls these before and after it sleeps. If prepareToSleep() returns false, a stage can run now:
  // do not sleep.
  bool prepareToSleep();
  void endSleep();

 private:
  struct ChunkCursor {  // iterates over the chunks of the submitted calls
    std::deque<Collective*> calls;
    size_t index = 0;
    uint64_t bytes() const { return calls.front()->chunks[index].bytes; }
    void next();
  };
  size_t lastStage() const { return cursors_.size() - 1; }
  bool networked() const { return spec_.roster->machines.size() > 1; }
  // The chunks that a rank has done in a stage. For this rank it reads ownDone_ rather than shared memory.
  uint64_t done(uint32_t rank, size_t stage) const {
    return rank == localRank_ ? ownDone_[stage] : ring_.done(rank, stage).load();
  }
  uint64_t doneByOthers(size_t stage) const;
  bool allRanksDone(size_t stage, uint64_t chunk) const;
  // True if every rank has done the last stage of the slot's previous chunk.
  bool slotFree(uint64_t chunk) const;
  // True if the rank, this one or another, can run the stage on its next chunk.
  bool canRun(uint32_t rank, size_t stage) const;
  // True if the machine's sum is complete for the next chunk that the rank awaits as a rail's driver.
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
  ChunkCursor arrivalCursor_;         // the next chunk whose contribution is not ready yet
  std::vector<ChunkCursor> cursors_;  // by stage
  std::vector<uint64_t> ownDone_;     // by stage: done() of this rank
  // Own copies of counters that other ranks read. A rank never reads its own counters from shared memory, see
  // LocalRing.
  uint64_t arrived_ = 0, published_ = 0;
  uint64_t checked_ = 0;                              // number of chunks whose calls have been compared
  mutable uint64_t freeBelow_ = 0;                    // the slots of chunks below this are known to be free
  mutable std::optional<uint32_t> inconsistentRank_;  // a rank whose counters are impossibly far ahead
  bool asleep_ = false;
  uint64_t submitted_ = 0;
  // For the driver of a rail: the chunks that the rail carries, in order.
  std::deque<uint64_t> awaitedSums_;                   // the machine's sum has not been seen yet
  std::deque<std::pair<uint64_t, bool>> unpublished_;  // not published; true: received, but an earlier one is missing
  uint64_t readyBelow_ = 0;                            // the sums of carried chunks below this are ready to send
  Rails rails_;
  std::vector<uint32_t> drivers_;
  std::vector<Contribution> contributions_;
  RoundSum partSum_, machineSum_;  // over some of the machine's ranks, over all of them
};

}  // namespace bps
