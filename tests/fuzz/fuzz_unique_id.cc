// Fuzzes the parser of unique ids. If the input is shorter than 128 bytes, the fuzzer adds a correct checksum, so that
// it reaches the code behind the check.
#include <algorithm>
#include <cstdint>
#include <cstdlib>

#include "src/control/keys/crypto.h"
#include "src/control/unique_id.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  constexpr size_t kBody = bps::kUniqueIdBytes - 8;
  std::array<uint8_t, bps::kUniqueIdBytes> bytes{};
  std::copy_n(data, std::min(size, bytes.size()), bytes.begin());
  if (size < bytes.size()) {
    const bps::Key sum = bps::deriveKey("unique id checksum", std::span(bytes).first(kBody));
    std::copy_n(sum.begin(), bytes.size() - kBody, bytes.begin() + kBody);
  }
  auto parsed = bps::UniqueId::parse(bytes);
  if (!parsed.ok()) return 0;
  const bps::UniqueId id = std::move(parsed).value();
  auto again = bps::UniqueId::parse(id.bytes());
  if (!again.ok() || std::move(again).value().address.text() != id.address.text()) std::abort();
  return 0;
}
