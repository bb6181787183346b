// Lane: the way of this machine's chunks to one owner and of their sums back, in order.
//
//   submitted >= admitted >= sent, answered >= retired;   admitted - retired <= depth
//
// A direct chunk gets no answer: it is retired when it is sent. Its call is not complete before every lane has sent it,
// nor is its sum written over it. Small ones are copied instead, as are those whose sum nothing else would be done
// before: the only one of an in-place call.
//
// The depth, or less where the call says so, is the owner's window: as a round has bytes for every owner in proportion
// to its share, and the window is about as many rounds for all, every owner has bytes in flight in proportion to its
// share (docs/measurements.md has what larger windows for small shares cost). A
// contribution stays intact until its sum has come whole: an answer to an in-place call is received beside the buffer
// and copied (so a later version can repeat a round after a server has died). What this rank has completed on a lane is
// one number, retired(). Belongs to who has the turn (progress_engine.h); never blocks.
#pragma once
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
#include "src/net/mesh.h"
#include "src/net/message_queue.h"
#include "src/service/sum_service.h"

namespace bps {

class Lane {
 public:
  explicit Lane(ChunkBuffers& buffers) : buffers_(buffers) {}
  virtual ~Lane() = default;
  void submit(Collective& call, size_t index) { waiting_.push_back({&call, index}); }
  // True when anything moved.
  virtual Result<bool> step() = 0;
  // Nothing that was submitted is still to be sent or answered.
  virtual bool idle() const = 0;
  virtual void forEachComm(const std::function<void(net::Comm&)>&) {}
  // The number of the call whose oldest chunk has been under way for the patience. Call now and then.
  virtual std::optional<uint64_t> checkWait(std::chrono::milliseconds) { return {}; }
  // Chunks may lie there from now on. Fails when the lane cannot take them, or does not reach them by the deadline, and
  // is as before.
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

// To an owner on another machine.
class RemoteLane final : public Lane {
 public:
  struct Shape {
    size_t depth = 0, maxChunkBytes = 0;
    bool checksum = false;  // every chunk has one, and every answer
  };
  static Result<std::unique_ptr<Lane>> create(ChunkBuffers& buffers, const Shape& shape,
                                              net::PeerConnections connections);
  Result<bool> step() override;
  bool idle() const override { return waiting_.empty() && admitted_ == retired_; }
  void forEachComm(const std::function<void(net::Comm&)>& use) override;
  std::optional<uint64_t> checkWait(std::chrono::milliseconds timeout) override;
  Status registerGpuRegion(const net::GpuRegion& region, const net::GpuRegistrationModes& deviceModes,
                           Deadline deadline) override;

 private:
  struct InFlight {
    Submitted chunk;  // of one that was copied: its call may have ended
    bool usesExchangePath, copied;
    ChunkView view;
    void *sendMemory, *recvMemory;
    net::Request flush;
    bool flushed;
  };
  RemoteLane(ChunkBuffers& buffers, const Shape& shape, net::PeerConnections connections);
  Status prepare();
  Status registerGpuReceive(const net::GpuRegion& region, const net::GpuRegistrationModes& modes, Deadline deadline);
  Result<bool> tryFlush(const net::GpuRegion& region, Deadline deadline);
  bool mayAdmit() const;
  Status admit();
  Status postAnswerReceives(InFlight& flight);
  Result<bool> canRetire();
  Result<bool> isVisible(InFlight& flight);
  Status retire();
  Status consumeAnswer(const InFlight& flight);
  Result<bool> move();
  uint8_t* stagingSlot(const PageBuffer& ring, uint64_t chunk) const {
    return ring.data() + chunk % shape_.depth * shape_.maxChunkBytes;
  }
  uint8_t* headerSlot(const PageBuffer& ring, uint64_t chunk) const {
    return ring.data() + chunk % shape_.depth * kDataHeaderBytes;
  }

  Shape shape_;
  // Before the connections, which touch them to their end.
  PageBuffer pushHeaders_, answerHeaders_;
  PageBuffer staging_, copies_;  // answers to in-place calls; contributions to direct calls
  net::MessageQueue pushes_, answers_;
  void *pushHeaderMemory_ = nullptr, *answerHeaderMemory_ = nullptr, *stagingMemory_ = nullptr;
  void* copiesMemory_ = nullptr;
  void *gpuSendMemory_ = nullptr, *gpuRecvMemory_ = nullptr;
  std::deque<InFlight> inFlight_;
  uint64_t admitted_ = 0, retired_ = 0;
  uint64_t expected_ = 0, answered_ = 0;       // answers: places posted, and taken
  uint64_t retiredAtLastCheck_ = 0;            // retired() when watch() last saw it change
  Deadline waitDeadline_ = Deadline::never();  // until then it need not
  Status failure_;                             // of admit() or retire(): nothing moves after it
};

// To the service in this very process.
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
