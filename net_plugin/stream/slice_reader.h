// SliceReader: reads the frames and the slices from one socket. A SliceReader is used by one
// thread.
//
// A small read-ahead buffer receives frames and small slices, many of them in one system call. The
// rest of a large slice is received directly into its destination.
#pragma once
#include <memory>

#include "net_plugin/stream/frame.h"

namespace bps::plugin::stream {

class SliceReader {
 public:
  struct Read {
    size_t bytes = 0;
    bool full = false;  // the buffers were filled; if false, the socket is empty now
    int error = 0;
  };

  // Takes a frame from the read-ahead buffer. Returns kPending if the frame is not complete yet.
  // Fails if the frame is invalid or belongs to a message before message `next`.
  Result<Progress> takeFrame(uint64_t next);
  // The reader has a slice from a successful takeFrame() until consumeReadAhead() returns kDone.
  // The caller must set the destination of the slice before its bytes can be read.
  bool hasSlice() const { return state_ != State::kBetweenSlices; }
  bool needsDestination() const { return state_ == State::kNoDestination; }
  const Slice& slice() const { return slice_; }
  void setDestination(uint8_t* at);
  // Copies read-ahead bytes to the destination. Returns kDone if the slice is complete.
  Progress consumeReadAhead();
  // Returns the number of missing bytes of the slice, or 0 if no slice has a destination.
  size_t rest() const { return state_ == State::kHasDestination ? slice_.bytes - got_ : 0; }
  // Returns whether no byte has been received since the last complete slice.
  bool isBetweenSlices() const { return state_ == State::kBetweenSlices && begin_ == end_; }

  // Makes one system call that receives at most `most` bytes of the slice and some read-ahead. Do
  // not call read() while a slice needs a destination, or after the peer has closed the socket.
  Read read(int socket, size_t most);
  bool ended() const { return ended_; }  // the peer has closed the socket
  void end() { ended_ = true; }

 private:
  static constexpr size_t kReadAheadBytes = size_t{17} << 10;  // room for a message of 16 KiB, its header and frames
  static constexpr size_t kSmallReadAheadBytes = 64;           // room for two frames and a small message between them
  enum class State : uint8_t { kBetweenSlices, kNoDestination, kHasDestination };

  size_t room(size_t direct) const;

  std::unique_ptr<uint8_t[]> readAhead_ = std::make_unique_for_overwrite<uint8_t[]>(kReadAheadBytes);
  size_t begin_ = 0, end_ = 0;  // bounds of the unconsumed bytes in readAhead_
  State state_ = State::kBetweenSlices;
  bool ended_ = false;
  bool lastSliceWasLarge_ = false;  // slices up to kSmallReadAheadBytes do not count
  Slice slice_;
  uint8_t* destination_ = nullptr;
  size_t got_ = 0;
};

}  // namespace bps::plugin::stream
