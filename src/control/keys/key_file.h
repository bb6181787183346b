// Key files: where the secret that ranks and servers share lies on disk.
//
// A file has one of three forms. 64 hexadecimal digits are a key of 32 bytes; that is what makeKeyFile() writes. Any
// other text is a pass-phrase, from which Argon2id derives the key, so that each guess costs an attacker 64 MiB and
// some 0.1 s. Other bytes are key material as they are. White space at the end of a text does not count.
#pragma once
#include <string>

#include "src/base/status.h"
#include "src/control/unique_id.h"

namespace bps {

inline constexpr size_t kMinKeyFileBytes = 16, kMaxKeyFileBytes = 64U << 10;  // bytes

// The key of a file. Refuses a file that its group or others can read, unless `shared`. Derives a pass-phrase's key
// once per process. Any thread.
Result<Key> readKeyFile(const std::string& path, bool shared);

// Writes a new random key into a new file that only its owner can read. Fails if the file exists.
Status makeKeyFile(const std::string& path);

}  // namespace bps
