#include "topo/cpu_set.h"

#include <gtest/gtest.h>

namespace bps {
namespace {

std::string listOfMask(const char* mask) {
  auto set = CpuSet::fromMask(mask);
  return set.ok() ? std::move(set).value().list() : std::string("error: ") + set.error().message();
}

TEST(CpuSet, ReadsTheMasksOfNcclSysfsAndHwloc) {
  EXPECT_EQ(listOfMask("ff"), "0-7");
  EXPECT_EQ(listOfMask("0x00000005"), "0,2");
  EXPECT_EQ(listOfMask("0000ffff,00000000"), "32-47");
  EXPECT_EQ(listOfMask("0xf,,0x1"), "0,64-67");
  EXPECT_EQ(listOfMask("ff00000000"), "32-39");
  EXPECT_EQ(listOfMask("F0"), "4-7");
  EXPECT_EQ(listOfMask(""), "");
  EXPECT_EQ(listOfMask("0"), "");
}

TEST(CpuSet, RejectsInvalidMasks) {
  EXPECT_NE(listOfMask("0xf...f").find("not hexadecimal"), std::string::npos);
  EXPECT_NE(listOfMask("1,123456789").find("more than 8 digits"), std::string::npos);
  EXPECT_NE(listOfMask(("1" + std::string(3000, '0')).c_str()).find("more than 8192 CPUs"), std::string::npos);
}

TEST(CpuSet, ListAndMaskRoundTrip) {
  for (const char* mask : {"00000000", "000000ff", "0000000f,00000000,80000001"}) {
    auto set = CpuSet::fromMask(mask);
    ASSERT_TRUE(set.ok());
    EXPECT_EQ(std::move(set).value().mask(), mask);
  }
}

TEST(CpuSet, PartsAreContiguousAndCoverTheSet) {
  for (unsigned cpus = 1; cpus < 40; ++cpus) {
    const CpuSet all = CpuSet::range(3, cpus);
    for (size_t parts = 1; parts <= cpus; ++parts) {
      std::vector<unsigned> together;
      for (size_t i = 0; i < parts; ++i) {
        const CpuSet part = all.part(i, parts);
        EXPECT_GE(part.size(), cpus / parts);
        EXPECT_LE(part.size(), cpus / parts + 1);
        together.insert(together.end(), part.cpus().begin(), part.cpus().end());
      }
      EXPECT_EQ(together, all.cpus());
    }
    EXPECT_EQ(all.part(1, cpus + 1), all);
  }
}

}  // namespace
}  // namespace bps
