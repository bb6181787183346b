// The functions in an ELF file's own symbol table, which has also those that the library does not export.
#pragma once
#include <functional>
#include <string>

#include "src/base/status.h"

namespace bps::no_gpu {

// For each function: its name, its address in the file's image, and its length. Fails when the file has been stripped.
Status forEachFunction(const std::string& path,
                       const std::function<void(const char* name, uint64_t address, uint64_t bytes)>& use);

}  // namespace bps::no_gpu
