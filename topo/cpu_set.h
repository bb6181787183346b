// CpuSet: a set of logical CPUs. Its text form is a list ("0-7,16-23") or the hexadecimal mask that
// sysfs, NCCL and hwloc use. CpuSet is a value type without any locking.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace bps {

class CpuSet {
 public:
  static constexpr unsigned kMost = 8192;  // limit of CPU numbers; fromMask() rejects numbers from this one on

  // Parses a mask such as "ffff" or "0000ffff,ffffffff" (32-bit words, the highest first). Each
  // word may start with 0x.
  static Result<CpuSet> fromMask(std::string_view text);
  static CpuSet range(unsigned first, unsigned count);

  const std::vector<unsigned>& cpus() const { return cpus_; }  // ascending
  bool empty() const { return cpus_.empty(); }
  size_t size() const { return cpus_.size(); }
  // Splits the set into `parts` contiguous parts whose sizes differ by at most one CPU, and returns
  // part `index`. If the set has fewer CPUs than `parts`, returns the whole set.
  CpuSet part(size_t index, size_t parts) const;
  std::string list() const;
  std::string mask() const;
  bool operator==(const CpuSet&) const = default;

 private:
  std::vector<unsigned> cpus_;
};

}  // namespace bps
