#include "src/fabric/fabric_place.h"

#include <gtest/gtest.h>

#include <fstream>

#include "src/fabric/address_file.h"
#include "tests/support/temp_path.h"

namespace bps::test {
namespace {

Address ip(std::initializer_list<uint8_t> bytes) { return Address::of(std::span(bytes.begin(), bytes.size()), 0); }

// The interfaces of machine 10 of BCube(2,2).
std::vector<Interface> twoPorts() {
  return {{"lo", ip({127, 0, 0, 1}), 8}, {"eth0", ip({10, 0, 0, 2}), 24}, {"eth1", ip({10, 1, 1, 1}), 24}};
}

constexpr const char* kFile =
    "# four machines\n00 10.0.0.1 10.1.0.1\n10\t10.0.0.2 10.1.1.1  # this one\r\n\n"
    "01 10.0.1.1 10.1.0.2\n11 10.0.1.2 10.1.1.2\n";

FabricSpec specOf(const std::string& options) {
  auto spec = parseFabric("bcube:" + options);
  EXPECT_TRUE(spec.ok()) << spec.error().message();
  return spec.ok() ? *std::move(spec).value() : FabricSpec();
}

FabricSpec specWithFile(const std::string& text, const std::string& options = "n=2,k=2") {
  const std::string path = tempPath("fabric");
  std::ofstream(path) << text;
  return specOf(options + ",addresses=" + path);
}

// The machines of each level, or the error without the path of the file.
std::string placeText(const FabricSpec& spec, const std::vector<Interface>& interfaces,
                      const std::string& filter = "") {
  auto found = findPlace(spec, interfaces, filter);
  if (!found.ok()) {
    std::string text = found.error().message();
    for (size_t at = 0; (at = text.find(tempPath("fabric"))) != std::string::npos;)
      text.replace(at, tempPath("fabric").size(), "FILE");
    return text;
  }
  const FabricPlace place = std::move(found).value();
  std::string text = place.shape.addressText(place.address);
  for (const FabricPlace::Level& level : place.levels) {
    text += "; " + level.interface;
    for (const Address& machine : level.machines) text += " " + machine.host();
  }
  return text;
}

void expectPart(const std::string& text, const std::string& part) {
  EXPECT_NE(text.find(part), std::string::npos) << text;
}

TEST(FabricPlace, FindsThisMachineInAFile) {
  EXPECT_EQ(placeText(specWithFile(kFile), twoPorts()), "10; eth0 10.0.0.1 10.0.0.2; eth1 10.1.1.1 10.1.1.2");
}

TEST(FabricPlace, DerivesTheAddressesFromInterfaces) {
  EXPECT_EQ(placeText(specOf("n=2,k=2"), twoPorts(), "=eth0,eth1"),
            "10; eth0 10.0.0.1 10.0.0.2; eth1 10.1.1.1 10.1.1.2");
  EXPECT_EQ(placeText(specOf("n=3,k=2,address=01"), twoPorts(), "eth1,eth0"),
            "01; eth1 10.1.1.1 10.1.1.2 10.1.1.3; eth0 10.0.0.1 10.0.0.2 10.0.0.3");
}

TEST(FabricPlace, NamesWrongInterfaces) {
  const FabricSpec spec = specOf("n=2,k=2");
  expectPart(placeText(spec, twoPorts(), ""), "must list the interfaces of the 2 levels of BCube(2,2), but is \"\"");
  expectPart(placeText(spec, twoPorts(), "^lo"), "but is \"^lo\"");
  expectPart(placeText(spec, twoPorts(), "eth0"), "but is \"eth0\"");
  expectPart(placeText(spec, twoPorts(), "eth0,eth2"), "\"eth2\" is no interface that is up with an IPv4 address");
  expectPart(placeText(spec, twoPorts(), "eth,eth0"), "\"eth\" is eth0 and eth1, but a level has one interface");
  std::vector<Interface> odd = twoPorts();
  odd[1].address = ip({10, 0, 0, 3});
  expectPart(placeText(spec, odd, "eth0,eth1"), "eth0 is level 0: the last number of 10.0.0.3 must be digit 0");
  odd = twoPorts();
  odd[2].prefixBits = 31;
  expectPart(placeText(spec, odd, "eth0,eth1"), "level 1: 10.1.1.2 is not in the network of eth1 (10.1.1.1/31)");
  expectPart(placeText(specOf("n=2,k=2,address=11"), twoPorts(), "eth0,eth1"),
             "address=11, but the IP addresses of eth0,eth1 are those of machine 10");
}

TEST(FabricPlace, NamesTheLineOfAFileThatIsWrong) {
  const auto with = [](std::string text, const std::string& before, const std::string& after) {
    text.replace(text.find(before), before.size(), after);
    return placeText(specWithFile(text), twoPorts());
  };
  expectPart(with(kFile, "01 ", "00 "), "FILE:5: machine 00 is also in line 2");
  expectPart(with(kFile, "10.0.1.2", "10.0.1.1"), "FILE:6: 10.0.1.1 is also in line 5");
  expectPart(with(kFile, "10.0.1.2", "host"), "FILE:6: \"host\" is not an IP address of a machine");
  expectPart(with(kFile, "10.0.1.2", ""), "FILE:6: 2 fields instead of 3");
  expectPart(with(kFile, "11 ", "12 "), "FILE:6: \"12\" is not an address of BCube(2,2)");
  expectPart(with(kFile, "11 10.0.1.2 10.1.1.2", ""), "FILE: 3 machines, but BCube(2,2) has 4: machine 11 is missing");
  expectPart(with(kFile, "00 10.0.0.1", "00 10.7.0.1"),
             "FILE:2: 10.7.0.1 (machine 00, level 0) is not in the network of eth0 (10.0.0.2/24), which is level 0 of "
             "this machine, 10");
  expectPart(with(kFile, "10.1.1.1", "10.1.1.9"),
             "FILE: no line has only IP addresses of this machine (lo 127.0.0.1, eth0 10.0.0.2, eth1 10.1.1.1); "
             "FILE:3: machine 10 has an IP address of this machine, but also 10.1.1.9, which is on no interface");
}

TEST(FabricPlace, NamesAFileThatItCannotRead) {
  EXPECT_EQ(placeText(specOf("n=2,k=2,addresses=/no/file"), twoPorts()),
            "BPS_FABRIC: addresses=/no/file: No such file or directory");
  EXPECT_EQ(placeText(specOf("n=2,k=2,addresses=/dev/zero"), twoPorts()),
            "BPS_FABRIC: addresses=/dev/zero: not a regular file");
}

TEST(FabricPlace, TakesTheMachineThatTheUserNames) {
  const char* loopback = "0 127.0.0.1\n1 127.0.0.2\n2 127.0.0.1\n";
  EXPECT_EQ(placeText(specWithFile(loopback, "n=3,k=1,address=2"), twoPorts()), "2; lo 127.0.0.1 127.0.0.2 127.0.0.1");
  expectPart(placeText(specWithFile(loopback, "n=3,k=1"), twoPorts()),
             "FILE:1: the IP addresses of machine 0 and, in line 2, of machine 1 are all on this machine; name this "
             "machine with address=DIGITS");
  expectPart(placeText(specWithFile(kFile, "n=2,k=2,address=11"), twoPorts()),
             "FILE:6: machine 11, which is this machine, has 10.0.1.2, which is on no interface that is up");
}

TEST(FabricPlace, AcceptsIpv6) {
  const Address own = ip({0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2});
  EXPECT_EQ(placeText(specWithFile("0 fd00::1\n1 fd00::2\n", "n=2,k=1"), {{"eth0", own, 64}}),
            "1; eth0 fd00::1 fd00::2");
}

TEST(FabricPlace, EveryInterfaceOfThisMachineHasANetwork) {
  for (const Interface& each : interfaceAddresses()) EXPECT_GT(each.prefixBits, 0U) << each.name;
}

}  // namespace
}  // namespace bps::test
