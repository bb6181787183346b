#include <cerrno>
#include <fstream>

#include "perf/report/files.h"
#include "src/base/format.h"

namespace bps::perf {
namespace {

std::string cells(const Measurement& m) {
  return fmt::format("{:.3f},{:.6f},{:.6f},{}", m.micros, m.algbw, m.busbw, m.checked ? std::to_string(m.wrong) : "");
}

}  // namespace

std::string csvText(const std::vector<Row>& rows) {
  std::string text =
      "size_bytes,count,type,redop,out_of_place_time_us,out_of_place_algbw_gbps,"
      "out_of_place_busbw_gbps,out_of_place_wrong,in_place_time_us,in_place_algbw_gbps,"
      "in_place_busbw_gbps,in_place_wrong\n";
  for (const Row& row : rows)
    text += fmt::format("{},{},{},{},{},{}\n", row.bytes, row.count, row.type, row.op, cells(row.outOfPlace),
                        cells(row.inPlace));
  return text;
}

Status writeFile(const std::string& option, const std::string& path, const std::string& text) {
  errno = 0;
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return systemFailure(option + " " + path, errno != 0 ? errno : EIO);
  return {};
}

}  // namespace bps::perf
