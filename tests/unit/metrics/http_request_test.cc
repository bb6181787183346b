#include "src/metrics/http_request.h"

#include <gtest/gtest.h>

namespace bps::test {
namespace {

HttpPages pages(const std::string& unready = "") {
  return {[] { return std::string("bps_jobs 1\n"); }, [] { return std::string(); }, [=] { return unready; }};
}

std::string answerTo(std::string_view text) {
  HttpRequest request;
  bool whole = false;
  for (const char& byte : text) whole = request.take({&byte, 1});
  EXPECT_TRUE(whole) << text;
  const std::string answer = request.answer(pages());
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

TEST(HttpRequest, ProbesAnswerWithTheReason) {
  EXPECT_EQ(answerTo("GET /healthz HTTP/1.1\r\n\r\n"), "HTTP/1.0 200 OK|ok\n");
  EXPECT_EQ(answerTo("HEAD /readyz HTTP/1.1\r\n\r\n"), "HTTP/1.0 200 OK|");
  HttpRequest request;
  ASSERT_TRUE(request.take("GET /readyz HTTP/1.1\r\n\r\n"));
  const std::string answer = request.answer(pages("the server is draining"));
  EXPECT_EQ(answer.substr(0, 13), "HTTP/1.0 503 ") << answer;
  EXPECT_EQ(answer.substr(answer.find("\r\n\r\n") + 4), "the server is draining\n");
}

TEST(HttpRequest, NamesTheMethodsThatItAllows) {
  HttpRequest request;
  ASSERT_TRUE(request.take("POST /metrics HTTP/1.1\r\n\r\n"));
  EXPECT_NE(request.answer(pages()).find("\r\nAllow: GET, HEAD\r\n"), std::string::npos);
}

TEST(HttpRequest, LengthIsBounded) {
  HttpRequest request;
  EXPECT_FALSE(request.take(std::string(HttpRequest::kMaxRequestBytes - 1, 'a')));
  EXPECT_TRUE(request.take("a"));
  EXPECT_EQ(request.answer(pages()).substr(0, 12), "HTTP/1.0 431");
}

}  // namespace
}  // namespace bps::test
