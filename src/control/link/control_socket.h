// ControlSocket: frames over one TCP connection. Never blocks: output is queued, input is taken as it comes.
//
// Sequence numbers, the protocol version and, once it is known, the job id of incoming frames are checked here, and
// after the handshake that each frame is the peer's. A peer that stops reading makes the queue grow by heartbeats only;
// whoever owns the socket watches its silence. Belongs to one thread.
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
  // `first`: the number of the first frame in either direction; other than 0 for tests.
  explicit ControlSocket(UniqueFd fd, uint32_t first = 0);
  ControlSocket(const ControlSocket&) = delete;
  ControlSocket& operator=(const ControlSocket&) = delete;

  int fd() const { return fd_.get(); }
  const std::string& peer() const { return peer_; }  // address, for messages
  uint64_t job() const { return job_; }
  void setJob(uint64_t job) { job_ = job; }  // for all frames from now on

  // Of the frames up to seal().
  const Transcript& transcript() const { return transcript_; }
  // The handshake is over: all frames from now on are sealed, in both directions, and may be long.
  void seal(const SessionKeys& keys, HandshakeSide mine);
  // After seal(): a larger frame of the peer's is an error.
  void limitFrames(size_t bytes) { reader_.setLimit(bytes + kFrameTagBytes); }

  void queue(MessageType type, const Blob& payload = {});
  template <ControlMessage T>
  void queue(const T& message) {
    queue(T::kType, encode(message));
  }
  // Writes what the kernel takes: done when nothing is left.
  Result<Progress> flush();
  bool wantsWrite() const { return written_ < out_.size(); }

  // The next frame, or nothing yet. The connection's end is a failure with the text "connection closed" or the
  // system's reason; a failure is final.
  Result<std::optional<Frame>> read();
  enum class End {
    kNone,
    kBroken,    // the connection broke
    kForged,    // what came is not what the peer sent
    kProtocol,  // the peer broke the protocol
  };
  // What a failure of read() or flush() was.
  End end() const { return end_; }
  bool broken() const { return end_ == End::kBroken; }
  // Says that nothing more will be sent; the peer sees the end after what was flushed.
  void shutdownWrite();
  // Throws away what comes in; done at the peer's end.
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
