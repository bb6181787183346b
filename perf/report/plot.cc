#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "perf/report/files.h"
#include "src/base/format.h"
#include "src/base/xml.h"

namespace bps::perf {
namespace {

constexpr double kWidth = 900, kLeft = 78, kRight = 28, kTop = 52, kPlotHeight = 380, kLegendLine = 22;
constexpr int kXLabels = 14, kYLabels = 6;
constexpr size_t kMaxFileBytes = size_t{64} << 20;
constexpr std::array<const char*, 8> kColours{"#1f77b4", "#d62728", "#2ca02c", "#9467bd",
                                              "#ff7f0e", "#17becf", "#8c564b", "#7f7f7f"};

std::string sizeText(uint64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"", "K", "M", "G", "T"};
  size_t unit = 0;
  while (bytes >= 1024 && bytes % 1024 == 0 && unit + 1 < kUnits.size()) {
    bytes /= 1024;
    ++unit;
  }
  return fmt::format("{}{}", bytes, kUnits[unit]);
}

// The least of 1, 2 and 5 times a power of ten that is at least `value`.
double niceStep(double value) {
  const double power = std::pow(10, std::floor(std::log10(value)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= value * (1 - 1e-9)) return factor * power;
  return 10 * power;
}

class Plot {
 public:
  Plot(const std::vector<Curve>& curves, double ideal) : curves_(curves), ideal_(ideal) {
    for (const Curve& curve : curves)
      for (const auto& [bytes, busbw] : curve.points) {
        most_ = std::max(most_, busbw);
        sizes_.push_back(bytes);
      }
    std::sort(sizes_.begin(), sizes_.end());
    sizes_.erase(std::unique(sizes_.begin(), sizes_.end()), sizes_.end());
    most_ = std::max(most_, ideal);
    step_ = niceStep((most_ > 0 ? most_ : 1) / kYLabels);
    top_ = step_ * std::max(1.0, std::ceil(most_ / step_ - 1e-9));
  }

  std::string svg(const std::string& title) {
    const double legend = kLegendLine * static_cast<double>(curves_.size() + (ideal_ > 0 ? 1 : 0));
    const double height = kTop + kPlotHeight + 64 + legend;
    text_ = fmt::format(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"{0:g}\" height=\"{1:g}\" viewBox=\"0 0 {0:g} {1:g}\" "
        "font-family=\"DejaVu Sans, Helvetica, Arial, sans-serif\" font-size=\"13\" fill=\"#222\">\n"
        "<rect width=\"{0:g}\" height=\"{1:g}\" fill=\"#fff\"/>\n",
        kWidth, height);
    label(kLeft, 28, title, "start", " font-size=\"16\"");
    axes();
    if (ideal_ > 0) line({kLeft, y(ideal_)}, {kWidth - kRight, y(ideal_)}, "#222", " stroke-dasharray=\"6 4\"");
    for (size_t i = 0; i < curves_.size(); ++i) draw(i);
    drawLegend(kTop + kPlotHeight + 64);
    return text_ + "</svg>\n";
  }

 private:
  double x(uint64_t bytes) const {
    const auto position = [](uint64_t size) { return std::log2(static_cast<double>(std::max<uint64_t>(1, size))); };
    const double first = position(sizes_.front()), span = position(sizes_.back()) - first;
    const double share = span > 0 ? (position(bytes) - first) / span : 0.5;
    return kLeft + 12 + share * (kWidth - kLeft - kRight - 24);
  }
  double y(double busbw) const { return kTop + kPlotHeight * (1 - busbw / top_); }

  void label(double atX, double atY, std::string_view words, const char* anchor, const std::string& more = {}) {
    text_ += fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", atX, atY, anchor, more,
                         xmlEscaped(words));
  }
  struct Point {
    double x, y;
  };
  void line(Point from, Point to, const char* colour, const std::string& more = {}) {
    text_ += fmt::format("<line x1=\"{:.1f}\" y1=\"{:.1f}\" x2=\"{:.1f}\" y2=\"{:.1f}\" stroke=\"{}\"{}/>\n", from.x,
                         from.y, to.x, to.y, colour, more);
  }

  void axes() {
    for (int i = 0; step_ * i <= top_ * (1 + 1e-9); ++i) {
      line({kLeft, y(step_ * i)}, {kWidth - kRight, y(step_ * i)}, i == 0 ? "#222" : "#ddd");
      label(kLeft - 8, y(step_ * i) + 4, fmt::format("{:g}", step_ * i), "end");
    }
    const size_t every = (sizes_.size() + kXLabels - 1) / kXLabels;
    for (size_t i = 0; i < sizes_.size(); i += std::max<size_t>(1, every)) {
      line({x(sizes_[i]), kTop + kPlotHeight}, {x(sizes_[i]), kTop + kPlotHeight + 5}, "#222");
      label(x(sizes_[i]), kTop + kPlotHeight + 20, sizeText(sizes_[i]), "middle");
    }
    label(kLeft + (kWidth - kLeft - kRight) / 2, kTop + kPlotHeight + 42, "size in bytes", "middle");
    const double middle = kTop + kPlotHeight / 2;
    label(20, middle, "busbw in GB/s", "middle", fmt::format(" transform=\"rotate(-90 20 {:.1f})\"", middle));
  }

  static std::string style(size_t i) {
    return fmt::format(" fill=\"none\" stroke-width=\"2\"{}", i < kColours.size() ? "" : " stroke-dasharray=\"3 3\"");
  }

  void draw(size_t i) {
    const char* colour = kColours[i % kColours.size()];
    std::string path;
    for (const auto& [bytes, busbw] : curves_[i].points) path += fmt::format("{:.1f},{:.1f} ", x(bytes), y(busbw));
    text_ += fmt::format("<polyline points=\"{}\" stroke=\"{}\"{}/>\n", path, colour, style(i));
    for (const auto& [bytes, busbw] : curves_[i].points)
      text_ += fmt::format(
          "<circle cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"3\" fill=\"{}\"><title>{}: {} bytes, {:.3f} GB/s</title>"
          "</circle>\n",
          x(bytes), y(busbw), colour, xmlEscaped(curves_[i].name), bytes, busbw);
  }

  void drawLegend(double from) {
    for (size_t i = 0; i < curves_.size(); ++i, from += kLegendLine) {
      line({kLeft, from}, {kLeft + 28, from}, kColours[i % kColours.size()], style(i));
      label(kLeft + 36, from + 4, curves_[i].name, "start");
    }
    if (ideal_ <= 0) return;
    line({kLeft, from}, {kLeft + 28, from}, "#222", " stroke-dasharray=\"6 4\"");
    label(kLeft + 36, from + 4, fmt::format("ideal, {:.3f} GB/s", ideal_), "start");
  }

  const std::vector<Curve>& curves_;
  const double ideal_;
  std::vector<uint64_t> sizes_;
  double most_ = 0, step_ = 1, top_ = 1;
  std::string text_;
};

void add(std::vector<Curve>& curves, const std::string& name, uint64_t bytes, double busbw) {
  if (!std::isfinite(busbw) || busbw < 0) return;
  auto curve = std::find_if(curves.begin(), curves.end(), [&](const Curve& each) { return each.name == name; });
  if (curve == curves.end()) curve = curves.insert(curves.end(), Curve{name, {}});
  curve->points.emplace_back(bytes, busbw);
}

std::string curveName(const std::string& run, const std::string& type, const std::string& op, const char* place) {
  return fmt::format("{}: {} {}, {}", run, type, op, place);
}

}  // namespace

