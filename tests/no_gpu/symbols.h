// Lists the functions in an ELF file's symbol table, including those that the library does not
// export.
#pragma once
#include <functional>
#include <string>

#include "src/base/status.h"

namespace bps::no_gpu {

// Calls `use` for each function with its name, its address in the file's image and its size. Fails if the file is
// stripped.
Status forEachFunction(const std::string& path,
                       const std::function<void(const char* name, uint64_t address, uint64_t bytes)>& use);

}  // namespace bps::no_gpu
