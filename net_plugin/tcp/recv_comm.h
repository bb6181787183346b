// RecvComm: the receiving end of a TCP connection. A small read-ahead buffer takes frames and small messages, many per
// system call; the rest of a large message goes from the socket straight into its receive's buffer.
#pragma once
#include <array>

#include "net_plugin/tcp/socket_comm.h"
#include "net_plugin/tcp/wire.h"

namespace bps::plugin::tcp {

class RecvComm final : public SocketComm {
 public:
  using SocketComm::SocketComm;

 protected:
  Status progress() override;
  Status flush() override { return takeAhead(); }
  Interest::For prepareSleep() override;
  bool hasUnclaimed() const override { return aheadBegin_ < aheadEnd_; }

 private:
  static constexpr size_t kAheadBytes = size_t{16} << 10;
  // Inside a large message the sleep ends when this much has come, not at every segment.
  static constexpr size_t kWakeBytes = size_t{256} << 10;

  struct Read {
    size_t bytes = 0;
    bool full = false;  // false: the socket is empty now
  };

  // Completes what can be completed from the read-ahead buffer.
  Status takeAhead();
  Status takeFrame();
  // One recvmsg of at most about `most` bytes.
  Result<Read> readSocket(size_t most);
  Status endOfStream() const;

  std::array<uint8_t, kAheadBytes> ahead_;
  size_t aheadBegin_ = 0, aheadEnd_ = 0;
  bool inMessage_ = false;  // the front message's frame has been taken, so its size is known
  size_t messageBytes_ = 0, messageGot_ = 0;
  size_t wakeBytes_ = 1;  // as the kernel has it
};

}  // namespace bps::plugin::tcp
