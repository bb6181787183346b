// Finding and refusing plugin files.
#include "tests/unit/net/net_fixture.h"

namespace bps::test {
namespace {

std::string whyNot(const std::string& name) {
  Result<std::shared_ptr<net::Plugin>> plugin = net::Plugin::load(name, 1);
  return plugin.ok() ? "loaded" : plugin.error().message();
}

TEST(Loader, OursIsFoundBesideTheProgram) {
  std::shared_ptr<net::Plugin> plugin = loadOurs();
  EXPECT_EQ(plugin->description().substr(0, 9), "bps v12 (");
  EXPECT_EQ(plugin->deviceCount(), 1);
  EXPECT_EQ(valueOf(plugin->device(0)).name, "lo");
  EXPECT_EQ(valueOf(plugin->device(0)).maxBytes, (size_t{1} << 31) - 1);
  EXPECT_FALSE(plugin->device(1).ok());
}

TEST(Loader, OursHasAllTheseNames) {
  loadOurs();
  for (const char* name : {"bps", "none", "nosuch,bps"}) EXPECT_EQ(whyNot(name), "loaded") << name;
}

TEST(Loader, EachFileThatWasTriedIsNamed) {
  const std::string why = whyNot("nosuch,/nowhere/libnccl-net-x.so");
  for (const char* part :
       {"BPS_NET_PLUGIN=nosuch", "libnccl-net-nosuch.so: ", "/nowhere/libnccl-net-x.so: ", "No such file"})
    EXPECT_NE(why.find(part), std::string::npos) << part << " in " << why;
}

TEST(Loader, ALibraryThatIsNoPluginSaysSo) {
  EXPECT_NE(whyNot("/lib/x86_64-linux-gnu/libm.so.6").find("exports no ncclNetPlugin"), std::string::npos);
}

TEST(Loader, AFileThatIsNoLibrarySaysSo) { EXPECT_NE(whyNot("/etc/passwd").find("/etc/passwd: "), std::string::npos); }

}  // namespace
}  // namespace bps::test
