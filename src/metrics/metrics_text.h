// MetricsText: writes samples in Prometheus' text format (version 0.0.4).
//
// A family is a name, its type and its help line; the samples of a family follow it. Label values are escaped, so they
// may contain any bytes; bytes that are not UTF-8 are replaced.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

namespace bps {

class MetricsText {
 public:
  using Label = std::pair<std::string_view, std::string_view>;
  using Labels = std::initializer_list<Label>;
  enum class Type { kCounter, kGauge };

  // Begins a family. The name of a counter ends in "_total".
  void family(std::string_view name, Type type, std::string_view help);
  // Adds a sample to the family.
  void sample(Labels labels, double value);
  void sample(Labels labels, uint64_t value);
  // A family with one sample without labels.
  template <class Value>
  void single(std::string_view name, Type type, std::string_view help, Value value) {
    family(name, type, help);
    sample({}, value);
  }
  std::string take() && { return std::move(text_); }

 private:
  void begin(Labels labels);

  std::string text_, name_;
};

}  // namespace bps
