// LocalProgress: tells how far each rank of a machine is with the chunks in the local ring
// (local_ring.h), and what each rank can do next. LocalProgress writes the counters of this rank
// and keeps private copies of these counters. From the ring, LocalProgress reads only the counters
// of other ranks.
//
// Only the holder of this rank's progress lock (progress_engine.h) calls these functions.
#pragma once
#include <optional>
#include <vector>

#include "src/comm/local/local_ring.h"
#include "topo/plan/program.h"

namespace bps {

class LocalProgress {
 public:
  // `ring` and `program` must outlive this object. `doorbells` has one doorbell for every local
  // rank. If `networked`, the last stage waits for the sums from the network.
  LocalProgress(const LocalRing& ring, const LocalProgram& program, uint32_t self, bool networked,
                std::vector<Doorbell> doorbells)
      : ring_(ring),
        program_(program),
        self_(self),
        networked_(networked),
        doorbells_(std::move(doorbells)),
        own_{std::vector<uint64_t>(program.stages())} {}
  // Sets the local ranks that drive rails. These ranks publish sums.
  void setDrivers(std::vector<uint32_t> drivers) { drivers_ = std::move(drivers); }

  // This rank's counters, as LocalRing defines them.
  size_t lastStage() const { return own_.done.size() - 1; }
  uint64_t done(size_t stage) const { return own_.done[stage]; }
  uint64_t submitted() const { return own_.submitted; }
  uint64_t published() const { return own_.published; }
  void setDone(size_t stage, uint64_t done, std::memory_order order);
  void setSubmitted(uint64_t submitted);
  void setAwaited(uint64_t awaited);
  void setPublished(uint64_t published);

  // True if this rank can run the stage on its next chunk.
  bool canRun(size_t stage) const { return canRun(self_, stage); }
  // True if the machine's sum is complete for the next chunk that this rank awaits.
  bool sumIsReady() const { return sumIsReady(self_); }
  // Returns a rank whose counters are impossibly far ahead, or none if no such rank has been seen.
  std::optional<uint32_t> inconsistentRank() const { return inconsistentRank_; }

  // Wakes every rank that sleeps and can now continue. Call wakeOthers() after a change of this
  // rank's counters.
  void wakeOthers() const;
  void wakeAll() const;
  // Call prepareToSleep() before a sleep and endSleep() after it. If prepareToSleep() returns
  // false, a stage can run now, so do not sleep.
  bool prepareToSleep();
  void endSleep();

 private:
  struct OwnCounters {
    std::vector<uint64_t> done;  // by stage
    uint64_t submitted = 0, awaited = 0, published = 0;
    bool asleep = false;
  };
  uint64_t done(uint32_t rank, size_t stage) const {
    return rank == self_ ? own_.done[stage] : ring_.done(rank, stage).load();
  }
  uint64_t doneByOthers(size_t stage) const;
  bool allRanksDone(size_t stage, uint64_t chunk) const;
  bool isSlotFree(uint64_t chunk) const;
  bool isPublished(uint64_t chunk) const;
  bool canRun(uint32_t rank, size_t stage) const;
  bool canRunAnyStage(uint32_t rank) const;
  bool sumIsReady(uint32_t rank) const;

  const LocalRing& ring_;
  const LocalProgram& program_;
  const uint32_t self_;
  const bool networked_;
  const std::vector<Doorbell> doorbells_;
  std::vector<uint32_t> drivers_;
  OwnCounters own_;
  mutable uint64_t freeBelow_ = 0;  // the slots of all chunks below this number are known to be free
  mutable std::optional<uint32_t> inconsistentRank_;
};

}  // namespace bps
