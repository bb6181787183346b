// HttpRequest: parses the request of a metrics client as its bytes arrive, and makes the reply. An
// HttpRequest does no I/O.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace bps {

class HttpRequest {
 public:
  static constexpr size_t kMaxRequestBytes = 4096;

  // Appends the next bytes of the request. Returns true if the request is complete or too long.
  bool take(std::string_view bytes);
  // Returns the reply to a request for which take() has returned true. Calls `page` only for GET or
  // HEAD of / and /metrics.
  std::string answer(const std::function<std::string()>& page) const;

 private:
  std::string_view line() const { return std::string_view(bytes_).substr(0, bytes_.find_first_of("\r\n")); }

  std::string bytes_;
  bool complete_ = false;
};

}  // namespace bps
