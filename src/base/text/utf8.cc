#include "src/base/text/utf8.h"

#include <cstdint>

#include "src/base/format.h"

namespace bps {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";  // U+FFFD

bool continues(std::string_view text, size_t at) {
  return at < text.size() && (static_cast<uint8_t>(text[at]) & 0xC0) == 0x80;
}

// The bytes of the sequence at `at`, or 0 if it is invalid.
size_t sequenceBytes(std::string_view text, size_t at) {
  const auto lead = static_cast<uint8_t>(text[at]);
  if (lead < 0x80) return 1;
  const size_t bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4) return 0;
  for (size_t i = 1; i < bytes; ++i)
    if (!continues(text, at + i)) return 0;
  const auto second = static_cast<uint8_t>(text[at + 1]);
  const bool overlong = (lead == 0xE0 && second < 0xA0) || (lead == 0xF0 && second < 0x90);
  const bool surrogate = lead == 0xED && second >= 0xA0;
  const bool tooLarge = lead == 0xF4 && second >= 0x90;
  return overlong || surrogate || tooLarge ? 0 : bytes;
}

}  // namespace

std::string validUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = sequenceBytes(text, at);
    valid += bytes == 0 ? kReplacement : text.substr(at, bytes);
    at += bytes == 0 ? 1 : bytes;
  }
  return valid;
}

std::string jsonEscaped(std::string_view text) {
  std::string escaped;
  for (const char c : validUtf8(text)) {
    if (c == '"' || c == '\\') (escaped += '\\') += c;
    else if (static_cast<unsigned char>(c) < ' ' || c == 0x7f)
      escaped += fmt::format("\\u{:04x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
    else escaped += c;
  }
  return escaped;
}

}  // namespace bps
