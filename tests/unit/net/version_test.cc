// Tests the adapter for every version of NCCL's net plugin interface, with bps's own plugin, which exports all
// versions.
#include <dlfcn.h>

#include "src/net/plugin_adapter.h"
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

class Version : public ::testing::TestWithParam<int> {};

std::string fileOf(const net::Plugin& plugin) {
  const std::string& description = plugin.description();  // for example, "bps v12 (path)"
  const size_t open = description.find('(');
  return description.substr(open + 1, description.size() - open - 2);
}

TEST_P(Version, CarriesMessages) {
  const std::string file = fileOf(*loadBpsPlugin());
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  ASSERT_NE(library, nullptr);
  std::shared_ptr<net::PluginAdapter> adapter = valueOf(net::createPluginAdapter(library, file, GetParam()));
  ASSERT_TRUE(adapter->init(1).ok());
  net::Plugin plugin(adapter);
  EXPECT_EQ(plugin.description().substr(0, plugin.description().find(' ', 4)), "bps v" + std::to_string(GetParam()));
  EXPECT_EQ(plugin.deviceCount(), 1);
  EXPECT_EQ(valueOf(plugin.device(0)).name, "lo");
  CommPair pair = connectPair(plugin);
  EXPECT_EQ(pair.sender->maxRequests(), 32);
  EXPECT_GE(pair.sender->waitFd(), 0);
  for (size_t size : {size_t{0}, size_t{1}, size_t{300000}}) EXPECT_TRUE(transfers(pair, randomBytes(size, 1), size));
  std::vector<uint8_t> buffer(10);
  void* memory = valueOf(pair.sender->registerMemory(buffer.data(), buffer.size()));
  pair.sender->deregister(memory);
  Result<Request> tooLarge = pair.sender->isend(buffer.data(), size_t{1} << 31, nullptr);
  EXPECT_FALSE(tooLarge.ok());
}

INSTANTIATE_TEST_SUITE_P(All, Version, ::testing::Range(net::kOldestVersion, net::kNewestVersion + 1),
                         [](const auto& each) { return "v" + std::to_string(each.param); });

}  // namespace
}  // namespace bps::test
