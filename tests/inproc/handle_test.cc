// The object behind a bpsComm_t.
#include "src/api/comm_handle.h"

#include <gtest/gtest.h>

namespace bps {
namespace {

// Otherwise a thread that acquires the handle while another thread frees it would free it twice.
TEST(Handle, HandleBeingFreedCannotBeAcquired) {
  bpsComm handle;
  EXPECT_TRUE(HandleReference::acquire(&handle).ok());
  handle.references = 0;
  bpsResult_t state = bpsSuccess;
  EXPECT_EQ(bpsCommGetAsyncError(&handle, &state), bpsInvalidArgument);
  EXPECT_STREQ(bpsGetLastError(nullptr), "bpsCommGetAsyncError: comm is being freed");
}

}  // namespace
}  // namespace bps
