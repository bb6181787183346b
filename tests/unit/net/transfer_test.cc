// Sends messages through libnccl-net-bps.so on loopback. The exact bytes must arrive for any size, and for any order of
// posted sends and receives.
#include <deque>

#include "src/net/plugin_adapter.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

class Transfer : public ::testing::TestWithParam<Carrier> {
 protected:
  std::shared_ptr<net::Plugin> plugin_ = loadBpsPlugin(GetParam());
  CommPair pair_ = connectPair(*plugin_);
};

TEST_P(Transfer, DeliversSizesAroundEveryBoundary) {
  for (size_t size : {size_t{0}, size_t{1}, size_t{7}, size_t{8}, size_t{9}, size_t{16376}, size_t{16377},
                      size_t{16384}, size_t{65536}, (size_t{1} << 20) - 8, size_t{1} << 20, (size_t{1} << 20) + 1})
    EXPECT_TRUE(transfers(pair_, randomBytes(size, static_cast<unsigned>(size)), size)) << size;
}

TEST_P(Transfer, DeliversRandomSizesIntoLargerBuffers) {
  std::minstd_rand random(7);
  for (unsigned i = 0; i < 300; ++i) {
    const size_t size = random() % (size_t{1} << (random() % 19));
    ASSERT_TRUE(transfers(pair_, randomBytes(size, i), size + random() % 100)) << size;
  }
}

TEST_P(Transfer, DeliversALargeMessage) {
  EXPECT_TRUE(transfers(pair_, randomBytes(size_t{64} << 20, 3), size_t{64} << 20));
}

TEST_P(Transfer, ThirtyTwoRequestsInFlightComplete) {
  std::vector<std::vector<uint8_t>> sent, got;
  std::vector<Request> sends, receives;
  for (unsigned i = 0; i < 32; ++i) {
    sent.push_back(randomBytes(i % 3 == 0 ? 200000 : i, i));
    got.emplace_back(200000);
    receives.push_back(valueOf(pair_.receiver->irecv(got[i].data(), got[i].size(), nullptr)));
    sends.push_back(valueOf(pair_.sender->isend(sent[i].data(), sent[i].size(), nullptr)));
    ASSERT_TRUE(sends.back() && receives.back()) << i;
  }
  size_t done = 0, sentOff = 0;
  const Deadline deadline = Deadline::in(kTestTimeout);
  while (done < 32 && !deadline.passed()) {
    if (sentOff < 32 && valueOf(pair_.sender->test(sends[sentOff])).done) ++sentOff;
    const Completion received = valueOf(pair_.receiver->test(receives[done]));
    if (!received.done) continue;
    got[done].resize(received.bytes);
    ASSERT_EQ(got[done], sent[done]) << done;
    ++done;
  }
  EXPECT_EQ(done, 32U);
}

// The test posts random numbers of sends and receives alternately, so that sometimes the sender is ahead and sometimes
// the receiver.
TEST_P(Transfer, SendAndReceivePostedAtDifferentTimesComplete) {
  std::minstd_rand random(5);
  std::deque<std::pair<Request, std::vector<uint8_t>>> sends, receives;
  unsigned sent = 0, checked = 0;
  const unsigned total = 500;
  const Deadline deadline = Deadline::in(kTestTimeout);
  while (checked < total && !deadline.passed()) {
    for (size_t n = random() % 5; n > 0 && sends.size() < 32 && sent < total; --n, ++sent) {
      std::vector<uint8_t> bytes = randomBytes(sent * 37 % 4001, sent);
      const Request request = valueOf(pair_.sender->isend(bytes.data(), bytes.size(), nullptr));
      sends.emplace_back(request, std::move(bytes));
    }
    for (size_t n = random() % 5; n > 0 && receives.size() < 32; --n) {
      std::vector<uint8_t> room(4001);
      const Request request = valueOf(pair_.receiver->irecv(room.data(), room.size(), nullptr));
      receives.emplace_back(request, std::move(room));
    }
    if (!sends.empty() && valueOf(pair_.sender->test(sends.front().first)).done) sends.pop_front();
    if (receives.empty()) continue;
    const Completion received = valueOf(pair_.receiver->test(receives.front().first));
    if (!received.done) continue;
    receives.front().second.resize(received.bytes);
    ASSERT_EQ(receives.front().second, randomBytes(checked * 37 % 4001, checked));
    receives.pop_front();
    ++checked;
  }
  EXPECT_EQ(checked, total);
}

TEST_P(Transfer, OversizeMessageFailsItsReceive) {
  std::vector<uint8_t> bytes(101), room(100);
  const Request receive = valueOf(pair_.receiver->irecv(room.data(), room.size(), nullptr));
  const Request send = valueOf(pair_.sender->isend(bytes.data(), bytes.size(), nullptr));
  EXPECT_TRUE(finish(*pair_.sender, send).ok());
  Result<size_t> outcome = finish(*pair_.receiver, receive);
  ASSERT_FALSE(outcome.ok());
  EXPECT_EQ(outcome.error().code(), Code::kInvalidUsage);
  EXPECT_NE(std::string(outcome.error().message()).find("101 bytes into a receive of 100"), std::string::npos)
      << outcome.error().message();
}

BPS_OVER_BOTH(Transfer);

// A net plugin that registers GPU memory only by address. Registration as a dma-buf fails.
class NoDmaBufs final : public net::PluginAdapter {
 public:
  Status init(uint64_t) override { return {}; }
  Result<net::DeviceInfo> device(int) override { return net::DeviceInfo{}; }
  Result<void*> listen(int, net::Handle&) override { return nullptr; }
  Result<void*> connect(int, net::Handle&) override { return nullptr; }
  Result<void*> accept(void*) override { return nullptr; }
  Result<void*> registerMemory(void*, void*, size_t) override { return nullptr; }
  Result<void*> registerGpu(void*, const net::GpuRegion&, bool asDmaBuf) override {
    if (asDmaBuf) return Status(Code::kSystem, "no dma-bufs");
    return static_cast<void*>(this);
  }
  void deregister(void*, void*) override {}
  Result<void*> isend(void*, void*, size_t, void*) override { return nullptr; }
  Result<void*> irecv(void*, void*, size_t, void*) override { return nullptr; }
  Result<void*> flush(void*, void*, size_t, void*) override { return nullptr; }
  Result<Completion> test(void*) override { return Completion{}; }
  void close(void*, net::RawKind) override {}
};

TEST(GpuRegistration, FallsBackToAddressIfDmaBufIsRefused) {
  const auto adapter = std::make_shared<NoDmaBufs>();
  Comm comm(adapter, nullptr, true);
  uint8_t byte = 0;
  const net::GpuRegion region{&byte, 1, 7};
  EXPECT_EQ(valueOf(comm.registerGpu(region, {.byAddress = true, .asDmaBuf = true})), adapter.get());
  const Result<void*> refused = comm.registerGpu(region, {.byAddress = false, .asDmaBuf = true});
  ASSERT_FALSE(refused.ok());
  EXPECT_STREQ(refused.error().message(), "no dma-bufs");
}

}  // namespace
}  // namespace bps::test
