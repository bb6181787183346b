#include "src/base/io/wire_io.h"

#include "src/base/format.h"

namespace bps {

Status WireReader::finish(const char* what) const {
  if (truncated_) return failure(Code::kRemote, "{}: message is truncated", what);
  if (!rest_.empty()) return failure(Code::kRemote, "{}: message has trailing bytes", what);
  return {};
}

}  // namespace bps
