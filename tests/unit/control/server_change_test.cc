// Tests what the ranks learn of a change of the servers that does not come to its end.
#include "tests/unit/control/fake_server.h"

namespace bps::test {
namespace {

// A rank that is ready begins no call, so it must learn that the hub has left. Otherwise its next calls would wait
// forever, and not fail.
TEST(ServerChange, AChangeEndsWhenTheHubLeaves) {
  TestServer first, second;
  Cluster cluster(3, withServers({&first, &second}));
  cluster.expectJoined();
  exchangeHandles(cluster);
  second.drain();
  for (size_t r = 0; r < cluster.size(); ++r) {
    const ServerEvent leaving = cluster[r].failures.waitForChange();
    ASSERT_EQ(leaving.kind, ServerEvent::Kind::kLeaving);
    if (r > 0) cluster.plane(r).reply({ServerReply::Kind::kReady, leaving.change, 7, {}, {}});
  }
  std::jthread hub([&] { cluster.plane(0).leave(soon()); });
  for (size_t r = 1; r < cluster.size(); ++r)
    EXPECT_EQ(cluster[r].failures.waitForChange().kind, ServerEvent::Kind::kAborted);
  for (size_t r = 1; r < cluster.size(); ++r) cluster.plane(r).leave(soon());
  hub.join();
}

}  // namespace
}  // namespace bps::test
