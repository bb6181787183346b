// SendComm: the sending end of a TCP connection. Posting only queues; the next test() or arm() sends everything queued,
// headers and payloads of many messages, in one system call.
#pragma once
#include <sys/uio.h>

#include <array>

#include "net_plugin/tcp/socket_comm.h"
#include "net_plugin/tcp/wire.h"

namespace bps::plugin::tcp {

class SendComm final : public SocketComm {
 public:
  using SocketComm::SocketComm;

 protected:
  Status progress() override;
  Status flush() override { return full_ ? Status() : progress(); }
  Interest::For prepareSleep() override { return Interest::For::kWriting; }

 private:
  // One sendmsg of at most kMessages messages and about `most` bytes.
  struct Batch {
    static constexpr size_t kMessages = 32;
    std::array<FrameBytes, kMessages> frames;
    std::array<iovec, 2 * kMessages> pieces;
    size_t count = 0;
    size_t bytes = 0;

    void add(void* data, size_t length);
  };

  void fill(Batch& batch, size_t most);
  void advance(size_t sent);

  size_t frontSent_ = 0;  // of the front message, with its frame
  bool full_ = false;     // the socket took no more at the last attempt: a sleep ends when it does again
};

}  // namespace bps::plugin::tcp
