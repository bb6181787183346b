// Tests that crc32c() gives published values, and that both of its implementations agree.
#include "src/base/checksum/crc32c.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <string_view>
#include <vector>

namespace bps {
namespace {

std::vector<uint8_t> ramp(size_t bytes) {
  std::vector<uint8_t> data(bytes);
  std::iota(data.begin(), data.end(), uint8_t{0});
  return data;
}

// The expected values are from RFC 3720, section B.4, and from the CRC catalogue ("123456789").
TEST(Crc32c, GivesThePublishedValues) {
  EXPECT_EQ(crc32c("", 0), 0U);
  EXPECT_EQ(crc32c("123456789", 9), 0xe3069283U);
  EXPECT_EQ(crc32c(std::vector<uint8_t>(32, 0).data(), 32), 0x8a9136aaU);
  EXPECT_EQ(crc32c(std::vector<uint8_t>(32, 0xff).data(), 32), 0x62a8ab43U);
  EXPECT_EQ(crc32c(ramp(32).data(), 32), 0x46dd794eU);
}

TEST(Crc32c, TablesGiveThePublishedValues) {
  EXPECT_EQ(crc::tableCrc32c("123456789", 9, 0), 0xe3069283U);
  EXPECT_EQ(crc::tableCrc32c(ramp(32).data(), 32, 0), 0x46dd794eU);
}

TEST(Crc32c, InstructionMatchesTheTables) {
  if (!crc::hardwareAvailable()) GTEST_SKIP() << "this CPU has no instruction for CRC32C";
  std::mt19937 random(1);
  std::vector<uint8_t> data(70000);
  for (uint8_t& byte : data) byte = static_cast<uint8_t>(random());
  for (size_t bytes = 0; bytes < data.size(); bytes += 1 + bytes / 7)
    for (size_t offset = 0; offset < 9 && offset + bytes <= data.size(); ++offset)
      ASSERT_EQ(crc::hardwareCrc32c(data.data() + offset, bytes, 77), crc::tableCrc32c(data.data() + offset, bytes, 77))
          << bytes << " bytes from " << offset;
}

TEST(Crc32c, ContinuesFromAPreviousChecksum) {
  const std::vector<uint8_t> data = ramp(20000);
  const uint32_t whole = crc32c(data.data(), data.size());
  for (size_t cut = 0; cut <= data.size(); cut += 777)
    EXPECT_EQ(crc32c(data.data() + cut, data.size() - cut, crc32c(data.data(), cut)), whole) << cut;
}

TEST(Crc32c, EveryFlippedBitChangesIt) {
  std::vector<uint8_t> data = ramp(1000);
  const uint32_t right = crc32c(data.data(), data.size());
  for (size_t bit = 0; bit < data.size() * 8; ++bit) {
    data[bit / 8] = static_cast<uint8_t>(data[bit / 8] ^ (1U << (bit % 8)));
    ASSERT_NE(crc32c(data.data(), data.size()), right) << bit;
    data[bit / 8] = static_cast<uint8_t>(data[bit / 8] ^ (1U << (bit % 8)));
  }
}

}  // namespace
}  // namespace bps
