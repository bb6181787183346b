// SliceReader: reads the slices of one socket, each preceded by its frame. Used by one thread.
//
// A small read-ahead buffer receives frames and small slices, many per system call. The rest of a large slice is
// received directly into its destination.
#pragma once
#include <memory>

#include "net_plugin/stream/frame.h"

namespace bps::plugin::stream {

class SliceReader {
 public:
  struct Read {
    size_t bytes = 0;
    bool full = false;  // the buffers were filled; false: the socket is empty now
    int error = 0;
  };

  // Takes a frame from the read-ahead buffer. kPending: the frame is not complete yet. Fails if the frame is invalid or
  // belongs to a message before `next`.
  Result<Progress> takeFrame(uint64_t next);
  // There is a slice from takeFrame() until consumeReadAhead() returns kDone. It needs a destination before its bytes
  // can be read.
  bool hasSlice() const { return state_ != State::kBetweenSlices; }
  bool needsDestination() const { return state_ == State::kNoDestination; }
  const Slice& slice() const { return slice_; }
  void setDestination(uint8_t* at);
  // Copies read-ahead bytes to the destination. kDone: the slice is complete.
  Progress consumeReadAhead();
  // The missing bytes of the slice, if it has a destination.
  size_t rest() const { return state_ == State::kHasDestination ? slice_.bytes - got_ : 0; }
  // Whether no part of a slice or frame has been received since the last complete slice.
  bool isBetweenSlices() const { return state_ == State::kBetweenSlices && begin_ == end_; }

  // Receives once, at most `most` bytes of the slice plus some read-ahead. Must not be called while a slice needs a
  // destination, nor after the end.
  Read read(int socket, size_t most);
  bool ended() const { return ended_; }  // the peer has closed the socket
  void end() { ended_ = true; }

 private:
  static constexpr size_t kReadAheadBytes = size_t{17} << 10;  // a message of 16 KiB with its header and frames
  static constexpr size_t kSmallReadAheadBytes = 64;           // two frames with a small message between them
  enum class State : uint8_t { kBetweenSlices, kNoDestination, kHasDestination };

  size_t room(size_t direct) const;

  std::unique_ptr<uint8_t[]> readAhead_ = std::make_unique_for_overwrite<uint8_t[]>(kReadAheadBytes);
  size_t begin_ = 0, end_ = 0;  // the unconsumed bytes in readAhead_
  State state_ = State::kBetweenSlices;
  bool ended_ = false;
  bool lastSliceWasLarge_ = false;  // slices up to kSmallReadAheadBytes do not count
  Slice slice_;
  uint8_t* destination_ = nullptr;
  size_t got_ = 0;
};

}  // namespace bps::plugin::stream
