// ControlSocket: frames over one TCP connection. Never blocks: output is queued, input is taken as it comes.
//
// Sequence numbers, the protocol version and, once it is known, the job id of incoming frames are checked here. A
// peer that stops reading makes the queue grow by heartbeats only; whoever owns the socket watches its silence.
// Belongs to one thread.
#pragma once
#include <optional>
#include <string>

#include "src/base/fd.h"
#include "src/base/status.h"
#include "src/wire/control_messages.h"
#include "src/wire/frame.h"

namespace bps {

class ControlSocket {
 public:
  explicit ControlSocket(UniqueFd fd);

  int fd() const { return fd_.get(); }
  const std::string& peer() const { return peer_; }  // address, for messages
  uint64_t job() const { return job_; }
  void setJob(uint64_t job) { job_ = job; }  // for all frames from now on
  void authenticated() { reader_.setLimit(kFrameBytes); }

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
  // After a failure of read() or flush(): the connection broke, rather than the peer breaking the protocol.
  bool broken() const { return broken_; }
  // Says that nothing more will be sent; the peer sees the end after what was flushed.
  void shutdownWrite();
  // Throws away what comes in; done at the peer's end.
  Progress drain();

 private:
  Status lost(int error);
  Status check(const FrameHeader& header);

  UniqueFd fd_;
  std::string peer_;
  uint64_t job_ = 0;
  uint32_t sent_ = 0, received_ = 0;
  FrameReader reader_;
  Blob out_;
  size_t written_ = 0;
  bool broken_ = false;
};

}  // namespace bps
