// SendComm: the sending end of a connection over sockets. Posting only queues; the next test() or arm() sends
// everything queued, headers and payloads of many messages, in one system call.
//
// Of several sockets each takes the next slice whenever it can send, so a slow one takes fewer. Small messages are
// never cut.
#pragma once
#include <sys/uio.h>

#include <array>

#include "net_plugin/stream/socket_comm.h"

namespace bps::plugin::stream {

// How a message is cut for a number of sockets: the size of a slice of it; all of it when it is not cut.
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
  // What the peer sends ends when its sending end is closed: that says nothing of what it receives.
  void onReversed() override { ignoreHangups(); }

 private:
  // The first byte that no socket has taken yet.
  struct Cursor {
    uint64_t number = 0;
    size_t offset = 0;

    void advance(const Slice& slice);
  };
  struct SliceWriter {
    Slice slice;      // what the socket has begun and not sent whole, if busy
    size_t sent = 0;  // of it, with its frame
    bool busy = false;
    bool full = false;  // took no more at the last attempt
  };
  // One system call of at most kSlices slices.
  struct Batch {
    static constexpr size_t kSlices = 32;
    static constexpr size_t kMaxCopiedBytes = 1024;  // bytes at most
    std::array<FrameBytes, kSlices> frames;
    std::array<iovec, 2 * kSlices> pieces;
    size_t count = 0, pieceCount = 0;
    size_t bytes = 0;

    // All but its first `skip` bytes, and no more than about `most`.
    void add(const Slice& slice, uint8_t* message, size_t skip, size_t most);
    // As send().
    ssize_t sendOn(int socket);

   private:
    void addPiece(void* data, size_t length);
  };

  bool hasUnassigned() const { return cursor_.number < requests().end(); }
  bool hasWork(const SliceWriter& writer) const { return writer.busy || hasUnassigned(); }
  Slice sliceAt(const Cursor& at);
  void fill(Batch& batch, const SliceWriter& writer, size_t most);
  // What the socket has taken, slice after slice as fill() found them.
  void commitSent(SliceWriter& writer, size_t sent);
  // One system call. Returns the bytes sent.
  Result<size_t> sendSome(size_t index, size_t most);
  Status sendAll();

  std::vector<SliceWriter> writers_;
  Cursor cursor_;
};

}  // namespace bps::plugin::stream
