// ExchangePath: carries the calls of the exchange path. Every machine gets the contributions of all
// machines and sums them, in machine order. Only the holder of the progress lock
// (progress_engine.h) uses an ExchangePath.
//
// The contributions travel by Bruck's all-gather, in ceil(log2 n) steps for n machines. In step s
// machine m sends to machine m - 2^s and receives from machine m + 2^s (modulo n). Before step s
// machine m has the contributions of the machines m to m + 2^s - 1, and sends all of them. Only the
// last step may send fewer, because it sends no contribution that the receiver has. So a machine
// sends log2 n messages and n - 1 contributions. Each step has two connections of its own
// (exchange_connections.h).
//
// Each chunk goes through the steps on its own, and several chunks are in flight. Chunk c is the
// c-th message on every connection. For every step:
//
//   retired <= summed <= accepted <= arrived,  accepted <= admitted <= retired + slots
//   sent of step s <= accepted of every earlier step
//
// Disagreement. A machine accepts a contribution only if its call is the machine's own call. If the
// calls have the same number and the same history (CallInfo::history) but differ, the exchange path
// fails and names both calls. If a machine begins a call on the lanes and another machine begins the
// call with the same number and history on the exchange path, the first machine gets the
// contribution of the second machine before the call can end, and fails in the same way. Some two
// machines detect each such disagreement: in step 0, every machine gets the contribution of its
// neighbour, and the neighbours form a ring. If the histories differ, the machines have disagreed on
// an earlier call, which other machines report, so the contribution waits.
//
// The sum of an in-place call replaces the contribution, and the call of any chunk completes, only
// after the machine has sent its contribution in step 0. Small contributions are copied, which
// avoids this wait. The later steps always send copies.
#pragma once
#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/status.h"
#include "src/comm/call/chunk_buffers.h"
#include "src/comm/lanes/exchange_connections.h"
#include "src/comm/lanes/lane_remains.h"
#include "src/net/mesh.h"
#include "src/service/peer_wait.h"
#include "src/service/round.h"
#include "src/service/summation.h"
#include "src/trace/recorder.h"

namespace bps {

struct ExchangeSpec : Summation {
  explicit ExchangeSpec(Summation sums = {}) : Summation(std::move(sums)) {}

  size_t self = 0;
  size_t maxChunkBytes = 0;
  // For the path that takes the place of a lane to a lost server (recovery.h): for each of its first chunks, a machine
  // that has the sum of the chunk. This machine brings the sum in place of its contribution.
  std::vector<size_t> sumHolders;
  bool replacesLane = false;
  trace::ChunkRecorder recorder{};
};

class ExchangePath {
 public:
  // Takes the connections of the exchange path from `connections`, which has one entry per machine.
  static Result<std::unique_ptr<ExchangePath>> create(ChunkBuffers& buffers, ExchangeSpec spec,
                                                      std::vector<net::PeerConnections>& connections);

  // Submits all chunks of a call. Sends the first chunk immediately, because all other machines wait
  // for it.
  void submit(Collective& call);
  // Submits one chunk, or the sum of a chunk that is already retired here.
  void submit(SubmittedChunk chunk) { waiting_.push_back({chunk, nullptr}); }
  void submit(KeptSum sum) { waiting_.push_back({{}, std::make_unique<KeptSum>(std::move(sum))}); }
  // The oldest chunk that is not retired and was not submitted as a sum.
  std::optional<SubmittedChunk> oldest() const;
  // Tells the exchange path of a call on the lanes, whose rounds are below `endRound`.
  void submittedToLanes(const CallInfo& call, uint64_t endRound) { onLanes_.push_back({call, endRound}); }

  // Makes one step without blocking and returns whether anything moved. Calls on the lanes whose
  // rounds are below `oldestRound` have ended. If a connection broke, step() fails once, and
  // failedMachine() is the peer of this connection. The other connections still move. After any
  // other failure nothing moves.
  Result<bool> step(uint64_t oldestRound);
  std::optional<size_t> failedMachine() const { return failedMachine_; }

  // True if every submitted chunk is summed, and the transport has accepted all data for peers.
  bool idle() const;
  // If no chunk has been summed for waitReportTime, returns the oldest call and the machine whose data
  // it waits for. Call this function regularly.
  std::optional<EndpointWait> checkWait();
  // Adds what the chunks in flight still need.
  void addPeerWaits(std::vector<PeerWait>& waits) const;
  void forEachComm(const std::function<void(net::Comm&)>& use);

 private:
  struct Step {
    size_t distance = 0;  // 2^s
    std::unique_ptr<ExchangeSender> out;
    std::unique_ptr<ExchangeReceiver> in;
    uint64_t accepted = 0;
    bool outReported = false, inReported = false;  // step() has returned the failure of the connection
  };
  struct Submitted {
    SubmittedChunk chunk;
    std::unique_ptr<KeptSum> sum;  // null for a chunk
  };
  struct InFlight {
    Submitted chunk{};
    ChunkView view;
    ExchangeBlock own;
    bool copied = false;  // the transport does not read the contribution
  };
  struct CallOnLanes {
    CallInfo call;
    uint64_t endRound;
  };
  struct Count {  // of chunks
    uint64_t admitted = 0, summed = 0, retired = 0;
  };
  struct WaitCheck {
    uint64_t summed = 0;  // number of summed chunks when checkWait() last saw it change
    std::optional<Deadline::Clock::time_point> since;
  };

  ExchangePath(ChunkBuffers& buffers, ExchangeSpec spec);
  size_t machineAt(size_t distance) const { return (spec_.self + distance) % spec_.machines; }
  size_t machineBehind(size_t distance) const { return machineAt(spec_.machines - distance); }
  const InFlight& flight(uint64_t chunk) const { return inFlight_[chunk % inFlight_.size()]; }
  InFlight& flight(uint64_t chunk) { return inFlight_[chunk % inFlight_.size()]; }
  bool contributionSent(uint64_t chunk) { return flight(chunk).copied || steps_[0].out->done() > chunk; }
  bool mayAdmit() const;
  void admit();
  Result<bool> move();
  Status send(Step& step);
  Result<bool> accept(Step& step);
  Result<bool> mayAccept(const ExchangeBlock& block, size_t machine, uint64_t chunk);
  Status checkNotOnLanes(const ExchangeBlock& block, size_t machine) const;
  Status compare(const Contribution& own, const ExchangeBlock& block, size_t machine) const;
  bool sumNext();
  bool retireNext();
  Status takeFailure();
  size_t awaitedMachine() const;
  void record(trace::Stage stage, uint64_t chunk) const;
  ChunkView viewOf(const Submitted& chunk) const;
  const ExchangeBlock& blockOf(size_t machine, uint64_t chunk) const;

  ChunkBuffers& buffers_;
  const ExchangeSpec spec_;
  std::vector<Step> steps_;
  std::deque<Submitted> waiting_;
  std::vector<InFlight> inFlight_;   // the slots of the chunks that are admitted and not retired
  std::deque<CallOnLanes> onLanes_;  // calls on the lanes that may not have ended
  Count count_;
  std::vector<Contribution> round_;  // by machine
  RoundSum sum_;
  WaitCheck waitCheck_;
  Status failure_;  // a failure of move(), after which nothing moves
  std::optional<size_t> failedMachine_;
};

}  // namespace bps
