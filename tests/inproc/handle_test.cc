// What a bpsComm_t points to.
#include "src/api/comm_handle.h"

#include <gtest/gtest.h>

namespace bps {
namespace {

// Who asks while another thread frees it would free it again.
TEST(Handle, AHandleBeingFreedCannotBeAcquired) {
  bpsComm handle;
  EXPECT_TRUE(HandleReference::acquire(&handle).ok());
  handle.references = 0;
  bpsResult_t state = bpsSuccess;
  EXPECT_EQ(bpsCommGetAsyncError(&handle, &state), bpsInvalidArgument);
  EXPECT_STREQ(bpsGetLastError(nullptr), "bpsCommGetAsyncError: comm is being freed");
}

}  // namespace
}  // namespace bps
