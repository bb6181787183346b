// StreamPosition: a call's place in a stream, of the host (host_stream.h) or of CUDA (cuda/cuda_backend.h).
#pragma once
#include "src/base/status.h"

namespace bps {

class StreamPosition {
 public:
  virtual ~StreamPosition() = default;
  // The stream has come to the call.
  virtual bool mayStart() const = 0;
  // The call has ended: the stream goes on. Once.
  virtual void complete(const Status& outcome) = 0;
};

}  // namespace bps
