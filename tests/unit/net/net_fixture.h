// Helpers for tests of connections: bps's own net plugin on loopback, pairs of connected ends, and waits with a
// deadline.
#pragma once
#include <gtest/gtest.h>
#include <poll.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "src/base/deadline.h"
#include "src/net/net.h"

namespace bps::test {

using net::Comm;
using net::Completion;
using net::Request;

inline constexpr std::chrono::seconds kTestTimeout{20};

struct CommPair {
  std::unique_ptr<Comm> sender, receiver;
};

// The carrier of a connection's bytes: TCP or shared memory. selectCarrier() affects all contexts that are opened
// later.
enum class Carrier { kTcp, kMemory };
inline void selectCarrier(Carrier carrier) { ::setenv("NCCL_SHM_DISABLE", carrier == Carrier::kTcp ? "1" : "0", 1); }

inline std::string carrierParamName(const ::testing::TestParamInfo<Carrier>& each) {
  return each.param == Carrier::kTcp ? "tcp" : "memory";
}
// Declares a TEST_P suite whose tests run over TCP and over shared memory.
#define BPS_OVER_BOTH(suite)                                                                                      \
  INSTANTIATE_TEST_SUITE_P(Over, suite, ::testing::Values(bps::test::Carrier::kTcp, bps::test::Carrier::kMemory), \
                           bps::test::carrierParamName)

// Loads bps's own net plugin, limited to loopback. The first plugin of a process finds the devices for all later
// plugins. So every test must load the plugin with loadBpsPlugin().
inline std::shared_ptr<net::Plugin> loadBpsPlugin(Carrier carrier = Carrier::kMemory) {
  selectCarrier(carrier);
  ::setenv("BPS_SOCKET_IFNAME", "lo", 1);
  ::setenv("NCCL_IB_DISABLE", "1", 1);
  Result<std::shared_ptr<net::Plugin>> plugin = net::Plugin::load("", 1);
  EXPECT_TRUE(plugin.ok()) << plugin.error().message();
  return plugin.ok() ? std::move(plugin).value() : nullptr;
}

template <class T>
T valueOf(Result<T> result) {
  if (!result.ok()) {
    ADD_FAILURE() << result.error().message();
    std::abort();  // the test cannot continue without this result
  }
  return std::move(result).value();
}

inline CommPair connectPair(net::Plugin& plugin) {
  const Deadline deadline = Deadline::in(kTestTimeout);
  std::unique_ptr<net::Listener> listener = valueOf(plugin.listen(0));
  std::unique_ptr<net::Connector> connector = plugin.connect(0, listener->handle());
  CommPair pair;
  while ((!pair.sender || !pair.receiver) && !deadline.passed()) {
    if (!pair.sender) pair.sender = valueOf(connector->connect());
    if (!pair.receiver) pair.receiver = valueOf(listener->accept());
  }
  EXPECT_TRUE(pair.sender && pair.receiver);
  return pair;
}

// Calls test() until `request` of `comm` is done. Returns the number of bytes transferred.
inline Result<size_t> finish(Comm& comm, Request request) {
  const Deadline deadline = Deadline::in(kTestTimeout);
  while (!deadline.passed()) {
    Completion completion = BPS_TRY(comm.test(request));
    if (completion.done) return completion.bytes;
    std::this_thread::yield();
  }
  return Status(Code::kTimeout, "not done in time");
}

inline std::vector<uint8_t> randomBytes(size_t count, unsigned seed) {
  std::vector<uint8_t> bytes(count);
  std::minstd_rand random(seed);
  for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random() >> 7);
  return bytes;
}

// Posts a receive and a send, finishes both, and compares the received bytes with the sent ones.
inline ::testing::AssertionResult transfers(CommPair& pair, const std::vector<uint8_t>& bytes, size_t room) {
  std::vector<uint8_t> got(room);
  Request receive = valueOf(pair.receiver->irecv(got.data(), room, nullptr));
  Request send = valueOf(pair.sender->isend(bytes.data(), bytes.size(), nullptr));
  bool sent = false;
  const Deadline deadline = Deadline::in(kTestTimeout);
  while (!deadline.passed()) {
    if (!sent) sent = valueOf(pair.sender->test(send)).done;
    const Completion received = valueOf(pair.receiver->test(receive));
    if (!received.done) continue;
    if (!sent) return ::testing::AssertionFailure() << "received before it was sent";
    if (received.bytes != bytes.size()) return ::testing::AssertionFailure() << received.bytes << " bytes";
    got.resize(received.bytes);
    if (got != bytes) return ::testing::AssertionFailure() << "wrong bytes";
    return ::testing::AssertionSuccess();
  }
  return ::testing::AssertionFailure() << "not done in time";
}

}  // namespace bps::test
