// Draws the machine as SVG. Each device has a column, and CPUs, switches and devices have rows. The
// label of a link is above its lower node, where no other link passes. The labels of NVLinks are
// below the GPUs; those that find no free place there are listed below the picture.
#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "src/base/xml.h"
#include "tools/bps_topo/machine_text.h"
#include "topo/rates.h"

namespace bps {
namespace {

constexpr double kColumn = 164, kRow = 128, kWidth = 144, kHeight = 54, kMargin = 20, kWidest = 10;
constexpr double kTitle = 30, kLine = 18, kFont = 12, kSmallFont = 10;
constexpr double kCharacter = 0.66;  // the mean width of a character in widths of the font
constexpr size_t kNameCharacters = 17, kTitleCharacters = 90;

struct Box {
  double x = 0, y = 0;  // the center of the box
};

// Returns the beginning of a text that is too long for its place.
std::string shortened(const std::string& text, size_t characters) {
  return text.size() <= characters ? text : text.substr(0, characters - 1) + "…";
}

class Drawing {
 public:
  Drawing(const MachineReport& report, bool traffic) : report_(report), topology_(report.topology), traffic_(traffic) {}

  std::string draw() {
    place(kRoot, 0);
    placeNvSwitch();
    for (LinkId id = 0; id < topology_.links().size(); ++id)
      if (drawn(id)) most_ = std::max(most_, amount(id));
    std::string lines, boxes, labels;
    for (LinkId id = 0; id < topology_.links().size(); ++id)
      if (drawn(id)) {
        lines += line(id);
        labels += label(id);
      }
    for (const auto& [id, at] : boxes_) boxes += box(id, at);
    const double width = std::max(columns_, 5.0) * kColumn + 2 * kMargin;
    double bottom = kTitle + (deepest_ + (hanging_ ? 2 : 1)) * kRow + kMargin;
    const std::string notes = notesAndLegend(bottom);
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
               "height=\"{1:.0f}\" font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"{2}\" "
               "fill=\"#222\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
               width, bottom + kMargin, kFont) +
           text({kMargin, kTitle - 8}, title(), "start", kFont) + lines + boxes + labels + notes + "</svg>\n";
  }

 private:
  std::string title() const {
    std::string source = shortened(report_.source, kTitleCharacters);
    if (!traffic_) return source;
    return fmt::format("{}: {} for {:.4g} GB", source, nameOf(report_.decision.best().plan.strategy),
                       static_cast<double>(report_.job.bytes) / kGiga);
  }

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
    boxes_[id] = {x, kTitle + (depth + 0.5) * kRow};
    return x;
  }
  void placeNvSwitch() {
    for (NodeId id : topology_.all(NodeKind::kNvSwitch))
      boxes_[id] = {kMargin + columns_ * kColumn / 2, kTitle + (deepest_ + 1.5) * kRow};
    for (const MachineLink& link : topology_.links()) hanging_ = hanging_ || link.kind == LinkKind::kNvlink;
  }

  bool drawn(LinkId id) const { return topology_.link(id).kind != LinkKind::kMemory; }
  bool nvlink(LinkId id) const { return topology_.link(id).kind == LinkKind::kNvlink; }
  Box from(LinkId id) const { return boxes_.at(topology_.link(id).near); }
  Box to(LinkId id) const { return boxes_.at(topology_.link(id).far); }
  const LinkBytes& bytes(LinkId id) const { return report_.decision.best().traffic.linkBytes(id); }

  // The number that the width of a line shows: bytes or a rate, of the direction with more.
  double amount(LinkId id) const {
    if (!traffic_) return topology_.link(id).rate;
    return static_cast<double>(std::max(bytes(id).total(true), bytes(id).total(false)));
  }
  // Returns the label of a link, empty if it carries nothing or its rate is unknown.
  std::string amountText(LinkId id) const {
    if (amount(id) <= 0) return {};
    if (!traffic_) return rateText(topology_.link(id).rate);
    return fmt::format("{:.3g} / {:.3g} GB", static_cast<double>(bytes(id).total(true)) / kGiga,
                       static_cast<double>(bytes(id).total(false)) / kGiga);
  }

