// HttpRequest: parses the request of a metrics client as its bytes arrive, and makes the reply. An
// HttpRequest does no I/O.
#pragma once
#include <functional>
#include <string>
#include <string_view>

namespace bps {

// The pages of a process. Each function may be called on the thread of the MetricsServer.
struct HttpPages {
  std::function<std::string()> metrics;    // /metrics and /: the counters in Prometheus' text format
  std::function<std::string()> unhealthy;  // /healthz: why the process needs a restart; empty if it is healthy
  std::function<std::string()> unready;    // /readyz: why the process takes no new work; empty if it takes work
};

class HttpRequest {
 public:
  static constexpr size_t kMaxRequestBytes = 4096;

  // Appends the next bytes of the request. Returns true if the request is complete or too long.
  bool take(std::string_view bytes);
  // Returns the reply to a request for which take() has returned true. Calls one function of `pages` for a GET or HEAD
  // request of a page, and none for any other request.
  std::string answer(const HttpPages& pages) const;

 private:
  std::string_view line() const { return std::string_view(bytes_).substr(0, bytes_.find_first_of("\r\n")); }

  std::string bytes_;
  bool complete_ = false;
};

}  // namespace bps
