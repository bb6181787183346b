// Tests that the loader finds the files of net plugins and rejects invalid files.
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

std::string loadError(const std::string& name) {
  Result<std::shared_ptr<net::Plugin>> plugin = net::Plugin::load(name, 1);
  return plugin.ok() ? "loaded" : plugin.error().message();
}

TEST(Loader, BpsPluginIsFoundBesideTheProgram) {
  std::shared_ptr<net::Plugin> plugin = loadBpsPlugin();
  EXPECT_EQ(plugin->description().substr(0, 9), "bps v12 (");
  EXPECT_EQ(plugin->deviceCount(), 1);
  EXPECT_EQ(valueOf(plugin->device(0)).name, "lo");
  EXPECT_EQ(valueOf(plugin->device(0)).maxBytes, (size_t{1} << 31) - 1);
  EXPECT_FALSE(plugin->device(1).ok());
}

TEST(Loader, AllNamesOfTheBpsPluginLoadIt) {
  loadBpsPlugin();
  for (const char* name : {"bps", "none", "nosuch,bps"}) EXPECT_EQ(loadError(name), "loaded") << name;
}

TEST(Loader, ErrorNamesEachFileTried) {
  const std::string errorText = loadError("nosuch,/nowhere/libnccl-net-x.so");
  for (const char* part :
       {"BPS_NET_PLUGIN=nosuch", "libnccl-net-nosuch.so: ", "/nowhere/libnccl-net-x.so: ", "No such file"})
    EXPECT_NE(errorText.find(part), std::string::npos) << part << " in " << errorText;
}

TEST(Loader, ALibraryWithoutAPluginIsReported) {
  EXPECT_NE(loadError("/lib/x86_64-linux-gnu/libm.so.6").find("exports no ncclNetPlugin"), std::string::npos);
}

TEST(Loader, AFileThatIsNoLibraryIsReported) {
  EXPECT_NE(loadError("/etc/passwd").find("/etc/passwd: "), std::string::npos);
}

}  // namespace
}  // namespace bps::test
