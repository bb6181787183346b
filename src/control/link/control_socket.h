// ControlSocket: sends and receives frames over one TCP connection. A ControlSocket never blocks: it queues output and
// reads input when input has arrived.
//
// A ControlSocket checks the sequence number and the protocol version of every received frame, and the job id after the
// job id is known. After the handshake the ControlSocket also authenticates every frame. The output queue has no limit.
// Only one thread uses a ControlSocket.
#pragma once
#include <optional>
#include <string>

#include "src/base/io/fd.h"
#include "src/base/status.h"
#include "src/control/keys/seal.h"
#include "src/wire/control_messages.h"
#include "src/wire/frame.h"

namespace bps {

class ControlSocket {
 public:
  // `first` is the sequence number of the first frame in each direction. Only tests use a number other than 0.
  explicit ControlSocket(UniqueFd fd, uint32_t first = 0);
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& peer() const { return peer_; }  // address, for messages
  uint64_t job() const { return job_; }
  void setJob(uint64_t job) { job_ = job; }  // the job id of all later frames

  // The transcript covers all frames before seal().
  const Transcript& transcript() const { return transcript_; }
  // Call seal() at the end of the handshake. From then on the frames in both directions are sealed and may be up to
  // kMaxFrameBytes long.
  void seal(const SessionKeys& keys, HandshakeSide mine);
  // Call limitFrames() only after seal(). From then on it is an error if the peer sends a frame of more than `bytes`.
  void limitFrames(size_t bytes) { reader_.setLimit(bytes + kFrameTagBytes); }

  void queue(MessageType type, const Blob& payload = {});
  template <ControlMessage T>
  void queue(const T& message) {
    queue(T::kType, encode(message));
  }
  // Writes as much queued output as the kernel accepts. Returns kDone if no output is left.
  Result<Progress> flush();
  bool wantsWrite() const { return written_ < out_.size(); }

  // Returns the next frame, or nothing if the next frame has not arrived completely. When the connection ends, read()
  // fails with "connection closed" or with the system's reason. After a failure the connection cannot be used any more.
  Result<std::optional<Frame>> read();
  enum class End {
    kNone,
    kBroken,    // the connection failed
    kForged,    // a frame failed authentication
    kProtocol,  // the peer broke the protocol
  };
  // The reason why read() or flush() failed.
  End end() const { return end_; }
  bool broken() const { return end_ == End::kBroken; }
  // Ends the output stream. The peer sees the end of the stream after all flushed output.
  void shutdownWrite();
  // Discards input. Returns kDone after the peer has ended its output stream.
  Progress drain();

 private:
  Result<std::optional<Frame>> take(size_t count);
  Status lost(int error);
  Status forged();
  Status sequenceExhausted();
  Status accept(Frame& frame);
  Status check(const FrameHeader& header);

  UniqueFd fd_;
  std::string peer_;
  uint64_t job_ = 0;
  uint64_t sent_, received_;  // the sequence numbers of the next frames
  FrameReader reader_;
  Blob out_;
  size_t written_ = 0;
  Transcript transcript_;
  std::optional<Seal> seal_;
  End end_ = End::kNone;
};

}  // namespace bps
