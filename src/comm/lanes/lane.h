// Lane: carries this machine's chunks to one owner and the sums back. It keeps the order of the chunks and never
// blocks. Only the holder of the progress lock (progress_engine.h) uses it.
//
//   submitted >= admitted >= sent, answered >= retired;   admitted - retired <= depth
//
// The depth is the owner's window; a call may ask for less. A round has bytes for every owner in proportion to its
// share, and the window is about the same number of rounds for all owners. So the bytes in flight are in proportion to
// the shares, too (docs/the-bound.md discusses larger windows).
//
// A contribution stays intact until its sum has arrived whole: the answer to an in-place call is received beside the
// buffer and then copied. So retired() alone says what a lane has completed.
//
// A chunk on the exchange path gets no answer: it is retired once it is sent. Its call completes, and its sum replaces
// its contribution, only after every lane has sent it. Small chunks are copied instead, so that nothing waits for
// them. So is the only chunk of an in-place call, because its sum would have nothing else to wait for.
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
#include "src/comm/lanes/slot_ring.h"
#include "src/net/mesh.h"
#include "src/net/message_queue.h"
#include "src/service/sum_service.h"

namespace bps {

class Lane {
 public:
  explicit Lane(ChunkBuffers& buffers) : buffers_(buffers) {}
  virtual ~Lane() = default;
  void submit(Collective& call, size_t index) { waiting_.push_back({&call, index}); }
  // Returns whether anything moved.
  virtual Result<bool> step() = 0;
  // True if every submitted chunk has been sent and answered.
  virtual bool idle() const = 0;
  virtual void forEachComm(const std::function<void(net::Comm&)>&) {}
  // Returns the number of the call of the oldest chunk in flight if no chunk has been retired for `timeout`. Call it
  // regularly.
  virtual std::optional<uint64_t> checkWait(std::chrono::milliseconds) { return {}; }
  // From now on chunks may be in this region. Fails, and leaves the lane unchanged, if the lane cannot carry chunks in
  // GPU memory or cannot reach the region before the deadline.
  virtual Status registerGpuRegion(const net::GpuRegion& region, const net::GpuRegistrationModes& deviceModes,
                                   Deadline deadline);

 protected:
  struct Submitted {
    Collective* call;
    size_t index;
  };
  ChunkRef& chunkRefOf(const Submitted& chunk) const { return chunk.call->chunks[chunk.index]; }
  bool nextReady() const { return !waiting_.empty() && buffers_.ready(*waiting_.front().call, waiting_.front().index); }

  ChunkBuffers& buffers_;
  std::deque<Submitted> waiting_;
};

// A lane to an owner on another machine.
class RemoteLane final : public Lane {
 public:
  struct Shape {
    size_t depth = 0, maxChunkBytes = 0;
    bool checksum = false;  // chunks and answers carry checksums
  };
  static Result<std::unique_ptr<Lane>> create(ChunkBuffers& buffers, const Shape& shape,
                                              net::PeerConnections connections);
  Result<bool> step() override;
  bool idle() const override { return waiting_.empty() && count_.admitted == count_.retired; }
  void forEachComm(const std::function<void(net::Comm&)>& use) override;
  std::optional<uint64_t> checkWait(std::chrono::milliseconds timeout) override;
  Status registerGpuRegion(const net::GpuRegion& region, const net::GpuRegistrationModes& deviceModes,
                           Deadline deadline) override;

 private:
  struct InFlight {
    Submitted chunk;  // not valid if copied: the call may have ended
    bool usesExchangePath = false, copied = false;
    ChunkView view;
    void *sendMemory = nullptr, *recvMemory = nullptr;  // registrations of this chunk alone
    net::Request flush;
    bool flushed = false;
  };
  struct Count {  // of chunks
    uint64_t admitted = 0, retired = 0;
    uint64_t receivesPosted = 0, answered = 0;
  };
  struct WaitCheck {
    uint64_t retired = 0;                   // when checkWait() last saw it change
    Deadline deadline = Deadline::never();  // never: nothing waits
  };
  struct GpuRegistrations {
    void *send = nullptr, *recv = nullptr;
  };
  RemoteLane(ChunkBuffers& buffers, const Shape& shape, net::PeerConnections connections);
  Status prepare();
  Status registerGpuReceive(const net::GpuRegion& region, const net::GpuRegistrationModes& modes, Deadline deadline);
  Result<bool> tryFlush(const net::GpuRegion& region, Deadline deadline);
  bool mayAdmit() const;
  Status admit();
  void pushHeader(const InFlight& flight);
  Status pushPayload(InFlight& flight);
  Status postAnswerReceives(InFlight& flight);
  Result<bool> canRetire();
  Result<bool> isVisible(InFlight& flight);
  Status retire();
  Status consumeAnswer(const InFlight& flight);
  Result<bool> move();

  const Shape shape_;
  SlotRing pushHeaders_, answerHeaders_;
  SlotRing answers_;  // to in-place calls
  SlotRing copies_;   // of contributions on the exchange path
  net::MessageQueue pushQueue_, answerQueue_;
  GpuRegistrations gpu_;
  std::deque<InFlight> inFlight_;
  Count count_;
  WaitCheck waitCheck_;
  Status failure_;  // of admit() or retire(): nothing moves after it
};

// The lane to the service of this process.
class LocalLane final : public Lane {
 public:
  LocalLane(ChunkBuffers& buffers, SumService& service) : Lane(buffers), service_(service) {}
  Result<bool> step() override;
  bool idle() const override { return waiting_.empty() && inService_.empty(); }

 private:
  SumService& service_;
  std::deque<Submitted> inService_;
  uint64_t retired_ = 0;
};

}  // namespace bps
