// UTF-8: texts of peers and of the operating system may contain any bytes, but JSON and Prometheus' text format may
// not.
#pragma once
#include <string>
#include <string_view>

namespace bps {

// Returns the text with U+FFFD in place of every byte that does not belong to a valid UTF-8 sequence. Overlong
// encodings, surrogates and code points above U+10FFFF are invalid.
std::string validUtf8(std::string_view text);
// Returns the text as the inside of a JSON string: valid UTF-8, with quotes, backslashes and control characters
// escaped.
std::string jsonEscaped(std::string_view text);

}  // namespace bps
