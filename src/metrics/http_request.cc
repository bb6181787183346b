#include "src/metrics/http_request.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

struct Reply {
  std::string_view status;
  std::string body{};
  std::string_view header{};  // a further header line, with its end
};

std::string encode(const Reply& reply, bool withBody = true) {
  return fmt::format(
      "HTTP/1.0 {}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\nContent-Length: {}\r\n"
      "{}Connection: close\r\n\r\n{}",
      reply.status, reply.body.size(), reply.header, withBody ? std::string_view(reply.body) : std::string_view());
}

// The reply of a probe: 200 if there is no reason against it.
Reply verdict(const std::string& reason) {
  if (reason.empty()) return {"200 OK", "ok\n"};
  return {"503 Service Unavailable", reason + "\n"};
}

Reply pageAt(std::string_view path, const HttpPages& pages) {
  if (path == "/" || path == "/metrics") return {"200 OK", pages.metrics()};
  if (path == "/healthz") return verdict(pages.unhealthy());
  if (path == "/readyz") return verdict(pages.unready());
  return {"404 Not Found"};
}

// Returns the text before the next space. Removes that text and the space from `text`.
std::string_view nextWord(std::string_view& text) {
  const size_t end = text.find(' ');
  const std::string_view word = text.substr(0, end);
  text = end == std::string_view::npos ? std::string_view() : text.substr(end + 1);
  return word;
}

}  // namespace

bool HttpRequest::take(std::string_view bytes) {
  bytes_.append(bytes.substr(0, kMaxRequestBytes - std::min(kMaxRequestBytes, bytes_.size())));
  complete_ = bytes_.find("\r\n\r\n") != std::string::npos || bytes_.find("\n\n") != std::string::npos;
  return complete_ || bytes_.size() >= kMaxRequestBytes;
}

std::string HttpRequest::answer(const HttpPages& pages) const {
  if (!complete_) return encode({"431 Request Header Fields Too Large"});
  std::string_view rest = line();
  const std::string_view method = nextWord(rest), target = nextWord(rest), version = nextWord(rest);
  if (target.empty() || version.substr(0, 5) != "HTTP/" || !rest.empty()) return encode({"400 Bad Request"});
  if (method != "GET" && method != "HEAD")
    return encode({.status = "405 Method Not Allowed", .header = "Allow: GET, HEAD\r\n"});
  return encode(pageAt(target.substr(0, target.find('?')), pages), method == "GET");
}

}  // namespace bps
