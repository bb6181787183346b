#include "src/metrics/metrics_text.h"

#include "src/base/format.h"
#include "src/base/text/utf8.h"

namespace bps {
namespace {

std::string escaped(std::string_view value) {
  std::string text;
  for (const char c : validUtf8(value)) {
    if (c == '\\') text += "\\\\";
    else if (c == '"') text += "\\\"";
    else if (c == '\n') text += "\\n";
    else text += c;
  }
  return text;
}

}  // namespace

void MetricsText::family(std::string_view name, Type type, std::string_view help) {
  name_ = name;
  text_ += fmt::format("# HELP {} {}\n# TYPE {} {}\n", name, help, name, type == Type::kCounter ? "counter" : "gauge");
}

void MetricsText::begin(Labels labels) {
  text_ += name_;
  char separator = '{';
  for (const auto& [name, value] : labels) {
    text_ += fmt::format("{}{}=\"{}\"", separator, name, escaped(value));
    separator = ',';
  }
  if (labels.size() > 0) text_ += '}';
}

void MetricsText::sample(Labels labels, double value) {
  begin(labels);
  text_ += fmt::format(" {}\n", value);
}

void MetricsText::sample(Labels labels, uint64_t value) {
  begin(labels);
  text_ += fmt::format(" {}\n", value);
}

}  // namespace bps
