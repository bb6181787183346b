#pragma once
#include <string>
#include <string_view>

namespace bps {

// What a stranger says, fit for a message: short, with '?' in place of what is not printable ASCII.
inline std::string printable(std::string_view text) {
  constexpr size_t kMost = 200;
  std::string safe(text.substr(0, kMost));
  for (char& c : safe)
    if (c < ' ' || c > '~') c = '?';
  return text.size() > kMost ? safe + "..." : safe;
}

}  // namespace bps
