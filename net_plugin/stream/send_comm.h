// SendComm: the sending end of a connection over sockets. post() only queues a message. test() and
// arm() send the frames and the data of many queued messages in one system call.
//
// If a connection has several sockets, a socket takes the next slice whenever it can send. A slow
// socket therefore takes fewer slices. Small messages are never divided.
#pragma once
#include <sys/uio.h>

#include <array>

#include "net_plugin/stream/socket_comm.h"

namespace bps::plugin::stream {

// Returns the size of the slices into which a message is divided. A message that is not divided has
// one slice of `messageBytes`.
size_t sliceBytesOf(size_t messageBytes, size_t sockets);

class SendComm final : public SocketComm {
 public:
  explicit SendComm(std::vector<UniqueFd> sockets, PeerTimeout peerTimeout = kDefaultPeerTimeout);
  ~SendComm() override;

 protected:
  Status progress() override;
  Status flush() override;
  Interest::Event prepareSleep(size_t index) override;
  Status onHangup(size_t) override { return peerClosed(); }
  std::unique_ptr<SocketComm> reversed(std::vector<UniqueFd> sockets) const override;
  // If the connection has a reverse direction, EOF only means that the peer has closed its sending
  // end. The peer may still receive.
  void onReversed() override { ignoreHangups(); }

 private:
  // The position of the first byte that is not assigned to a socket yet.
  struct Cursor {
    uint64_t number = 0;
    size_t offset = 0;

    void advance(const Slice& slice);
  };
  struct SliceWriter {
    Slice slice;      // the slice that the socket has sent in part (if busy)
    size_t sent = 0;  // bytes of the frame and the slice that were sent
    bool busy = false;
    bool full = false;  // the socket buffer was full at the last attempt
  };
  // The data that one system call sends: up to kSlices slices with their frames.
  struct Batch {
    static constexpr size_t kSlices = 32;
    static constexpr size_t kMaxCopiedBytes = 1024;  // batches up to this size are copied into one buffer
    std::array<FrameBytes, kSlices> frames;
    std::array<iovec, 2 * kSlices> pieces;
    size_t count = 0, pieceCount = 0;
    size_t bytes = 0;

    // Adds the frame and the data of a slice, without their first `skip` bytes. Adds at most `most`
    // bytes of the data.
    void add(const Slice& slice, uint8_t* message, size_t skip, size_t most);
    // Sends the batch on a socket. Returns what send() or sendmsg() returns.
    ssize_t sendOn(int socket);

   private:
    void addPiece(void* data, size_t length);
  };

  bool hasUnassigned() const { return cursor_.number < requests().end(); }
  bool hasWork(const SliceWriter& writer) const { return writer.busy || hasUnassigned(); }
  Slice sliceAt(const Cursor& at);
  void fill(Batch& batch, const SliceWriter& writer, size_t most);
  // Records that the socket has sent `sent` bytes of the batch that fill() made.
  void commitSent(SliceWriter& writer, size_t sent);
  // Makes one system call. Returns the number of bytes sent.
  Result<size_t> sendSome(size_t index, size_t most);
  Status sendAll();

  std::vector<SliceWriter> writers_;
  Cursor cursor_;
};

}  // namespace bps::plugin::stream
