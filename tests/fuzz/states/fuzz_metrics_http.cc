// Fuzzes the parser of HTTP requests for the metrics page, with a request that arrives in pieces. The first byte of the
// input selects the size of the pieces. Memory must stay bounded, and every complete request must get a complete
// answer.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>

#include "src/metrics/http_request.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  const size_t piece = data[0] + 1U;
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  bps::HttpRequest request;
  bool whole = false;
  for (size_t at = 0; at < bytes.size() && !whole; at += piece) whole = request.take(bytes.substr(at, piece));
  if (!whole && bytes.size() >= bps::HttpRequest::kMaxRequestBytes) std::abort();
  if (!whole) return 0;
  int asked = 0;
  const auto page = [&] {
    ++asked;
    return std::string();
  };
  const std::string answer = request.answer({[&] { return page() + "bps_jobs 1\n"; }, page, page});
  const size_t header = answer.find("\r\n\r\n");
  if (answer.substr(0, 9) != "HTTP/1.0 " || header == std::string::npos) std::abort();
  const bool good = answer.substr(9, 3) == "200";
  if (good != (asked == 1) || asked > 1) std::abort();
  if (!good && header + 4 != answer.size()) std::abort();
  return 0;
}
