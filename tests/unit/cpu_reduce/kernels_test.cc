// Tests that every kernel of every target that this CPU supports gives the same bits as the scalar kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "tests/unit/cpu_reduce/inputs.h"

namespace bps::test {
namespace {

using Case = std::tuple<const cpu::KernelTable*, DataType>;

std::vector<const cpu::KernelTable*> vectorTargets() {
  auto all = cpu::supportedTargets();
  return {all.begin(), all.end() - 1};
}

class Kernels : public testing::TestWithParam<Case> {
 protected:
  std::string_view target() const { return std::get<0>(GetParam())->name; }
  DataType type() const { return std::get<1>(GetParam()); }
  size_t size() const { return elementBytes(type()); }

  // A buffer of exactly `bytes` bytes, so that ASan detects every overrun. The buffer begins `distance` bytes after an
  // aligned address.
  struct Buffer {
    Buffer(size_t distance, size_t bytes) {
      if (posix_memalign(&memory, 64, 64 + distance + bytes) != 0) std::abort();
      data = static_cast<char*>(memory) + 64 + distance;
    }
    ~Buffer() { std::free(memory); }
    Buffer(const Buffer&) = delete;
    Buffer& operator=(const Buffer&) = delete;
    void* memory = nullptr;
    char* data = nullptr;
  };

  // Compares a call of reduce() with the scalar kernels. The destination has guard bytes on both sides, and begins
  // `dstDistance` bytes after an aligned address.
  void check(ReduceArgs args, size_t dstDistance = 0) {
    args.type = type();
    ByteVector want = oracle(args);
    ForcedTarget forced(target());
    ByteVector memory(want.size() + 256, 0xa5);
    size_t start = 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64 + dstDistance;
    args.dst = memory.data() + start;
    reduce(args);
    std::string wrong = difference(args.dst, want, type());
    bool guards = std::count(memory.begin(), memory.begin() + static_cast<ptrdiff_t>(start), 0xa5) ==
                      static_cast<ptrdiff_t>(start) &&
                  std::all_of(memory.begin() + static_cast<ptrdiff_t>(start + want.size()), memory.end(),
                              [](unsigned char byte) { return byte == 0xa5; });
    ASSERT_EQ(wrong, "") << foldOpName(args.op) << " of " << args.sources.size() << " sources, " << args.count
                         << " elements, dst at " << dstDistance;
    ASSERT_TRUE(guards) << foldOpName(args.op) << " wrote outside dst, " << args.count << " elements";
  }

