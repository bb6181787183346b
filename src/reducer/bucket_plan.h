// planBuckets(): divides the parameters of a model among buckets. A pure function, so all ranks that
// pass the same arguments have the same buckets. Any thread may call it.
//
// A bucket holds gradients of one type, and either only urgent ones or no urgent ones. The parameters
// are taken in the given order. A bucket is full if the next gradient would make it larger than the
// limit, so only a bucket of one gradient can be larger. While no bucket is full, the limit is that of
// the first bucket. The buckets are in the order in which the last of their gradients become ready.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cpu_reduce/reduce.h"

namespace bps::reducer {

struct Parameter {
  size_t count = 0;
  DataType type = DataType::kFloat32;
  size_t bytes() const { return count * elementBytes(type); }
};

struct BucketLimits {
  size_t firstBytes = 0, bytes = 0;
  size_t queues = 1;       // the buckets that are not urgent take turns among these queues
  size_t urgentBytes = 0;  // a parameter is urgent if those before it have fewer bytes; its buckets use the next queue
};

// Every gradient in a bucket begins at a multiple of kSlotBytes, so that the CPU can use vectors.
inline constexpr size_t kSlotBytes = 64;

struct Bucket {
  DataType type = DataType::kFloat32;
  size_t queue = 0;
  size_t bytes = 0;
  std::vector<size_t> parameters;
  std::vector<size_t> offsets;  // in bytes, one for each of `parameters`
  bool operator==(const Bucket&) const = default;
};

// `order` is a permutation of the parameters: the order in which their gradients become ready.
std::vector<Bucket> planBuckets(std::span<const Parameter> parameters, std::span<const uint32_t> order,
                                const BucketLimits& limits);

// Returns the parameters in reverse order.
std::vector<uint32_t> reverseOrder(size_t parameters);
bool isPermutation(std::span<const uint32_t> order);

}  // namespace bps::reducer
