// XmlElement: an element of an XML file, with its line number and its children. expat parses the
// file. The limits below bound memory and recursion, so a hostile file costs no more than its size
// allows. XML entities are rejected, and nothing is fetched.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "src/base/status.h"

namespace bps {

class XmlElement {
 public:
  std::string name;
  std::vector<std::pair<std::string, std::string>> attributes;
  std::vector<XmlElement> children;
  size_t line = 0;

  // Returns nullptr if the element has no such attribute.
  const std::string* find(std::string_view attribute) const;
  std::string text(std::string_view attribute, std::string_view fallback = {}) const;
  // Parses a decimal number. A missing or empty attribute gives `fallback`. If the value is not a number or is out of
  // bounds, the error names the line, the attribute and the value.
  Result<double> number(std::string_view attribute, double fallback, double least, double most) const;
  Result<unsigned> hex(std::string_view attribute) const;  // accepts a leading 0x; gives 0 if missing or empty
  // Returns a failure that starts with "line N: <name>: ".
  Status invalid(const std::string& why) const;
};

constexpr size_t kMaxXmlBytes = 16U << 20, kMaxXmlElements = 200000, kMaxXmlDepth = 200;

// Fails with kInvalidArgument "line N: why" if the text is not XML or exceeds a limit.
Result<XmlElement> parseXml(std::string_view text);

}  // namespace bps
