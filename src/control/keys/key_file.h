// Key files hold the secret that ranks and servers share.
//
// A file has one of three forms. 64 hexadecimal digits are a 32-byte key; makeKeyFile() writes this form. Any other
// text is a pass-phrase, from which Argon2id derives the key with 64 MiB of memory, so that every guess costs an
// attacker memory and time. Any other bytes are raw key material. White space at the end of a text is ignored.
#pragma once
#include <string>

#include "src/base/status.h"
#include "src/control/unique_id.h"

namespace bps {

inline constexpr size_t kMinKeyFileBytes = 16, kMaxKeyFileBytes = 64U << 10;  // bytes

// Reads the key of a file. Unless `shared`, refuses a file that its group or others can read. Derives the key of a
// pass-phrase once per process. Any thread.
Result<Key> readKeyFile(const std::string& path, bool shared);

// Writes a new random key into a new file that only its owner can read. Fails if the file exists.
Status makeKeyFile(const std::string& path);

}  // namespace bps
