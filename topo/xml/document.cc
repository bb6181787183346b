#include "topo/xml/document.h"

#include <expat.h>
#include <sys/random.h>

#include <cerrno>
#include <charconv>
#include <cstdlib>
#include <memory>

#include "src/base/env.h"
#include "src/base/format.h"

// The static expat calls arc4random_buf for the salt of its hash tables. The C library has that function only since
// glibc 2.36. This definition, which only bps sees, lets programs that were linked on Debian 12 run with an older C
// library.
extern "C" [[gnu::visibility("hidden")]] void arc4random_buf(void* bytes, size_t size) noexcept {
  auto* next = static_cast<char*>(bytes);
  while (size > 0) {
    const ssize_t got = ::getrandom(next, size, 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) std::abort();  // as in the C library: expat cannot be told of a failure
    next += got;
    size -= static_cast<size_t>(got);
  }
}

namespace bps {
namespace {

// The state of expat's callbacks. `open` holds the elements from the root to the element being
// read. When an element ends, it is moved into its parent.
struct XmlReader {
  XML_Parser parser;
  std::vector<XmlElement> open;
  XmlElement root;
  size_t elements = 0;
  Status stopped;

  void stop(std::string why) {
    if (stopped.ok()) stopped = failure(Code::kInvalidArgument, "line {}: {}", line(), why);
    XML_StopParser(parser, XML_FALSE);
  }
  size_t line() const { return XML_GetCurrentLineNumber(parser); }

  static void onStart(void* self, const char* name, const char** attributes) {
    auto& reader = *static_cast<XmlReader*>(self);
    if (++reader.elements > kMaxXmlElements) return reader.stop("too many elements");
    if (reader.open.size() >= kMaxXmlDepth) return reader.stop("elements nest too deeply");
    XmlElement element;
    element.name = name;
    element.line = reader.line();
    for (; attributes[0] != nullptr; attributes += 2) element.attributes.emplace_back(attributes[0], attributes[1]);
    reader.open.push_back(std::move(element));
  }

  static void onEnd(void* self, const char* /*name*/) {
    auto& reader = *static_cast<XmlReader*>(self);
    XmlElement element = std::move(reader.open.back());
    reader.open.pop_back();
    if (reader.open.empty()) {
      reader.root = std::move(element);
    } else {
      reader.open.back().children.push_back(std::move(element));
    }
  }

  // NOLINTNEXTLINE(readability-function-size): expat defines the parameters
  static void onEntity(void* self, const char*, int, const char*, int, const char*, const char*, const char*,
                       const char*) {
    static_cast<XmlReader*>(self)->stop("XML entities are not supported");
  }
};

struct FreeParser {
  void operator()(XML_Parser parser) const { XML_ParserFree(parser); }
};

}  // namespace

const std::string* XmlElement::find(std::string_view attribute) const {
  for (const auto& [key, value] : attributes)
    if (key == attribute) return &value;
  return nullptr;
}

std::string XmlElement::text(std::string_view attribute, std::string_view fallback) const {
  const std::string* value = find(attribute);
  return value != nullptr ? *value : std::string(fallback);
}

Status XmlElement::invalid(const std::string& why) const {
  return failure(Code::kInvalidArgument, "line {}: <{}>: {}", line, name, why);
}

Result<double> XmlElement::number(std::string_view attribute, double fallback, double least, double most) const {
  const std::string* value = find(attribute);
  if (value == nullptr || value->empty()) return fallback;
  auto parsed = parseNumber(*value);
  if (!parsed.ok()) return invalid(fmt::format("{}=\"{}\" is not a number", attribute, *value));
  const double got = std::move(parsed).value();
  if (got < least || got > most)
    return invalid(fmt::format("{}=\"{}\" is not from {:g} to {:g}", attribute, *value, least, most));
  return got;
}

Result<unsigned> XmlElement::hex(std::string_view attribute) const {
  const std::string* value = find(attribute);
  if (value == nullptr || value->empty()) return 0U;
  std::string_view digits = *value;
  if (digits.substr(0, 2) == "0x") digits.remove_prefix(2);
  unsigned got = 0;
  auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), got, 16);
  if (error != std::errc{} || end != digits.data() + digits.size())
    return invalid(fmt::format("{}=\"{}\" is not a hexadecimal number", attribute, *value));
  return got;
}

Result<XmlElement> parseXml(std::string_view text) {
  if (text.size() > kMaxXmlBytes) return failure(Code::kInvalidArgument, "more than {} bytes", kMaxXmlBytes);
  // Some dumps end with a null byte after the last line. NCCL reads the file as a C string and
  // ignores that byte.
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  const std::unique_ptr<std::remove_pointer_t<XML_Parser>, FreeParser> parser(XML_ParserCreate(nullptr));
  if (parser == nullptr) return Status(Code::kSystem, "out of memory");
  XmlReader reader;
  reader.parser = parser.get();
  XML_SetUserData(parser.get(), &reader);
  XML_SetElementHandler(parser.get(), XmlReader::onStart, XmlReader::onEnd);
  XML_SetEntityDeclHandler(parser.get(), XmlReader::onEntity);
  const XML_Status status = XML_Parse(parser.get(), text.data(), static_cast<int>(text.size()), XML_TRUE);
  if (!reader.stopped.ok()) return std::move(reader.stopped);
  if (status != XML_STATUS_OK)
    return failure(Code::kInvalidArgument, "line {}: {}", reader.line(),
                   XML_ErrorString(XML_GetErrorCode(parser.get())));
  return std::move(reader.root);
}

}  // namespace bps
