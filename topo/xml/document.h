// An XML file as a tree of elements that know their lines, read by expat within bounds: what a hostile file can make us
// do is limited by its size alone. No entities, nothing fetched.
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

  // nullptr: the element has no such attribute.
  const std::string* find(std::string_view attribute) const;
  std::string text(std::string_view attribute, std::string_view fallback = {}) const;
  // Decimal. A missing or empty attribute gives `otherwise`; what is not a number, or not within the bounds, an error
  // with the line, the attribute and its value.
  Result<double> number(std::string_view attribute, double fallback, double least, double most) const;
  Result<unsigned> hex(std::string_view attribute) const;  // with or without 0x; 0 when missing or empty
  // A failure that starts with "line N: <name>: ".
  Status invalid(const std::string& why) const;
};

constexpr size_t kMaxXmlBytes = 16U << 20, kMaxXmlElements = 200000, kMaxXmlDepth = 200;

// kInvalidArgument "line N: why" when the text is no XML, or too large.
Result<XmlElement> parseXml(std::string_view text);

}  // namespace bps
