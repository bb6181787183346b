// AddressFile: the IP addresses of all machines of a fabric, from the file that BPS_FABRIC names (fabric_place.h).
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "src/base/io/address.h"
#include "src/base/status.h"
#include "src/plan/bcube/bcube.h"

namespace bps {

struct AddressFile {
  static constexpr size_t kMaxBytes = 4U << 20;

  struct Machine {
    size_t line = 0;
    std::vector<Address> levels;  // with port 0
  };
  std::string path;
  std::vector<Machine> machines;  // by address; all machines of the shape

  // The place of a machine in the file, for errors: "FILE:12".
  std::string at(size_t machine) const;
};

// Errors name the file, the line and what is wrong.
Result<AddressFile> readAddressFile(const std::string& path, const Bcube& shape);
// The same for text that has been read already.
Result<AddressFile> parseAddressFile(const std::string& path, std::string_view text, const Bcube& shape);

}  // namespace bps
