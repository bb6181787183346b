#include "src/wire/split_request.h"

#include <gtest/gtest.h>

namespace bps {
namespace {

Roster threeRanks() {
  Roster roster;
  roster.ranks = {{"a", "hostA", 1, 0, 0}, {"b", "hostB", 2, 1, 0}, {"c", "hostC", 3, 2, 0}};
  return roster;
}

TEST(SplitRequest, GroupsAreInTheOrderOfTheirKeys) {
  const std::vector<Blob> wishes{SplitRequest{1, 5}.bytes(), SplitRequest{-1, 0}.bytes(), SplitRequest{1, -5}.bytes()};
  EXPECT_EQ(splitGroup(wishes, 1, threeRanks()).value(), (std::vector<uint32_t>{2, 0}));
  EXPECT_EQ(splitGroup(wishes, -1, threeRanks()).value(), (std::vector<uint32_t>{1}));
  EXPECT_TRUE(splitGroup(wishes, 7, threeRanks()).value().empty());
}

TEST(SplitRequest, MalformedRequestNamesItsRank) {
  for (const Blob& bad : {Blob{}, Blob{1, 2, 3}, Blob(9)}) {
    const auto group = splitGroup({SplitRequest{1, 0}.bytes(), bad, SplitRequest{1, 0}.bytes()}, 1, threeRanks());
    ASSERT_FALSE(group.ok());
    EXPECT_EQ(std::string(group.error().message()).rfind("rank 1 (hostB, pid 2): its split request: ", 0), 0U)
        << group.error().message();
  }
}

}  // namespace
}  // namespace bps
