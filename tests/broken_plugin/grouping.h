// Grouped receives on top of a plugin that has none: before each message goes its tag. Everything moves in test().
#pragma once
#include "net_plugin/abi.h"

namespace bps::broken {

inline constexpr int kMaxGroupedReceives = 4;

int groupedSend(const abi::Net<12>& real, void* comm, void* data, size_t bytes, int tag, void** request);
int groupedReceive(const abi::Net<12>& real, void* comm, int n, void** data, size_t* sizes, int* tags, void** request);
// With `byTag` false the messages of a group go where they come, in order.
int groupedTest(const abi::Net<12>& real, bool byTag, void* request, int* done, int* sizes);

}  // namespace bps::broken
