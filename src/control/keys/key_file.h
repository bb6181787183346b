// A key file holds the secret that the ranks and servers share.
//
// A key file has one of three forms. 64 hexadecimal digits are a 32-byte key; makeKeyFile() writes this form. Any other
// text is a pass-phrase. Argon2id derives the key from the pass-phrase and uses 64 MiB of memory, so every guess costs
// an attacker memory and time. If the file does not contain text, its bytes are raw key material. White space at the
// end of a text is ignored.
#pragma once
#include <string>

#include "src/base/status.h"
#include "src/control/unique_id.h"

namespace bps {

inline constexpr size_t kMinKeyFileBytes = 16, kMaxKeyFileBytes = 64U << 10;  // bytes

// Reads a key file and returns its key. Unless `shared` is true, readKeyFile() fails if the file's group or other users
// have access to the file. The key of the last pass-phrase is kept, so that it need not be derived again. Any thread
// may call readKeyFile().
Result<Key> readKeyFile(const std::string& path, bool shared);

// Writes a random key into a new file that only the current user can read. Fails if the file already exists.
Status makeKeyFile(const std::string& path);

}  // namespace bps