  // The line of the tree is vertical at both ends. An NVLink between two GPUs of one row bends down
  // and passes below the devices between them.
  std::string line(LinkId id) const {
    const Box a = from(id), b = to(id);
    const double width = 1 + (most_ > 0 ? kWidest * amount(id) / most_ : 0);
    const double middle = (a.y + b.y) / 2;
    const std::string path =
        a.y == b.y ? fmt::format("Q{:.0f} {:.0f} {:.0f} {:.0f}", (a.x + b.x) / 2, a.y + 2 * hang(id), b.x, b.y)
                   : fmt::format("C{:.0f} {:.0f} {:.0f} {:.0f} {:.0f} {:.0f}", a.x, middle, b.x, middle, b.x, b.y);
    return fmt::format("<path d=\"M{:.0f} {:.0f}{}\" fill=\"none\" stroke=\"{}\" stroke-width=\"{:.1f}\"/>\n", a.x, a.y,
                       path, color(id), width);
  }
  const char* color(LinkId id) const {
    if (nvlink(id)) return kNvlinkColor;
    return topology_.sharedWithNic(id) ? kSharedColor : kLinkColor;
  }
  // Returns how far the middle of the line between two devices of one row is below them.
  double hang(LinkId id) const { return kHeight / 2 + kRow * std::abs(from(id).x - to(id).x) / (columns_ * kColumn); }

  std::string label(LinkId id) {
    const std::string words = amountText(id);
    if (words.empty()) return {};
    const Box a = from(id), b = to(id);
    if (!nvlink(id)) return text({a.x, a.y - kHeight / 2 - 8}, words, "middle", kFont, true);
    if (topology_.node(topology_.link(id).far).kind == NodeKind::kNvSwitch)
      return text({a.x, a.y + kHeight / 2 + 16}, words, "middle", kFont, true);
    if (a.y == b.y)
      for (const double part : {0.5, 0.35, 0.65, 0.25, 0.75, 0.42, 0.58}) {
        // The point of the curve, which is a parabola.
        const Box at{a.x + part * (b.x - a.x), a.y + 4 * part * (1 - part) * hang(id) + 4};
        if (isFree(at, words)) {
          labels_.push_back(at);
          return text(at, words, "middle", kFont, true);
        }
      }
    listed_.push_back(fmt::format("{}: {}", topology_.nameOfLink(id), words));
    return {};
  }
  bool isFree(const Box& at, const std::string& words) const {
    const double width = static_cast<double>(words.size()) * kFont * kCharacter;
    const auto apart = [&](const Box& other, double otherWidth, double height) {
      return std::abs(other.x - at.x) > (width + otherWidth) / 2 || std::abs(other.y - at.y) > height;
    };
    return std::all_of(boxes_.begin(), boxes_.end(),
                       [&](const auto& each) { return apart(each.second, kWidth, kHeight / 2 + kFont + 4); }) &&
           std::all_of(labels_.begin(), labels_.end(), [&](const Box& each) { return apart(each, width, 2 * kFont); });
  }

