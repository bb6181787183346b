// RecvComm: the receiving end of a connection over sockets.
//
// A slice is received into the buffer of the receive that has the number of the slice's message. If
// that receive is not posted yet, the slice and all data after it stay in the socket. The wait
// cannot deadlock: message numbers on a socket never decrease, so data for a posted receive never
// comes after a slice of a later message.
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
  // Sets the destination of the reader's slice. Returns kPending if the receive for the slice is
  // not posted yet.
  Result<Progress> assignDestination(SliceReader& reader);
  Status checkSlice(const Slice& slice);
  // Reads from a socket and adds the bytes to `moved`. Returns false if the socket has no more data
  // now.
  Result<bool> readSome(size_t index, size_t& moved);
  Status readAll();
  Status onSocketEnd(size_t index);
  Status checkClosedSockets();
  bool canRead(const SliceReader& reader) const { return !reader.ended() && !reader.needsDestination(); }

  std::vector<SliceReader> readers_;
  std::vector<size_t> wakeBytes_;  // the SO_RCVLOWAT of each socket
  size_t next_ = 0;                // index of the socket that is read first
  size_t closedSockets_ = 0;       // number of sockets that the peer has closed
  // True if the last progress() completed messages and then found all sockets empty. The next
  // progress() then need not read the sockets again.
  bool allDrained_ = false;
  Deadline otherSocketsDeadline_ = Deadline::never();  // the other sockets must receive data by this time
};

}  // namespace bps::plugin::stream
