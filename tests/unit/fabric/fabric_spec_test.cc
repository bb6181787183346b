#include "src/fabric/fabric_spec.h"

#include <gtest/gtest.h>

namespace bps::test {
namespace {

std::string errorOf(const std::string& text) {
  const Result<std::optional<FabricSpec>> spec = parseFabric(text);
  return spec.ok() ? "" : spec.error().message();
}

TEST(FabricSpec, ReadsAllOptions) {
  const auto spec = std::move(parseFabric("bcube:n=3,k=2,addresses=/etc/a,address=21,relay=4711")).value();
  ASSERT_TRUE(spec);
  EXPECT_EQ(spec->shape.text(), "BCube(3,2)");
  EXPECT_EQ(spec->addressFile, "/etc/a");
  EXPECT_EQ(spec->address, "21");
  EXPECT_EQ(spec->relayPort, 4711);
  EXPECT_EQ(std::move(parseFabric("hypercube:k=3")).value()->shape.text(), "BCube(2,3)");
  EXPECT_FALSE(std::move(parseFabric("")).value());
}

TEST(FabricSpec, NamesTheTextAndWhatIsWrong) {
  const std::pair<const char*, const char*> cases[] = {
      {"ring:n=3", "\"ring\" is no kind of fabric"},
      {"bcube:n=3", "k is missing"},
      {"bcube:n=3,k=2,n=3", "\"n\" is given twice"},
      {"bcube:n=3,k=2,x", "\"x\" is not NAME=VALUE"},
      {"bcube:n=3,k=2,x=1", "\"x\" is no option"},
      {"bcube:n=three,k=2", "n=three is not a number"},
      {"bcube:n=3,k=9", "k=9: must be 1 to 8"},
      {"bcube:n=3,k=2,relay=70000", "relay=70000 is not a number up to 65535"},
      {"bcube:n=3,k=2,address=31", "\"31\" is not an address of BCube(3,2)"},
      {"hypercube:n=2,k=3", "a hypercube has n=2"},
  };
  for (const auto& [text, why] : cases) {
    EXPECT_TRUE(errorOf(text).starts_with("BPS_FABRIC=" + std::string(text) + ": ")) << errorOf(text);
    EXPECT_NE(errorOf(text).find(why), std::string::npos) << errorOf(text);
  }
}

}  // namespace
}  // namespace bps::test
