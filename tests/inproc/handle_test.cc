// The object to which a bpsComm_t handle points.
#include "src/api/comm_handle.h"

#include <gtest/gtest.h>

namespace bps {
namespace {

// If a thread could acquire a handle while another thread frees it, the handle would be freed
// twice.
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
