// Draws the times of an all-reduce over the number of machines, on a BCube and on other networks.
#include <algorithm>
#include <array>

#include "src/base/format.h"
#include "src/base/xml.h"
#include "tools/bps_topo/fabric/fabric_costs.h"
#include "tools/bps_topo/fabric/fabric_report.h"

namespace bps {
namespace {

constexpr double kLeft = 60, kTop = 50, kColumn = 88, kPlotHeight = 280, kHeight = 450;
constexpr double kMostTime = 2, kTimeStep = 0.5;  // of M/B; all times are less than 2
constexpr double kLegendLine = 18;
constexpr size_t kLeastColumns = 5;  // for the title

struct Curve {
  const char* color;
  const char* name;
  double FabricTimes::*time;
};

// In the order of the legend.
constexpr std::array<Curve, 3> kCurves = {
    Curve{"#b03030", "one NIC per machine, on a Fat-tree", &FabricTimes::oneNic},
    Curve{"#b08020", "parameter server spread over the BCube", &FabricTimes::parameterServer},
    Curve{"#2060a0", "bps on the BCube", &FabricTimes::bml}};

double yOf(double time) { return kTop + kPlotHeight * (1 - time / kMostTime); }

std::string textAt(double x, double y, const char* anchor, const std::string& text) {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\">{}</text>\n", x, y, anchor, xmlEscaped(text));
}

std::string lineAt(double x1, double y1, double x2, double y2, const char* color) {
  return fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"/>\n", x1, y1, x2, y2,
                     color);
}

std::string axes(const std::vector<Bcube>& shapes) {
  constexpr double kGap = 8, kLine = 16;
  const double right = kLeft + kColumn * static_cast<double>(shapes.size());
  std::string out;
  for (double time = 0; time <= kMostTime; time += kTimeStep)
    out += lineAt(kLeft, yOf(time), right, yOf(time), time > 0 ? "#ddd" : "#222") +
           textAt(kLeft - kGap, yOf(time) + kGap / 2, "end", fmt::format("{:.1f}", time));
  for (size_t i = 0; i < shapes.size(); ++i) {
    const double x = kLeft + kColumn * (static_cast<double>(i) + 0.5);
    out += textAt(x, yOf(0) + kLine, "middle", fmt::format("N = {}", shapes[i].machines())) +
           textAt(x, yOf(0) + 2 * kLine, "middle", shapes[i].text());
  }
  return out;
}

std::string draw(const Curve& curve, const std::vector<Bcube>& shapes) {
  constexpr double kRadius = 3;
  std::string points, dots;
  for (size_t i = 0; i < shapes.size(); ++i) {
    const double x = kLeft + kColumn * (static_cast<double>(i) + 0.5), y = yOf(fabricTimes(shapes[i]).*curve.time);
    points += fmt::format("{}{:.1f},{:.1f}", i == 0 ? "" : " ", x, y);
    dots += fmt::format("<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{}\" fill=\"{}\"/>\n", x, y, kRadius, curve.color);
  }
  return fmt::format("<polyline points=\"{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"2\"/>\n", points,
                     curve.color) +
         dots;
}

std::string legend() {
  constexpr double kBelow = 60, kSample = 30, kGap = 8;
  std::string out;
  double y = kTop + kPlotHeight + kBelow;
  for (const Curve& curve : kCurves) {
    out += lineAt(kLeft, y, kLeft + kSample, y, curve.color) +
           textAt(kLeft + kSample + kGap, y + kGap / 2, "start", curve.name);
    y += kLegendLine;
  }
  return out;
}

}  // namespace

Result<std::string> fabricSvg(const FabricRequest& request) {
  const Bcube shape = BPS_TRY(parseShape(request.shape));
  const std::vector<Bcube> shapes = comparedShapes(shape);
  const double width = kLeft + kColumn * static_cast<double>(std::max<size_t>(shapes.size(), kLeastColumns)) + kTop / 2;
  std::string curves;
  for (const Curve& curve : kCurves) curves += draw(curve, shapes);
  return fmt::format(
             "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
             "height=\"{1:.0f}\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"12\" "
             "fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
             width, kHeight) +
         textAt(kLeft, kTop / 2, "start",
                fmt::format("Time of an all-reduce in M/B, computed for k = {} NICs per machine", shape.k())) +
         axes(shapes) + curves + legend() + "</svg>\n";
}

}  // namespace bps
