// RecvComm: the receiving end of a connection over sockets. A slice goes to the receive of its message's number; one
// whose receive is not posted yet waits in its socket, and with it what is behind it there.
//
// That cannot block for ever: on every socket the numbers only rise, so nothing that a posted receive needs is ever
// behind a slice of a later message.
#pragma once
#include "net_plugin/stream/slice_reader.h"
#include "net_plugin/stream/socket_comm.h"
#include "src/base/deadline.h"

namespace bps::plugin::stream {

class RecvComm final : public SocketComm {
 public:
  explicit RecvComm(std::vector<UniqueFd> sockets, PeerTimeout peerTimeout = kDefaultPeerTimeout);

 protected:
  Status progress() override;
  Status flush() override;
  Interest::Event prepareSleep(size_t index) override;
  Status onHangup(size_t index) override;
  std::unique_ptr<SocketComm> reversed(std::vector<UniqueFd> sockets) const override;
  bool hasUnreceivedData(size_t index) const override { return !readers_[index].isBetweenSlices(); }

 private:
  // What a socket has brought goes where it belongs, as far as receives are posted.
  Status consumeReadAhead(SliceReader& reader);
  // The slice in the inlet gets its place. kPending: there is no receive for it yet.
  Result<Progress> assignDestination(SliceReader& reader);
  Status checkSlice(const Slice& slice);
  // False: no more for now.
  Result<bool> readSome(size_t index, size_t& moved);
  Status readAll();
  Status onSocketEnd(size_t index);
  Status checkClosedSockets();
  bool canRead(const SliceReader& reader) const { return !reader.ended() && !reader.needsDestination(); }

  std::vector<SliceReader> readers_;
  std::vector<size_t> wakeBytes_;  // of each socket, as the kernel has it
  size_t next_ = 0;                // the socket that is asked first
  size_t closedSockets_ = 0;       // sockets that the peer has closed
  // The sockets have just been emptied, for messages that the caller now takes: no need to ask again behind the last.
  bool allDrained_ = false;
  Deadline otherSocketsDeadline_ = Deadline::never();  // the other sockets must say something by then
};

}  // namespace bps::plugin::stream
