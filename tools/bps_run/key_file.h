// The key of one run: 32 random bytes in a file (mode 0600) of a private directory.
#pragma once
#include <string>

#include "src/base/status.h"

namespace bps {

struct KeyFile {
  std::string directory;
  std::string path;
};

Result<KeyFile> makeKeyFile();
// The file and its directory; nothing happens where they are gone already.
void removeKeyDirectory(const std::string& directory);

}  // namespace bps