  std::string box(NodeId id, const Box& at) const {
    static constexpr const char* kColors[] = {"#eee", "#cde", "#ddd", "#cec", "#ecc", "#cec"};
    const Node& node = topology_.node(id);
    std::vector<std::string> small;
    if (!node.pcie.busId.empty()) small.push_back(shortened(node.pcie.busId, kNameCharacters));
    if (node.kind == NodeKind::kNic && node.mbps > 0) small.push_back(fmt::format("{:.4g} Gbit/s", node.mbps / 1000));
    if (node.kind == NodeKind::kNuma) small.push_back(memoryText(id));
    std::string lines;
    double y = at.y + 4 - 7 * static_cast<double>(small.size());
    lines += text({at.x, y}, shortened(topology_.nameOf(id), kNameCharacters), "middle", kFont);
    for (const std::string& each : small) lines += text({at.x, y += 15}, each, "middle", kSmallFont);
    return fmt::format(
               "<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" rx=\"6\" fill=\"{}\" "
               "stroke=\"#444\" "
               "stroke-width=\"{}\"/>\n",
               at.x - kWidth / 2, at.y - kHeight / 2, kWidth, kHeight, kColors[static_cast<size_t>(node.kind)],
               isRoot(id) ? 4 : 1) +
           lines;
  }
  bool isRoot(NodeId id) const {
    const LocalPlan& plan = report_.decision.best().plan;
    return traffic_ && std::any_of(plan.roots.begin(), plan.roots.end(),
                                   [&](size_t rank) { return plan.placement.ranks[rank].location == id; });
  }
  std::string memoryText(NodeId numa) const {
    for (LinkId id = 0; id < topology_.links().size(); ++id)
      if (!drawn(id) && topology_.link(id).near == numa && !amountText(id).empty()) return "memory " + amountText(id);
    return traffic_ ? "memory unused" : "memory rate unknown";
  }

  // Returns the list of labels without a place, and the legend. Moves `bottom` below them.
  std::string notesAndLegend(double& bottom) const {
    std::string notes;
    const auto add = [&](const std::string& words, const std::string& sample) {
      bottom += kLine;
      notes += sample + text({kMargin + (sample.empty() ? 0 : 40), bottom}, words, "start", kFont);
    };
    const auto sample = [&](const char* stroke) {
      return fmt::format("<path d=\"M{0:.0f} {2:.0f}H{1:.0f}\" stroke=\"{3}\" stroke-width=\"4\"/>\n", kMargin,
                         kMargin + 30, bottom + kLine - 4, stroke);
    };
    for (const std::string& each : listed_) add(each, {});
    add("PCIe, and links between CPUs", sample(kLinkColor));
    add("PCIe that a GPU and a NIC share", sample(kSharedColor));
    if (hanging_) add("NVLink", sample(kNvlinkColor));
    if (traffic_) {
      add("Numbers: bytes towards the CPU / away from it; memory: written / read. The width grows with the larger.",
          {});
      if (!report_.decision.best().plan.roots.empty()) add("A thick frame marks a root.", {});
    } else {
      add("Numbers: the rate of a link in each direction. The width grows with the rate.", {});
    }
    return notes;
  }

  // Text that may be on a line has a white background.
  static std::string text(const Box& at, const std::string& words, const char* anchor, double font,
                          bool background = false) {
    const double width = static_cast<double>(words.size()) * font * 0.6;
    const std::string behind =
        background
            ? fmt::format("<rect x=\"{:.0f}\" y=\"{:.0f}\" width=\"{:.0f}\" height=\"{:.0f}\" fill=\"white\"/>\n",
                          at.x - width / 2, at.y - font, width, font + 3)
            : std::string();
    return behind + fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"{}\"{}>{}</text>\n", at.x, at.y, anchor,
                                font == kFont ? "" : fmt::format(" font-size=\"{}\"", font), xmlEscaped(words));
  }

  static constexpr const char *kLinkColor = "#888", *kSharedColor = "#c33", *kNvlinkColor = "#7a3";

  const MachineReport& report_;
  const Topology& topology_;
  const bool traffic_;
  std::map<NodeId, Box> boxes_;
  std::vector<Box> labels_;          // of NVLinks
  std::vector<std::string> listed_;  // labels without a place
  double columns_ = 0, deepest_ = 0, most_ = 0;
  bool hanging_ = false;  // there are NVLinks, which are drawn below the devices
};

}  // namespace

std::string showSvg(const MachineReport& report) { return Drawing(report, false).draw(); }
std::string planSvg(const MachineReport& report) { return Drawing(report, true).draw(); }

}  // namespace bps
