// NetCounters: what the connections of a Plugin have sent and received, for metrics (Plugin::countInto()).
#pragma once
#include "src/base/counter.h"

namespace bps::net {

struct NetCounters {
  Counter messagesSent, bytesSent;
  Counter bytesReceived;
};

}  // namespace bps::net
