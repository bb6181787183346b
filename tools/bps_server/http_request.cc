#include "tools/bps_server/http_request.h"

#include <algorithm>

#include "src/base/format.h"

namespace bps {
namespace {

std::string reply(std::string_view status, std::string_view body, bool withBody = true) {
  return fmt::format(
      "HTTP/1.0 {}\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{}",
      status, body.size(), withBody ? body : std::string_view());
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

std::string HttpRequest::answer(const std::function<std::string()>& page) const {
  if (!complete_) return reply("431 Request Header Fields Too Large", "");
  std::string_view rest = line();
  const std::string_view method = nextWord(rest), target = nextWord(rest), version = nextWord(rest);
  if (target.empty() || version.substr(0, 5) != "HTTP/" || !rest.empty()) return reply("400 Bad Request", "");
  if (method != "GET" && method != "HEAD") return reply("405 Method Not Allowed", "");
  const std::string_view path = target.substr(0, target.find('?'));
  if (path != "/" && path != "/metrics") return reply("404 Not Found", "");
  return reply("200 OK", page(), method == "GET");
}

}  // namespace bps
