// Messages through the real libnccl-net-bps.so on loopback: right to the byte, in any order of posting, of any size.
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

class Transfer : public ::testing::Test {
 protected:
  std::shared_ptr<net::Plugin> plugin_ = loadOurs();
  Pair pair_ = connectPair(*plugin_);
};

TEST_F(Transfer, SizesAroundEveryBoundary) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{16376}, size_t{16377},
                      size_t{16384}, size_t{65536}, (size_t{1} << 20) - 8, size_t{1} << 20, (size_t{1} << 20) + 1})
    EXPECT_TRUE(transfers(pair_, randomBytes(size, static_cast<unsigned>(size)), size)) << size;
}

TEST_F(Transfer, RandomSizesAndRoom) {
  std::minstd_rand random(7);
  for (unsigned i = 0; i < 300; ++i) {
    const size_t size = random() % (size_t{1} << (random() % 19));
    ASSERT_TRUE(transfers(pair_, randomBytes(size, i), size + random() % 100)) << size;
  }
}

TEST_F(Transfer, LargeMessage) { EXPECT_TRUE(transfers(pair_, randomBytes(size_t{64} << 20, 3), size_t{64} << 20)); }

}  // namespace
}  // namespace bps::test
