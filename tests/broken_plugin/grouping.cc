#include "tests/broken_plugin/grouping.h"

#include <algorithm>
#include <array>
#include <memory>

namespace bps::broken {
namespace {

struct Group {
  void* comm = nullptr;
  bool sends = false;
  int n = 1, arrived = 0;
  std::array<void*, kMaxGroupedReceives> data{};
  std::array<size_t, kMaxGroupedReceives> sizes{};
  std::array<int, kMaxGroupedReceives> tags{}, got{};
  int tag = 0;
  bool tagDone = false;
  void* inner = nullptr;  // the real plugin's request, first for the tag, then for the message
  int slot = 0;
};

int post(const abi::Net<12>& real, Group& group, void* data, size_t bytes) {
  int tag = 0;
  void *memory = nullptr, *phandle = nullptr;
  if (group.sends) return real.head.isend(group.comm, data, bytes, tag, nullptr, nullptr, &group.inner);
  return real.head.irecv(group.comm, 1, &data, &bytes, &tag, &memory, &phandle, &group.inner);
}

// Returns the position of the arriving message in the group, or -1 if no open receive has its tag.
int slotOf(const Group& group, bool byTag) {
  if (group.sends || !byTag) return group.arrived;
  for (int i = 0; i < group.n; ++i)
    if (group.tags[static_cast<size_t>(i)] == group.tag && group.got[static_cast<size_t>(i)] < 0) return i;
  return -1;
}

}  // namespace

int groupedSend(const abi::Net<12>&, void* comm, void* data, size_t bytes, int tag, void** request) {
  auto group = std::make_unique<Group>();
  group->comm = comm;
  group->sends = true;
  group->data[0] = data;
  group->sizes[0] = bytes;
  group->tag = tag;
  *request = group.release();
  return abi::kSuccess;
}

int groupedReceive(const abi::Net<12>&, void* comm, int n, void** data, size_t* sizes, int* tags, void** request) {
  if (n > kMaxGroupedReceives) return abi::kInvalidArgument;
  auto group = std::make_unique<Group>();
  group->comm = comm;
  group->n = n;
  std::copy_n(data, n, group->data.begin());
  std::copy_n(sizes, n, group->sizes.begin());
  std::copy_n(tags, n, group->tags.begin());
  group->got.fill(-1);
  *request = group.release();
  return abi::kSuccess;
}

int groupedTest(const abi::Net<12>& real, bool byTag, void* request, int* done, int* sizes) {
  auto& group = *static_cast<Group*>(request);
  *done = 0;
  while (group.arrived < group.n) {
    const auto slot = static_cast<size_t>(group.slot);
    if (group.inner == nullptr) {
      const int code = group.tagDone ? post(real, group, group.data[slot], group.sizes[slot])
                                     : post(real, group, &group.tag, sizeof group.tag);
      if (code != abi::kSuccess || group.inner == nullptr) return code;
    }
    int innerDone = 0, bytes = 0;
    const int code = real.head.test(group.inner, &innerDone, &bytes);
    if (code != abi::kSuccess || innerDone == 0) return code;
    group.inner = nullptr;
    if (group.tagDone) {
      group.got[slot] = bytes;
      ++group.arrived;
    } else {
      group.slot = slotOf(group, byTag);
      if (group.slot < 0) return abi::kInternalError;
    }
    group.tagDone = !group.tagDone;
  }
  if (sizes != nullptr) std::copy_n(group.got.begin(), group.n, sizes);
  *done = 1;
  delete &group;
  return abi::kSuccess;
}

}  // namespace bps::broken
