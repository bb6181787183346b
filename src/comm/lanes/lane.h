// Lane: carries this machine's chunks to one owner and the sums back. The lane keeps the order of
// the chunks and never blocks. Only the holder of the progress lock (progress_engine.h) uses a
// lane.
//
//   submitted >= admitted >= sent >= retired;   admitted >= answered >= retired
//   admitted - retired <= window of the call <= depth
//
// The lanes of a data plane stay in step: a lane admits a chunk of round r of a call only after
// every lane has retired the chunk that it has in round r - window of this call. Without this rule,
// a lane with a short way would run ahead and finish early. The other lanes would then be left with
// a part of the NIC, because TCP divides a NIC by connection and not by share.
//
// A contribution stays intact until its sum has arrived completely: the lane receives the answer to
// an in-place call into memory of the lane and then copies it into the buffer. So the number of
// retired chunks alone tells what a lane has completed.
//
// A lane to a server keeps the sums of the last `depth` retired chunks. If the server is lost, some
// machines may have retired a chunk that others have not: at most `depth` chunks, because a machine
// contributes to a chunk only after it has retired the chunk `depth` before it. See recovery.h.
#pragma once
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/status.h"
#include "src/comm/call/chunk_buffers.h"
#include "src/comm/lanes/lane_remains.h"
#include "src/comm/lanes/slot_ring.h"
#include "src/net/mesh.h"
#include "src/net/message_queue.h"
#include "src/service/chunk_service.h"
#include "src/service/peer_wait.h"
#include "src/trace/recorder.h"

namespace bps {

class Lane {
 public:
  explicit Lane(ChunkBuffers& buffers) : buffers_(buffers) {}
  virtual ~Lane() = default;
  void submit(Collective& call, size_t index) { waiting_.push_back({&call, index}); }
  // Returns whether anything moved. `oldestRound` is the least oldestRound() of the data plane's
  // lanes.
  virtual Result<bool> step(uint64_t oldestRound) = 0;
  static constexpr uint64_t kNoRound = UINT64_MAX;
  // The round of the oldest chunk that is not retired, numbered as Collective::firstRound.
  virtual uint64_t oldestRound() const { return waiting_.empty() ? kNoRound : roundOf(waiting_.front()); }
  // True if every submitted chunk has been sent and answered.
  virtual bool idle() const = 0;
  virtual void forEachComm(const std::function<void(net::Comm&)>&) {}
  // If no chunk has been retired for `timeout`, returns the call number of the oldest chunk in
  // flight. Call this function regularly.
  virtual std::optional<uint64_t> checkWait(std::chrono::milliseconds) { return {}; }
  // The work of the lane in calls with many rounds. Shorter calls do not count: few of their rounds wait for an owner.
  struct Work {
    std::chrono::duration<double> busy{};  // how long it had chunks in flight
    uint64_t bytes = 0;                    // of retired chunks
  };
  virtual Work work() const { return {}; }
  // Adds what the chunks in flight still need from the owner with this name.
  virtual void addPeerWaits(const std::string&, std::vector<PeerWait>&) const {}
  // Ends a lane whose owner is lost. Afterwards the lane may only be destroyed. Only a lane to another
  // machine whose chunks are all in host memory leaves anything.
  virtual std::optional<LaneRemains> takeRemains() { return {}; }
  // After a failure of step() on the lane to `owner`, the endpoint whose connection broke; empty after
  // any other failure.
  virtual std::optional<size_t> failedEndpoint(size_t owner) const { return owner; }
  // The endpoint whose data the lane to `owner` awaits.
  virtual size_t awaitedEndpoint(size_t owner) const { return owner; }
  // Registers a region of GPU memory, so that the lane can carry chunks in this region. Fails if
  // the lane cannot carry chunks in GPU memory or cannot access the region before the deadline. A
  // failure leaves the lane unchanged.
  virtual Status registerGpuRegion(const net::GpuRegion& region, const net::GpuRegistrationModes& deviceModes,
                                   Deadline deadline);
  virtual bool carriesGpuMemory() const { return false; }

 protected:
  using Submitted = SubmittedChunk;
  ChunkRef& chunkRefOf(const Submitted& chunk) const { return chunk.call->chunks[chunk.index]; }
  uint64_t roundOf(const Submitted& chunk) const { return chunk.call->firstRound + chunkRefOf(chunk).round; }
  bool nextReady() const { return !waiting_.empty() && buffers_.ready(*waiting_.front().call, waiting_.front().index); }

