// Adds grouped receives to a plugin that does not have them. A tag is sent before each message. All
// progress happens in groupedTest().
#pragma once
#include "net_plugin/abi.h"

namespace bps::broken {

inline constexpr int kMaxGroupedReceives = 4;

int groupedSend(const abi::Net<12>& real, void* comm, void* data, size_t bytes, int tag, void** request);
int groupedReceive(const abi::Net<12>& real, void* comm, int n, void** data, size_t* sizes, int* tags, void** request);
// If `byTag` is false, the receives of a group take the messages in the order of arrival.
int groupedTest(const abi::Net<12>& real, bool byTag, void* request, int* done, int* sizes);

}  // namespace bps::broken
