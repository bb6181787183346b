// SendComm: the sending end of a connection over sockets. post() only queues; test() and arm() send the frames and
// payloads of many queued messages in one system call.
//
// With several sockets, each takes the next slice whenever it can send, so a slow socket takes fewer. Small messages
// are never divided.
#pragma once
#include <sys/uio.h>

#include <array>

#include "net_plugin/stream/socket_comm.h"

namespace bps::plugin::stream {

// Returns the slice size for a message: the size of the whole message if it is not divided.
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
  // With a reverse direction, EOF from the peer only means that its sending end is closed; it may still receive.
  void onReversed() override { ignoreHangups(); }

 private:
  // The first byte that is not assigned to a socket yet.
  struct Cursor {
    uint64_t number = 0;
    size_t offset = 0;

    void advance(const Slice& slice);
  };
  struct SliceWriter {
    Slice slice;      // the slice that the socket has sent in part, if busy
    size_t sent = 0;  // bytes sent of the frame and the slice
    bool busy = false;
    bool full = false;  // the socket buffer was full at the last attempt
  };
  // The data of one system call: up to kSlices slices with their frames.
  struct Batch {
    static constexpr size_t kSlices = 32;
    static constexpr size_t kMaxCopiedBytes = 1024;  // batches up to this size are copied into one buffer
    std::array<FrameBytes, kSlices> frames;
    std::array<iovec, 2 * kSlices> pieces;
    size_t count = 0, pieceCount = 0;
    size_t bytes = 0;

    // Adds the frame and the slice without their first `skip` bytes, and at most `most` bytes of the slice.
    void add(const Slice& slice, uint8_t* message, size_t skip, size_t most);
    // Returns the same as send().
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
