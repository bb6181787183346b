// HttpRequest: the one request of a client of the metrics page, as its bytes come in, and the answer to it. Pure.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace bps {

class HttpRequest {
 public:
  static constexpr size_t kMaxRequestBytes = 4096;

  // Takes the next bytes; true: the request is whole, or too long.
  bool take(std::string_view bytes);
  // The whole answer to a request that is whole. `page` is asked for GET of / and /metrics only.
  std::string answer(const std::function<std::string()>& page) const;

 private:
  std::string_view line() const { return std::string_view(bytes_).substr(0, bytes_.find_first_of("\r\n")); }

  std::string bytes_;
  bool whole_ = false;
};

}  // namespace bps
