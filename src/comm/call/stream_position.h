// StreamPosition: the place of a call in a host stream (host_stream.h) or in a CUDA stream
// (cuda/staging/cuda_backend.h). Any thread.
#pragma once
#include "src/base/status.h"

namespace bps {

class StreamPosition {
 public:
  virtual ~StreamPosition() = default;
  // True if the stream has reached the call.
  virtual bool mayStart() const = 0;
  // Called when the stream has reached the call and the call starts. Called once, unless the call fails before.
  virtual void start() {}
  // Tells the stream that the call has ended, so that the stream continues. Called once.
  virtual void complete(const Status& outcome) = 0;
};

}  // namespace bps
