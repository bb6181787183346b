// LocalReducer: combines the buffers of the ranks of one machine. Every rank runs its steps of the
// machine plan (topo/plan/program.h) on every chunk. Several chunks can be at different stages at
// the same time. If the communicator uses the network, the ranks that drive a rail send their parts
// of the machine's sum before the last stage.
//
// No other process can access a rank's own buffer, so data passes from rank to rank through the
// shared areas of the local ring. The traffic counters count this transfer as one copy from the
// location of one rank to the location of the other rank. If the CPU cannot access a rank's memory,
// the rank uses its staging buffers (staged_buffers.h) instead. A chunk then begins when its
// contribution has arrived in the staging buffers.
//
// Only the holder of this rank's progress lock (progress_engine.h) calls these methods, except
// where a comment says otherwise.
#pragma once
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/comm/call/chunk_buffers.h"
#include "src/comm/failure/first_error.h"
#include "src/comm/local/local_progress.h"
#include "src/comm/local/machine/machine_traffic.h"
#include "src/comm/local/piece_runner.h"
#include "src/comm/local/rail_sums.h"
#include "src/comm/local/step_cache.h"
#include "src/plan/rails.h"
#include "src/service/peer_wait.h"
#include "src/wire/roster.h"

namespace bps {

struct LocalReducerSpec {
  const Roster* roster = nullptr;
  uint32_t rank = 0;
  const Env* env = nullptr;     // only the leader uses it; the leader's settings apply to all local ranks
  double network = 0;           // bytes that the machine's NICs send, and also receive, per byte of a buffer
  LocalRingShape shape;         // the machine plan sets `stages` and `counters`
  ChunkBuffers* own = nullptr;  // this rank's chunks; null if they are in the user's buffers
  std::string device;           // PCI bus id of this rank's CUDA device; empty if it has none
  int reduceThreads = 1;
  std::shared_ptr<Doorbell> bell;       // wakes this rank's progress thread
  const FirstError* failure = nullptr;  // failure of the communicator, which ends bootstrap()
};

class LocalReducer final : public ChunkBuffers {
 public:
  // Connects the ranks of the machine. If the deadline passes, the failure names the ranks that are missing.
  static Result<std::unique_ptr<LocalReducer>> bootstrap(LocalReducerSpec spec, Deadline deadline);
  LocalReducer(LocalReducerSpec spec, std::unique_ptr<const MachinePlan> plan, LocalRing ring,
               std::vector<Doorbell> bells);

  // Sets which local ranks drive rails. Call setRails() before the first submit().
  void setRails(const Rails& rails);
  // Adds the call's chunks. All ranks submit calls in the same order. The call must exist until all
  // its chunks are finished.
  void submit(Collective& call);
  // Runs the stages that can run now, without blocking. Returns whether anything moved.
  Result<bool> step();

  ChunkBuffers& buffers() { return *this; }
  bool ready(const Collective& call, size_t index) const override { return railSums_.isReady(call.firstChunk + index); }
  ChunkView view(const Collective& call, size_t index) const override;
  void finished(Collective& call, size_t index) override;

  // Marks this rank as left, so that it will not contribute again. Any thread may call leave() when
  // no call is in flight.
  void leave();
  // True if all ranks have finished every chunk that this rank has finished. Any thread may call
  // this function.
  bool allRanksFinished() const;
  // Adds for which local ranks the oldest chunk waits. A rank that has not yet done the earliest of the outstanding
  // stages counts as missing.
  void addPeerWaits(std::vector<PeerWait>& waits) const;
  MachineTraffic& traffic() { return traffic_; }

  // The progress engine calls prepareToSleep() before it sleeps and endSleep() after that. If
  // prepareToSleep() returns false, a stage can run now, so the engine must not sleep.
  bool prepareToSleep() { return progress_.prepareToSleep(); }
  void endSleep() { progress_.endSleep(); }

 private:
  // Iterates over the chunks of the submitted calls.
  struct ChunkCursor {
    std::deque<Collective*> calls;
    size_t index = 0;
    uint64_t bytes() const { return calls.front()->chunks[index].bytes; }
    void next();
  };
  struct Cursors {
    ChunkCursor arrival;              // the next chunk whose contribution is not ready yet
    std::vector<ChunkCursor> stages;  // the next chunk of each stage
  };
  struct Count {  // of chunks
    uint64_t submitted = 0;
    uint64_t checked = 0;  // chunks whose calls have been compared
  };
  const LocalProgram& program() const { return traffic_.plan().program; }
  uint32_t localRank() const { return spec_.roster->ranks[spec_.rank].localRank; }
  std::string nameOf(size_t local) const;
  bool networked() const { return spec_.roster->machines.size() > 1; }
  bool admitReadyChunks();
  Status runStage(size_t stage);
  void skipEmptyStages();
  Status checkCallsUpTo(uint64_t chunk);
  Status checkPeerCounters() const;
  Status failIfRankLeft() const;

  const LocalReducerSpec spec_;
  UserBuffers userBuffers_;
  ChunkBuffers& ownBuffers_;
  LocalRing ring_;
  MachineTraffic traffic_;
  StepCache stepCache_;
  LocalProgress progress_;
  PieceRunner pieceRunner_;
  Cursors cursors_;
  Count count_;
  Rails rails_;
  RailSums railSums_;
};

}  // namespace bps
