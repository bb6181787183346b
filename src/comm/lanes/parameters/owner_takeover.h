// OwnerTakeover: how asynchronous training goes on when machines are lost (docs/async.md).
//
// The living machine with the next higher number takes over the parts of the parameters that a lost endpoint owned.
// Every machine restores its copies (ParamCopies) there, and the one with the most pushes counts.
//
// The living machine with the lowest number settles the last push of a lost machine: it asks the owner of every part
// how many pushes of the lost machine the part contains. If some parts lack the last push, it tells the owners of the
// others to subtract this push again. Then it tells all owners that the loss is settled, so that barriers may end. A
// part that the lost machine itself owned goes on from the copy with the most pushes, and may contain fewer pushes of
// the lost machine than the other parts.
//
// Only the holder of the progress lock (progress_engine.h) uses an OwnerTakeover.
#pragma once
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "src/comm/call/param_copies.h"

namespace bps {

struct OwnerTakeoverSpec {
  size_t self = 0, machines = 0;
  std::vector<bool> owners;  // by endpoint
  std::shared_ptr<const ParamCopies> copies;
  // Sends the chunks of a call to their acting owners. The call exists until its `remaining` is 0.
  std::function<void(Collective&)> submit;
};

class OwnerTakeover {
 public:
  explicit OwnerTakeover(OwnerTakeoverSpec spec);

  bool lost(size_t endpoint) const { return lost_[endpoint]; }
  // The endpoint that has the parts of `owner` now: `owner` itself, unless it is lost.
  size_t actingOwner(size_t owner) const { return actingOwner_[owner]; }
  // Notes that an endpoint is lost. Then call restore() as soon as chunks for the lost endpoint go to the acting owner,
  // and settle() as soon as its open requests have been sent again.
  void lose(size_t endpoint);
  void restore(size_t lost);
  void settle(size_t lost);
  // Goes on with settlements whose answers have arrived.
  void step();

 private:
  // First the parts are asked for the pushes of a lost machine, then some are told to take one back.
  struct Settlement {
    struct Part {
      ParamCopies::Key key;
      const ParamCopies::Copy* copy;
      std::unique_ptr<Collective> call;  // in flight or answered
    };
    uint32_t machine = 0;
    std::vector<Part> parts;
    bool takesBack = false;

    bool answered() const;
  };
  size_t nextLiving(size_t endpoint) const;
  bool isFirst() const { return nextLiving(spec_.machines - 1) == spec_.self; }
  void ask(uint32_t machine);
  void takeBack(Settlement& settlement);
  // Sends a request that is for the owners themselves.
  void tellOwners(CallOp op, uint32_t machine = 0);

  const OwnerTakeoverSpec spec_;
  std::vector<bool> lost_;                        // per endpoint
  std::vector<size_t> actingOwner_;               // per endpoint
  std::vector<std::vector<bool>> ownedBy_;        // per lost endpoint: whose parts it had then
  bool wasFirst_ = false;                         // before the latest loss
  std::deque<std::unique_ptr<Collective>> sent_;  // until they have arrived
  std::deque<Settlement> settlements_;
};

}  // namespace bps
