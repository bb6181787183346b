// ControlSocket: frames over one TCP connection. Never blocks: output is queued, input is read as it arrives.
//
// Checks the sequence number, the protocol version and, once known, the job id of every received frame. After the
// handshake it also authenticates every frame. If a peer stops reading, the queue grows by heartbeats only; the owner
// detects the peer's silence. Belongs to one thread.
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
  // `first` is the number of the first frame in either direction; only tests use another number than 0.
  explicit ControlSocket(UniqueFd fd, uint32_t first = 0);
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& peer() const { return peer_; }  // address, for messages
  uint64_t job() const { return job_; }
  void setJob(uint64_t job) { job_ = job; }  // for all later frames

  // Covers the frames up to seal().
  const Transcript& transcript() const { return transcript_; }
  // The handshake is over: from now on all frames in both directions are sealed, and may be long.
  void seal(const SessionKeys& keys, HandshakeSide mine);
  // After seal(): a larger frame from the peer is an error.
  void limitFrames(size_t bytes) { reader_.setLimit(bytes + kFrameTagBytes); }

  void queue(MessageType type, const Blob& payload = {});
  template <ControlMessage T>
  void queue(const T& message) {
    queue(T::kType, encode(message));
  }
  // Writes as much as the kernel accepts; done when nothing is left.
  Result<Progress> flush();
  bool wantsWrite() const { return written_ < out_.size(); }

  // Returns the next frame, or nothing yet. At the end of the connection it fails with "connection closed" or the
  // system's reason. A failure is final.
  Result<std::optional<Frame>> read();
  enum class End {
    kNone,
    kBroken,    // the connection failed
    kForged,    // a frame failed authentication
    kProtocol,  // the peer broke the protocol
  };
  // The cause of the failure of read() or flush().
  End end() const { return end_; }
  bool broken() const { return end_ == End::kBroken; }
  // Sends no more. The peer sees the end of the stream after the flushed output.
  void shutdownWrite();
  // Discards input; done at the peer's end of stream.
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
  uint64_t sent_, received_;  // the numbers of the next frames
  FrameReader reader_;
  Blob out_;
  size_t written_ = 0;
  Transcript transcript_;
  std::optional<Seal> seal_;
  End end_ = End::kNone;
};

}  // namespace bps
