// Grouped receives on top of a plugin without them. A tag precedes each message. All progress happens in test().
#pragma once
#include "net_plugin/abi.h"

namespace bps::broken {

inline constexpr int kMaxGroupedReceives = 4;

int groupedSend(const abi::Net<12>& real, void* comm, void* data, size_t bytes, int tag, void** request);
int groupedReceive(const abi::Net<12>& real, void* comm, int n, void** data, size_t* sizes, int* tags, void** request);
// If `byTag` is false, the messages of a group fill its slots in order of arrival.
int groupedTest(const abi::Net<12>& real, bool byTag, void* request, int* done, int* sizes);

}  // namespace bps::broken
