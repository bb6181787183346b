// RecvComm: the receiving end of a connection over sockets.
//
// A slice is received into the receive with its message's number. If that receive is not posted yet, the slice and all
// data after it stay in the socket. This cannot deadlock: the numbers on a socket only increase, so data for a posted
// receive never comes after a slice of a later message.
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
  // Moves read-ahead data into the posted receives.
  Status consumeReadAhead(SliceReader& reader);
  // Sets the destination of the reader's slice. kPending: the receive is not posted yet.
  Result<Progress> assignDestination(SliceReader& reader);
  Status checkSlice(const Slice& slice);
  // Returns false if the socket has no more data now.
  Result<bool> readSome(size_t index, size_t& moved);
  Status readAll();
  Status onSocketEnd(size_t index);
  Status checkClosedSockets();
  bool canRead(const SliceReader& reader) const { return !reader.ended() && !reader.needsDestination(); }

  std::vector<SliceReader> readers_;
  std::vector<size_t> wakeBytes_;  // the SO_RCVLOWAT of each socket
  size_t next_ = 0;                // the socket that is read first
  size_t closedSockets_ = 0;       // sockets that the peer has closed
  // All sockets were just found empty after messages completed. The next progress() then need not read them again.
  bool allDrained_ = false;
  Deadline otherSocketsDeadline_ = Deadline::never();  // by then the other sockets must receive data
};

}  // namespace bps::plugin::stream
