// Draws the machine as SVG. Each device has a column, and CPUs, switches and devices have rows. The
// width of a line shows how many bytes the chosen strategy sends over the link.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "src/base/xml.h"
#include "tools/bps_topo/machine_text.h"
#include "topo/rates.h"

namespace bps {
namespace {

constexpr double kColumn = 150, kRow = 120, kWidth = 124, kHeight = 44, kMargin = 20, kWidest = 10;

struct Box {
  double x = 0, y = 0;  // the center of the box
};

class Drawing {
 public:
  explicit Drawing(const MachineReport& report) : report_(report), topology_(report.topology) {}

  std::string draw() {
    place(kRoot, 0);
    placeNvSwitch();
    for (LinkId id = 0; id < topology_.links().size(); ++id) {
      const LinkBytes& bytes = report_.decision.best().traffic.linkBytes(id);
      most_ = std::max({most_, bytes.total(true), bytes.total(false)});
    }
    std::string lines, boxes, labels;
    for (LinkId id = 0; id < topology_.links().size(); ++id)
      if (topology_.link(id).kind != LinkKind::kMemory) {
        lines += line(id);
        labels += label(id);
      }
    for (const auto& [id, at] : boxes_) boxes += box(id, at);
    const double width = std::max(columns_ * kColumn, 6 * kColumn) + 2 * kMargin;
    const double height = (deepest_ + 2) * kRow + 2 * kMargin;
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
               "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"12\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
               "<text x=\"{2}\" y=\"{2}\">{3}: {4}, GB up / down for {5:.4g} GB</text>\n",
               width, height, kMargin, xmlEscaped(report_.source), nameOf(report_.decision.best().plan.strategy),
               static_cast<double>(report_.job.bytes) / kGiga) +
           lines + boxes + labels + "</svg>\n";
  }

 private:
  // Places a node above the middle of its children. Returns the x of the node.
  double place(NodeId id, double depth) {
    deepest_ = std::max(deepest_, depth);
    const std::vector<NodeId> children = topology_.children(id);
    double first = 0, last = 0;
    for (size_t i = 0; i < children.size(); ++i) {
      last = place(children[i], depth + 1);
      if (i == 0) first = last;
    }
    const double x = children.empty() ? kMargin + (columns_++ + 0.5) * kColumn : (first + last) / 2;
    boxes_[id] = {x, kMargin + (depth + 0.5) * kRow};
    return x;
  }
  void placeNvSwitch() {
    for (NodeId id : topology_.all(NodeKind::kNvSwitch))
      boxes_[id] = {kMargin + columns_ * kColumn / 2, kMargin + (deepest_ + 1.5) * kRow};
  }

  Box from(LinkId id) const { return boxes_.at(topology_.link(id).near); }
  Box to(LinkId id) const { return boxes_.at(topology_.link(id).far); }
  // Returns how far the line between two devices of one row bends down. The bend makes the line
  // pass below the devices between them.
  double curveOffset(LinkId id) const {
    const double length = std::abs(from(id).x - to(id).x);
    return from(id).y == to(id).y ? kHeight + 2 * kRow * length / (columns_ * kColumn) : 0;
  }

  std::string line(LinkId id) const {
    const Box a = from(id), b = to(id);
    const LinkBytes& bytes = report_.decision.best().traffic.linkBytes(id);
    const uint64_t bytesEachWay = std::max(bytes.total(true), bytes.total(false));
    const double width = 1 + (most_ > 0 ? kWidest * static_cast<double>(bytesEachWay) / static_cast<double>(most_) : 0);
    const bool nvlink = topology_.link(id).kind == LinkKind::kNvlink;
    const char* color = topology_.sharedWithNic(id) ? "#c33" : nvlink ? "#7a3" : "#888";
    return fmt::format(
        "<path d=\"M{:.0f} {:.0f}Q{:.0f} {:.0f} {:.0f} {:.0f}\" fill=\"none\" stroke=\"{}\" "
        "stroke-width=\"{:.1f}\"/>\n",
        a.x, a.y, (a.x + b.x) / 2, (a.y + b.y) / 2 + curveOffset(id), b.x, b.y, color, width);
  }

  // Labels are drawn last, on a white background. A label is near the lower end of its link,
  // because fewer links meet there than at the upper end.
  std::string label(LinkId id) const {
    const Box a = from(id), b = to(id);
    const LinkBytes& bytes = report_.decision.best().traffic.linkBytes(id);
    const uint64_t up = bytes.total(true), down = bytes.total(false);
    if (up + down == 0) return {};
    const bool hangs = curveOffset(id) > 0;
    const double x = hangs ? (a.x + b.x) / 2 : (2 * a.x + b.x) / 3;
    const double y = hangs ? a.y + curveOffset(id) / 2 : (2 * a.y + b.y) / 3;
    return fmt::format(
        "<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\" stroke=\"white\" stroke-width=\"4\" "
        "paint-order=\"stroke\">{:.4g} / {:.4g}</text>\n",
        x, y, static_cast<double>(up) / kGiga, static_cast<double>(down) / kGiga);
  }

  std::string box(NodeId id, const Box& at) const {
    static constexpr const char* kColors[] = {"#eee", "#cde", "#ddd", "#cec", "#ecc", "#cec"};
    const LocalPlan& plan = report_.decision.best().plan;
    const bool root = std::any_of(plan.roots.begin(), plan.roots.end(),
                                  [&](size_t rank) { return plan.placement.ranks[rank].location == id; });
    const std::string name = topology_.nameOf(id) + (root ? " (root)" : "");
    return fmt::format(
        "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"6\" fill=\"{}\" stroke=\"#444\" "
        "stroke-width=\"{}\"/>\n<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>\n",
        at.x - kWidth / 2, at.y - kHeight / 2, kWidth, kHeight, kColors[static_cast<size_t>(topology_.node(id).kind)],
        root ? 3 : 1, at.x, at.y + 4, xmlEscaped(name));
  }

  const MachineReport& report_;
  const Topology& topology_;
  std::map<NodeId, Box> boxes_;
  double columns_ = 0, deepest_ = 0;
  uint64_t most_ = 0;
};

}  // namespace

std::string showSvg(const MachineReport& report) { return Drawing(report).draw(); }

}  // namespace bps
