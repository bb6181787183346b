// Text in XML documents, such as SVG pictures.
#pragma once
#include <string>
#include <string_view>

namespace bps {

// Escapes text for an element or a quoted attribute. XML cannot contain control characters, so they become spaces.
inline std::string xmlEscaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else if (c == '"') out += "&quot;";
    else out += static_cast<unsigned char>(c) < ' ' ? ' ' : c;
  }
  return out;
}

}  // namespace bps
