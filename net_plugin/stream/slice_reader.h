// SliceReader: what one socket brings: slice after slice, each behind its frame. A small read-ahead buffer takes frames
// and small slices, many per system call; the rest of a large slice goes from the socket straight to its place.
#pragma once
#include <memory>

#include "net_plugin/stream/frame.h"

namespace bps::plugin::stream {

class SliceReader {
 public:
  struct Read {
    size_t bytes = 0;
    bool full = false;  // false: the socket is empty now
    int error = 0;
  };

  // Takes a frame from the read-ahead buffer, if one is there whole. Fails when it is none, or of a message before
  // `next`.
  Result<Progress> takeFrame(uint64_t next);
  // Between takeFrame() and the end of consumeReadAhead() there is a slice; it needs a place before its bytes are
  // taken.
  bool hasSlice() const { return state_ != State::kBetweenSlices; }
  bool needsDestination() const { return state_ == State::kNoDestination; }
  const Slice& slice() const { return slice_; }
  void setDestination(uint8_t* at);
  // Moves what was read ahead to its place. kDone: the slice is complete, and no longer there.
  Progress consumeReadAhead();
  // What is still to come of the slice that has its place.
  size_t rest() const { return state_ == State::kHasDestination ? slice_.bytes - got_ : 0; }
  // Nothing of a slice or a frame has come that is not complete.
  bool isBetweenSlices() const { return state_ == State::kBetweenSlices && begin_ == end_; }

  // One recvmsg of at most about `most` bytes; not while a slice needs its place, nor after the end.
  Read read(int socket, size_t most);
  bool ended() const { return ended_; }  // the peer will send no more
  void end() { ended_ = true; }

 private:
  static constexpr size_t kReadAheadBytes = size_t{17} << 10;  // a message of 16 KiB, with what goes before it
  static constexpr size_t kSmallReadAheadBytes = 64;           // two frames with a small message between them
  enum class State : uint8_t { kBetweenSlices, kNoDestination, kHasDestination };

  size_t room(size_t direct) const;

  std::unique_ptr<uint8_t[]> readAhead_ = std::make_unique_for_overwrite<uint8_t[]>(kReadAheadBytes);
  size_t begin_ = 0, end_ = 0;  // of what is in it
  State state_ = State::kBetweenSlices;
  bool ended_ = false;
  bool lastSliceWasLarge_ = false;  // the last slice that was no small message of its own
  Slice slice_;
  uint8_t* destination_ = nullptr;
  size_t got_ = 0;
};

}  // namespace bps::plugin::stream