std::vector<Curve> curvesOf(const std::string& run, const std::vector<Row>& rows) {
  std::vector<Curve> curves;
  for (const Row& row : rows) {
    add(curves, curveName(run, row.type, row.op, "out of place"), row.bytes, row.outOfPlace.busbw);
    add(curves, curveName(run, row.type, row.op, "in place"), row.bytes, row.inPlace.busbw);
  }
  return curves;
}

Result<std::vector<Curve>> readCurves(const std::string& path) {
  std::error_code error;
  const auto size = std::filesystem::file_size(path, error);
  std::ifstream file(path, std::ios::binary);
  if (error || !file) return failure(Code::kInvalidArgument, "cannot read {}", path);
  if (size > kMaxFileBytes) return failure(Code::kInvalidArgument, "{}: larger than 64 MiB", path);
  std::string text(size, '\0');
  file.read(text.data(), static_cast<std::streamsize>(size));
  text.resize(static_cast<size_t>(file.gcount()));
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, false);
  std::vector<Curve> curves;
  try {
    for (const auto& result : json.at("results")) {
      const auto type = result.at("type").get<std::string>(), op = result.at("redop").get<std::string>();
      for (const auto& [key, place] : {std::pair{"out_of_place", "out of place"}, std::pair{"in_place", "in place"}}) {
        const auto& busbw = result.at(key).at("bus_bw");
        if (busbw.is_number())
          add(curves, curveName(path, type, op, place), result.at("size").get<uint64_t>(), busbw.get<double>());
      }
    }
  } catch (const nlohmann::json::exception&) {
    return failure(Code::kInvalidArgument, "{}: not the results of bps-perf or nccl-tests in JSON (option -J)", path);
  }
  if (curves.empty()) return failure(Code::kInvalidArgument, "{}: no results", path);
  return curves;
}

std::string plotText(const std::string& title, const std::vector<Curve>& curves, double ideal) {
  if (curves.empty()) return "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"1\" height=\"1\"/>\n";
  return Plot(curves, ideal).svg(title);
}

}  // namespace bps::perf
