#include "src/metrics/metrics_text.h"

#include <gtest/gtest.h>

namespace bps::test {
namespace {

TEST(MetricsText, LabelsAreEscaped) {
  MetricsText text;
  text.family("bps_x_total", MetricsText::Type::kCounter, "Help.");
  text.sample({{"a", "q\"b\\s\nn"}, {"b", "\xff"}}, uint64_t{18446744073709551615U});
  text.single("bps_y", MetricsText::Type::kGauge, "Half.", 0.5);
  EXPECT_EQ(std::move(text).take(),
            "# HELP bps_x_total Help.\n# TYPE bps_x_total counter\n"
            "bps_x_total{a=\"q\\\"b\\\\s\\nn\",b=\"\xEF\xBF\xBD\"} 18446744073709551615\n"
            "# HELP bps_y Half.\n# TYPE bps_y gauge\nbps_y 0.5\n");
}

}  // namespace
}  // namespace bps::test
