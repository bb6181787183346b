// Draws a part of a timeline: a group of rows for each process, a row for each track, and a legend.
#include <algorithm>
#include <cmath>

#include "src/base/format.h"
#include "src/base/xml.h"
#include "tools/bps_trace/timeline.h"

namespace bps::trace {
namespace {

constexpr double kNames = 225, kTimes = 900, kRow = 16, kGap = 26, kTop = 46, kLetter = 6.2;
constexpr double kLeastStep = 1.5;  // a slice that ends less far behind the one before is not drawn
struct Look {
  const char *name, *color;
};
constexpr Look kLooks[] = {{"call", "#b8c4d6"},   {"push", "#4e79a7"}, {"wait", "#e3c8c5"},    {"sum", "#d1495b"},
                           {"answer", "#59a14f"}, {"copy", "#b07aa1"}, {"exchange", "#edae49"}};

class Picture {
 public:
  Picture(const Timeline& timeline, uint64_t from, uint64_t until)
      : timeline_(timeline), from_(from), until_(std::max(until, from + 1)) {}

  std::string draw() {
    double y = kTop;
    std::string rows;
    for (const TimelineProcess& process : timeline_.processes) {
      rows += text(4, y + 12, "font-weight=\"bold\"", process.name);
      y += kRow + 2;
      for (const Track& track : process.tracks)
        if (visible(track)) rows += row(track, std::exchange(y, y + kRow));
      y += kGap - kRow;
    }
    return fmt::format(
               "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
               "height=\"{1:.0f}\" font-family=\"sans-serif\" font-size=\"11\">\n"
               "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n",
               kNames + kTimes + 20, y + 10) +
           legend() + scale(y) + rows + "</svg>\n";
  }

 private:
  bool visible(const Track& track) const {
    return std::any_of(track.slices.begin(), track.slices.end(),
                       [&](const Slice& slice) { return slice.until > from_ && slice.from < until_; });
  }
  double x(uint64_t time) const {
    const double part =
        static_cast<double>(std::clamp(time, from_, until_) - from_) / static_cast<double>(until_ - from_);
    return kNames + kTimes * part;
  }
  static std::string text(double x, double y, const char* attributes, const std::string& text) {
    return fmt::format("<text x=\"{:.0f}\" y=\"{:.0f}\" {}>{}</text>\n", x, y, attributes, xmlEscaped(text));
  }

  std::string row(const Track& track, double y) const {
    std::string out = text(14, y + 11, "fill=\"#555\"", track.name);
    double drawn = 0;  // what is drawn of the row ends here
    for (const Slice& slice : track.slices) {
      if (slice.until <= from_ || slice.from >= until_ || x(slice.until) < drawn + kLeastStep) continue;
      drawn = x(slice.until);
      const double left = x(slice.from), width = std::max(0.6, x(slice.until) - left);
      out += fmt::format(
          "<rect x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" height=\"{:.0f}\" fill=\"{}\"><title>{}, {} bytes, "
          "{:.1f} us</title></rect>\n",
          left, y + 1, width, kRow - 2, kLooks[static_cast<size_t>(slice.kind)].color, xmlEscaped(slice.name),
          slice.bytes, static_cast<double>(slice.until - slice.from) / 1e3);
      if (width > kLetter * static_cast<double>(slice.name.size()) + 4 && slice.kind != Slice::Kind::kPush)
        out += text(left + 2, y + 11, "font-size=\"10\"", slice.name);
    }
    return out;
  }

  static std::string legend() {
    std::string out;
    double left = kNames;
    for (const Look& look : kLooks) {
      out += fmt::format("<rect x=\"{:.0f}\" y=\"6\" width=\"12\" height=\"12\" fill=\"{}\"/>\n", left, look.color);
      out += text(left + 16, 16, "", look.name);
      left += 90;
    }
    return out;
  }

  // About eight lines at round times.
  std::string scale(double bottom) const {
    const double micros = static_cast<double>(until_ - from_) / 1e3;
    double step = std::pow(10, std::floor(std::log10(std::max(micros, 1e-3) / 8)));
    for (const double factor : {2.0, 2.5, 2.0})
      if (micros / step > 8) step *= factor;
    std::string out;
    for (double at = 0; at <= micros; at += step) {
      const double line = kNames + kTimes * at / micros;
      out += fmt::format("<path d=\"M{0:.1f} {1}V{2:.0f}\" stroke=\"#ddd\"/>\n", line, kTop - 8, bottom);
      out += text(line, kTop - 12, "text-anchor=\"middle\" fill=\"#555\"",
                  micros < 2000 ? fmt::format("{:.4g} us", at) : fmt::format("{:.4g} ms", at / 1e3));
    }
    return out;
  }

  const Timeline& timeline_;
  const uint64_t from_, until_;
};

}  // namespace

std::string timelineSvg(const Timeline& timeline, uint64_t from, uint64_t until) {
  return Picture(timeline, from, until).draw();
}

}  // namespace bps::trace
