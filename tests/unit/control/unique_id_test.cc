#include "src/control/unique_id.h"

#include <fstream>

#include "src/control/host_id.h"
#include "src/control/rendezvous/rendezvous_server.h"
#include "tests/support/temp_path.h"
#include "tests/unit/control/cluster.h"

namespace bps::test {
namespace {

TEST(UniqueId, RoundTripsThroughItsBytes) {
  UniqueId id;
  id.address = loopback(4567);
  id.key.fill(9);
  Result<UniqueId> back = UniqueId::parse(id.bytes());
  ASSERT_TRUE(back.ok()) << back.error().message();
  const UniqueId got = std::move(back).value();
  EXPECT_EQ(got.kind, UniqueId::Kind::kHub);
  EXPECT_EQ(got.address.text(), "127.0.0.1:4567");
  EXPECT_EQ(got.key, id.key);
}

TEST(UniqueId, EveryChangedByteIsRefused) {
  UniqueId id;
  id.address = loopback(4567);
  const auto good = id.bytes();
  for (size_t i = 0; i < good.size(); ++i) {
    auto bad = good;
    bad[i] ^= 0x10;
    Result<UniqueId> back = UniqueId::parse(bad);
    ASSERT_FALSE(back.ok()) << "byte " << i;
    EXPECT_EQ(back.error().code(), Code::kInvalidArgument);
  }
  EXPECT_STREQ(UniqueId::parse(std::array<uint8_t, kUniqueIdBytes>{}).error().message(),
               "the unique id was not made by bpsGetUniqueId");
}

TEST(UniqueId, DiffersEachTimeAndItsRendezvousServerEnds) {
  const Env env = localEnv(0.5);
  const size_t before = runningRendezvousServers();  // other tests may have started rendezvous servers
  const UniqueId a = newId(env), b = newId(env);
  EXPECT_EQ(a.kind, UniqueId::Kind::kRendezvous);
  EXPECT_NE(a.key, b.key);
  EXPECT_NE(a.address.text(), b.address.text());
  EXPECT_GE(runningRendezvousServers(), 2U);
  stopRendezvous(a.address);
  std::this_thread::sleep_for(700ms);
  EXPECT_LE(runningRendezvousServers(), before);
}

TEST(UniqueId, UsesTheKeyFileForAFixedRoot) {
  Env env = localEnv();
  env.root = "localhost:4567";
  const UniqueId id = newId(env);
  EXPECT_EQ(id.kind, UniqueId::Kind::kHub);
  EXPECT_EQ(id.address.port(), 4567);
  EXPECT_EQ(id.key, newId(env).key);
  EXPECT_NE(id.key, std::move(serverKey(env)).value()) << "the keys of one file differ by purpose";
  env.keyFile.clear();
  Result<UniqueId> without = UniqueId::create(env);
  ASSERT_FALSE(without.ok());
  EXPECT_NE(std::string(without.error().message()).find("set BPS_KEY_FILE"), std::string::npos);
  env.auth = false;
  EXPECT_EQ(newId(env).key, Key{});
  env.root = "nonsense";
  EXPECT_FALSE(UniqueId::create(env).ok());
}

TEST(UniqueId, KeepsALoopbackRootOnlyIfItIsWrittenAsLoopback) {
  Env env = localEnv();
  for (const char* root : {"127.0.0.1:4567", "127.1:4567", "localhost:4567", "[::1]:4567"}) {
    env.root = root;
    EXPECT_TRUE(newId(env).address.isLoopback()) << root;
  }
  env.root = localHostName() + ":4567";
  EXPECT_FALSE(newId(env).address.isLoopback()) << env.root;
}

TEST(ServerKey, NeedsAFileOfSixteenBytes) {
  Env env = localEnv();
  const std::string path = tempPath("key");
  env.keyFile = path;
  std::ofstream(path) << "123456789012345";
  Result<Key> key = serverKey(env);
  ASSERT_FALSE(key.ok());
  EXPECT_TRUE(std::string(key.error().message()).starts_with("key file " + path + ": must have 16 to 65536 bytes"));
  std::ofstream(path) << "1234567890123456";
  EXPECT_TRUE(serverKey(env).ok());
  env.keyFile = "/no/such/file";
  EXPECT_STREQ(serverKey(env).error().message(), "key file /no/such/file: No such file or directory");
  env.keyFile = testing::TempDir();
  EXPECT_FALSE(serverKey(env).ok()) << "a directory";
  env.auth = false;
  EXPECT_EQ(std::move(serverKey(env)).value(), Key{});
}

TEST(HostId, IsTheSettingOrThisBoot) {
  Env env;
  EXPECT_EQ(localHostId(env), localHostId(env));
  EXPECT_GT(localHostId(env).size(), localHostName().size() + 30);
  env.hostId = "m7";
  EXPECT_EQ(localHostId(env), "m7");
}

}  // namespace
}  // namespace bps::test
