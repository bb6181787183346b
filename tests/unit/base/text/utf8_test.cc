#include "src/base/text/utf8.h"

#include <gtest/gtest.h>

namespace bps {
namespace {

constexpr const char* kBad = "\xEF\xBF\xBD";

TEST(Utf8, ValidTextStays) {
  for (const char* text :
       {"", "abc", "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80", "\xf4\x8f\xbf\xbf", "\xed\x9f\xbf"})
    EXPECT_EQ(validUtf8(text), text);
}

TEST(Utf8, InvalidBytesAreReplacedOneByOne) {
  EXPECT_EQ(validUtf8("a\xff"), std::string("a") + kBad);
  EXPECT_EQ(validUtf8("\xc3"), kBad);                                     // cut off
  EXPECT_EQ(validUtf8("\xc0\x80"), std::string(kBad) + kBad);             // overlong
  EXPECT_EQ(validUtf8("\xed\xa0\x80"), std::string(kBad) + kBad + kBad);  // a surrogate
  EXPECT_EQ(validUtf8("\xf4\x90\x80\x80").size(), 12U);                   // above U+10FFFF
  EXPECT_EQ(validUtf8("\xe2\x82z"), std::string(kBad) + kBad + "z");
}

TEST(Utf8, JsonEscapesQuotesAndControlCharacters) {
  EXPECT_EQ(jsonEscaped("a\"\\\n\x7f\x01"), "a\\\"\\\\\\u000a\\u007f\\u0001");
}

}  // namespace
}  // namespace bps
