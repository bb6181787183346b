#include "tools/bps_server/http_request.h"

#include <gtest/gtest.h>

namespace bps::test {
namespace {

std::string answerTo(std::string_view text) {
  HttpRequest request;
  bool whole = false;
  for (const char& byte : text) whole = request.take({&byte, 1});
  EXPECT_TRUE(whole) << text;
  const std::string answer = request.answer([] { return std::string("bps_jobs 1\n"); });
  return answer.substr(0, answer.find("\r\n")) + "|" + answer.substr(answer.find("\r\n\r\n") + 4);
}

TEST(HttpRequest, IsAnsweredByMethodAndPath) {
  EXPECT_EQ(answerTo("GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n"), "HTTP/1.0 200 OK|bps_jobs 1\n");
  EXPECT_EQ(answerTo("GET /?name=x HTTP/1.0\n\n"), "HTTP/1.0 200 OK|bps_jobs 1\n");
  EXPECT_EQ(answerTo("HEAD / HTTP/1.0\r\n\r\n"), "HTTP/1.0 200 OK|");
  EXPECT_EQ(answerTo("POST /metrics HTTP/1.0\r\n\r\n"), "HTTP/1.0 405 Method Not Allowed|");
  EXPECT_EQ(answerTo("GET /other HTTP/1.0\r\n\r\n"), "HTTP/1.0 404 Not Found|");
  EXPECT_EQ(answerTo("GET /\r\n\r\n"), "HTTP/1.0 400 Bad Request|");
  EXPECT_EQ(answerTo("\r\n\r\n"), "HTTP/1.0 400 Bad Request|");
}

TEST(HttpRequest, LengthIsBounded) {
  HttpRequest request;
  EXPECT_FALSE(request.take(std::string(HttpRequest::kMaxRequestBytes - 1, 'a')));
  EXPECT_TRUE(request.take("a"));
  EXPECT_EQ(request.answer([] { return std::string(); }).substr(0, 12), "HTTP/1.0 431");
}

}  // namespace
}  // namespace bps::test
