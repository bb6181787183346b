// CpuSet: a set of logical CPUs, and the two ways of writing one: "0-7,16-23" and the hexadecimal mask of sysfs, NCCL
// and hwloc.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace bps {

class CpuSet {
 public:
  static constexpr unsigned kMost = 8192;  // CPUs of one machine; a larger number is an error of the file

  // "ffff", "0000ffff,ffffffff" (32 bits a word, the highest first), each with or without 0x.
  static Result<CpuSet> fromMask(std::string_view text);
  static CpuSet range(unsigned first, unsigned count);

  const std::vector<unsigned>& cpus() const { return cpus_; }  // ascending
  bool empty() const { return cpus_.empty(); }
  size_t size() const { return cpus_.size(); }
  // Part `index` of `parts` contiguous parts that differ by at most one CPU; the whole set when it has fewer CPUs.
  CpuSet part(size_t index, size_t parts) const;
  std::string list() const;
  std::string mask() const;
  bool operator==(const CpuSet&) const = default;

 private:
  std::vector<unsigned> cpus_;
};

}  // namespace bps
