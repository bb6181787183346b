#pragma once
#include <string>
#include <string_view>

namespace bps {

// Makes a peer's text safe for log lines. Long texts are shortened, and every character other than printable ASCII
// becomes '?'.
inline std::string printable(std::string_view text) {
  constexpr size_t kMost = 200;
  std::string safe(text.substr(0, kMost));
  for (char& c : safe)
    if (c < ' ' || c > '~') c = '?';
  return text.size() > kMost ? safe + "..." : safe;
}

}  // namespace bps
