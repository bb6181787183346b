// Tests how bps recognises the real NCCL library by its file name.
#include "src/nccl/real_nccl.h"

#include <gtest/gtest.h>

namespace bps::nccl {
namespace {

TEST(RealNccl, StandaloneLibraryIsRecognisedByName) {
  EXPECT_TRUE(isStandaloneLibrary("/usr/lib/x86_64-linux-gnu/libnccl.so.2.28.9"));
  EXPECT_TRUE(isStandaloneLibrary("libnccl.so.2"));
  EXPECT_FALSE(isStandaloneLibrary("/opt/libnccl/libtorch_cuda.so"));
  EXPECT_FALSE(isStandaloneLibrary(""));
}

}  // namespace
}  // namespace bps::nccl