  void checkOps(ReduceArgs args, size_t dstDistance = 0) {
    for (FoldOp op : kFoldOps) {
      args.op = op;
      check(args, dstDistance);
      if (HasFatalFailure()) return;
    }
  }
};

template <class T>
std::pair<std::vector<T>, std::vector<T>> pairsWith(const std::vector<uint64_t>& partners) {
  std::pair<std::vector<T>, std::vector<T>> pairs;
  for (uint64_t partner : partners) {
    for (uint32_t value = 0; value <= std::numeric_limits<T>::max(); value++) {
      pairs.first.push_back(static_cast<T>(value));
      pairs.second.push_back(static_cast<T>(partner));
    }
  }
  return pairs;
}

TEST_P(Kernels, MatchScalarForEveryValueOfSmallTypes) {
  std::mt19937_64 random(1);
  auto checkPairs = [&](const auto& pairs) {
    const void* forward[] = {pairs.first.data(), pairs.second.data()};
    const void* backward[] = {pairs.second.data(), pairs.first.data()};
    checkOps({.sources = forward, .count = pairs.first.size()});
    if (!HasFatalFailure()) checkOps({.sources = backward, .count = pairs.first.size(), .divisor = 3});
  };
  if (size() == 1) {
    std::vector<uint64_t> all(256);
    std::iota(all.begin(), all.end(), 0);
    checkPairs(pairsWith<uint8_t>(all));
  } else if (size() == 2) {
    std::vector<uint64_t> partners = specialValues(type());
    for (int i = 0; i < (longTests() ? 200 : 7); i++) partners.push_back(moderateValue(type(), random));
    checkPairs(pairsWith<uint16_t>(partners));
  }
}

TEST_P(Kernels, MatchScalarForEveryLength) {
  std::mt19937_64 random(2);
  for (size_t count = 0; count <= 257; count++) {
    Buffer a(random() % 64, count * size());
    Buffer b(random() % 64, count * size());
    fill(a.data, count, type(), random);
    fill(b.data, count, type(), random);
    const void* sources[] = {a.data, b.data};
    checkOps({.sources = sources, .count = count}, random() % 64);
    if (HasFatalFailure()) return;
  }
}

TEST_P(Kernels, MatchScalarForEveryAlignment) {
  std::mt19937_64 random(3);
  size_t step = longTests() ? 1 : 7;
  for (size_t dst = 0; dst < 64; dst++) {
    for (size_t src = dst % step; src < 64; src += step) {
      size_t count = 1 + random() % 1500;
      Buffer a(src, count * size());
      Buffer b(random() % 64, count * size());
      fill(a.data, count, type(), random);
      fill(b.data, count, type(), random);
      const void* sources[] = {a.data, b.data};
      check({.sources = sources, .count = count, .op = kFoldOps[random() % 4]}, dst);
      if (HasFatalFailure()) return;
    }
  }
}

TEST_P(Kernels, MatchScalarForAnySourcesScalarsAndDivisor) {
  std::mt19937_64 random(4);
  for (size_t nSources : {1U, 2U, 3U, 4U, 5U, 7U, 8U, 9U, 16U, 64U, 65U, 100U}) {
    size_t count = 200 + random() % 400;
    std::vector<ByteVector> data(nSources, ByteVector(count * size()));
    std::vector<const void*> sources;
    std::vector<ScalarBits> scalars;
    for (ByteVector& each : data) {
      fill(each.data(), count, type(), random);
      sources.push_back(each.data());
      scalars.push_back(moderateValue(type(), random));
    }
    uint64_t divisor = nSources == 9 ? (uint64_t{1} << 40) + 1 : nSources;
    checkOps({.sources = sources, .count = count});
    checkOps({.sources = sources, .count = count, .divisor = divisor});
    checkOps({.sources = sources, .count = count, .scalars = scalars});
    checkOps({.sources = sources, .count = count, .scalars = scalars, .divisor = divisor});
    std::vector<uint64_t> divisors(nSources, 1);
    for (size_t i = 0; i < nSources; i += 1 + i % 2) divisors[i] = divisor;
    checkOps({.sources = sources, .count = count, .divisors = divisors});
    checkOps({.sources = sources, .count = count, .scalars = scalars, .divisors = divisors});
    if (HasFatalFailure()) return;
  }
}

// reduce() uses streaming stores only for results that are larger than the cache. So this test calls the streaming
// kernels directly, with results that begin at every position in a cache line.
TEST_P(Kernels, MatchScalarWhenStreaming) {
  std::mt19937_64 random(5);
  for (size_t distance = 0; distance < 64; distance++) {
    size_t count = 900 + random() % 900;
    ByteVector data(count * size());
    fill(data.data(), count, type(), random);
    const void* sources[] = {data.data(), data.data(), data.data()};
    ByteVector want = oracle({.sources = sources, .count = count, .type = type()});
    ByteVector memory(want.size() + 128);
    char* dst =
        reinterpret_cast<char*>(memory.data()) + 64 - reinterpret_cast<uintptr_t>(memory.data()) % 64 + distance;
    cpu::FoldArgs fold{.dst = dst, .sources = sources, .nSources = 3, .begin = 0, .count = count, .stream = true};
    std::get<0>(GetParam())->kernels[static_cast<size_t>(type())][0](fold);
    ASSERT_EQ(difference(dst, want, type()), "") << "dst at " << distance;
  }
}

INSTANTIATE_TEST_SUITE_P(Every, Kernels,
                         testing::Combine(testing::ValuesIn(vectorTargets()), testing::ValuesIn(allTypes())),
                         [](const testing::TestParamInfo<Case>& each) {
                           return std::string(std::get<0>(each.param)->name) + "_" +
                                  std::string(dataTypeName(std::get<1>(each.param)));
                         });

}  // namespace
}  // namespace bps::test
