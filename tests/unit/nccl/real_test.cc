// Where the real NCCL is.
#include "src/nccl/real.h"

#include <gtest/gtest.h>

namespace bps::nccl {
namespace {

TEST(RealNccl, IsALibraryOfItsOwnByItsName) {
  EXPECT_TRUE(isLibraryOfItsOwn("/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.9"));
  EXPECT_TRUE(isLibraryOfItsOwn("libnccl.so.2"));
  EXPECT_FALSE(isLibraryOfItsOwn("/opt/libnccl/libtorch_cuda.so"));
  EXPECT_FALSE(isLibraryOfItsOwn(""));
}

}  // namespace
}  // namespace bps::nccl