  ChunkBuffers& buffers_;
  std::deque<Submitted> waiting_;
};

// A lane to an owner on another machine.
class RemoteLane final : public Lane {
 public:
  struct Shape {
    size_t depth = 0, maxChunkBytes = 0;
    bool checksum = false;   // chunks and answers carry checksums
    bool keepsSums = false;  // true for a lane to a server
    trace::ChunkRecorder recorder{};
    size_t headerBytes = kDataHeaderBytes;
  };
  static Result<std::unique_ptr<Lane>> create(ChunkBuffers& buffers, const Shape& shape,
                                              net::PeerConnections connections);
  Result<bool> step(uint64_t oldestRound) override;
  uint64_t oldestRound() const override { return inFlight_.empty() ? Lane::oldestRound() : inFlight_.front().round; }
  bool idle() const override { return waiting_.empty() && count_.admitted == count_.retired; }
  void forEachComm(const std::function<void(net::Comm&)>& use) override;
  std::optional<uint64_t> checkWait(std::chrono::milliseconds timeout) override;
  void addPeerWaits(const std::string& owner, std::vector<PeerWait>& waits) const override;
  Status registerGpuRegion(const net::GpuRegion& region, const net::GpuRegistrationModes& deviceModes,
                           Deadline deadline) override;
  bool carriesGpuMemory() const override { return gpu_.send != nullptr && gpu_.recv != nullptr; }
  Work work() const override;
  std::optional<LaneRemains> takeRemains() override;

 private:
  struct Kept {  // a kept sum, in slot number % slots of answers_
    CallInfo call;
    size_t bytes = 0;
  };
  struct InFlight {
    Submitted chunk;
    uint64_t round = 0;
    ChunkView view;
    void *sendMemory = nullptr, *recvMemory = nullptr;  // memory registrations that only this chunk uses
    net::Request flush;
    bool flushed = false;
  };
  struct Count {  // of chunks
    uint64_t admitted = 0, retired = 0;
    uint64_t receivesPosted = 0, answered = 0;
    uint64_t recordedPushed = 0, recordedReceived = 0;  // events that are recorded
  };
  struct WaitCheck {
    uint64_t retired = 0;                   // number of retired chunks when checkWait() last saw it change
    Deadline deadline = Deadline::never();  // Deadline::never() if no chunk waits
  };
  struct Busy {
    Work before;                                                 // without the time since `since`
    std::optional<std::chrono::steady_clock::time_point> since;  // empty while the lane is not busy
  };
  struct Times {
    WaitCheck wait;
    Busy busy;
  };
  struct GpuRegistrations {
    void *send = nullptr, *recv = nullptr;
  };
  RemoteLane(ChunkBuffers& buffers, const Shape& shape, net::PeerConnections connections);
  Status prepare();
  Status registerGpuReceive(const net::GpuRegion& region, const net::GpuRegistrationModes& modes, Deadline deadline);
  Result<bool> tryFlush(const net::GpuRegion& region, Deadline deadline);
  bool mayAdmit(uint64_t oldestRound) const;
  Status admit();
  void pushHeader(const InFlight& flight);
  Status pushPayload(InFlight& flight);
  Status postAnswerReceives(InFlight& flight);
  Result<bool> canRetire();
  Result<bool> isVisible(InFlight& flight);
  Status retire();
  Status consumeAnswer(const InFlight& flight);
  void keepAnswer(const InFlight& flight, const ParamClock& clock, const uint8_t* answer) const;
  Result<bool> move(uint64_t oldestRound);
  void record(trace::Stage stage, const InFlight& flight, uint64_t chunk) const {
    shape_.recorder.add(stage, flight.view.call.number, chunk, flight.view.bytes);
  }
  // Records the chunks that the transport has sent or received since the last call.
  void recordTransfers();

  const Shape shape_;
  SlotRing pushHeaders_, answerHeaders_;
  SlotRing answers_;  // answers to in-place calls, and kept sums
  net::MessageQueue pushQueue_, answerQueue_;
  GpuRegistrations gpu_;
  std::deque<InFlight> inFlight_;
  std::deque<Kept> kept_;  // of the last chunks that are retired
  Count count_;
  Times times_;
  Status failure_;  // failure of admit() or retire(), after which nothing moves
};

// The lane to the service in this process.
class LocalLane final : public Lane {
 public:
  LocalLane(ChunkBuffers& buffers, ChunkService& service, const trace::ChunkRecorder& recorder = {})
      : Lane(buffers), service_(service), recorder_(recorder) {}
  Result<bool> step(uint64_t oldestRound) override;
  uint64_t oldestRound() const override {
    return inService_.empty() ? Lane::oldestRound() : roundOf(inService_.front());
  }
  bool idle() const override { return waiting_.empty() && inService_.empty(); }

 private:
  void record(trace::Stage stage, const Submitted& chunk, uint64_t number) const {
    recorder_.add(stage, chunk.call->call.number, number, chunkRefOf(chunk).bytes);
  }

  ChunkService& service_;
  const trace::ChunkRecorder recorder_;
  std::deque<Submitted> inService_;
  uint64_t offered_ = 0, retired_ = 0;
};

}  // namespace bps
