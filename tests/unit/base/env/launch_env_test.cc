#include "src/base/env/launch_env.h"

#include <gmock/gmock.h>

#include <map>

namespace bps {
namespace {

using testing::HasSubstr;

std::map<std::string, std::string>& settings() {
  static std::map<std::string, std::string> instance;
  return instance;
}

Result<LaunchEnv> placeIn(const std::map<std::string, std::string>& environment) {
  settings() = environment;
  return readLaunchEnv([](const char* name) -> const char* {
    const auto found = settings().find(name);
    return found == settings().end() ? nullptr : found->second.c_str();
  });
}

std::string whyNot(const std::map<std::string, std::string>& environment) {
  Result<LaunchEnv> place = placeIn(environment);
  return place.ok() ? "placed" : place.error().message();
}

TEST(LaunchEnv, EveryLauncherIsRecognised) {
  const std::pair<const char*, const char*> launchers[] = {{"BPS_RANK", "BPS_NRANKS"},
                                                           {"RANK", "WORLD_SIZE"},
                                                           {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"},
                                                           {"PMI_RANK", "PMI_SIZE"},
                                                           {"SLURM_PROCID", "SLURM_NTASKS"}};
  for (const auto& [rank, ranks] : launchers) {
    const LaunchEnv place = placeIn({{rank, "3"}, {ranks, "8"}, {"BPS_ROOT", "a:1"}}).value();
    EXPECT_EQ(place.process, 3) << rank;
    EXPECT_EQ(place.processes, 8) << rank;
    EXPECT_EQ(place.source, std::string(rank) + "=3 " + ranks + "=8");
    EXPECT_EQ(place.root, "");
    EXPECT_TRUE(isLaunchVariable(rank) && isLaunchVariable(ranks));
  }
}

TEST(LaunchEnv, FirstCompletePairIsUsed) {
  const LaunchEnv place = placeIn({{"SLURM_PROCID", "0"},
                                   {"SLURM_NTASKS", "2"},
                                   {"RANK", "5"},  // RANK may have been set for another program
                                   {"PMI_RANK", "1"},
                                   {"PMI_SIZE", "4"},
                                   {"BPS_ROOT", "a:1"}})
                              .value();
  EXPECT_EQ(place.process, 1);
  EXPECT_EQ(place.processes, 4);
}

TEST(LaunchEnv, WithoutALauncherItGivesASingleProcess) {
  const LaunchEnv place = placeIn({}).value();
  EXPECT_EQ(place.process, 0);
  EXPECT_EQ(place.processes, 1);
  EXPECT_EQ(place.root, "");
}

TEST(LaunchEnv, TorchrunRendezvousUsesMasterPortPlusOne) {
  const std::map<std::string, std::string> torchrun{
      {"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "node0"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(placeIn(torchrun).value().root, "node0:29501");
  auto ipv6 = torchrun;
  ipv6["MASTER_ADDR"] = "fe80::1";
  EXPECT_EQ(placeIn(ipv6).value().root, "[fe80::1]:29501");
  auto own = torchrun;
  own["BPS_ROOT"] = "elsewhere:7701";
  EXPECT_EQ(placeIn(own).value().root, "") << "BPS_ROOT comes first";
}

TEST(LaunchEnv, InvalidVariablesAreNamed) {
  EXPECT_THAT(whyNot({{"BPS_RANK", "0"}}), HasSubstr("BPS_RANK and BPS_NRANKS must both be set"));
  EXPECT_THAT(whyNot({{"PMI_RANK", "x"}, {"PMI_SIZE", "2"}}), HasSubstr("PMI_RANK=x: not a whole number from 0 to 1"));
  EXPECT_THAT(whyNot({{"SLURM_PROCID", "2"}, {"SLURM_NTASKS", "2"}}), HasSubstr("SLURM_PROCID=2"));
  const std::string lost = whyNot({{"OMPI_COMM_WORLD_RANK", "0"}, {"OMPI_COMM_WORLD_SIZE", "4"}});
  EXPECT_THAT(lost, HasSubstr("4 processes need a rendezvous address: set BPS_ROOT=HOST:PORT"));
  EXPECT_THAT(whyNot({{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "65535"}}),
              HasSubstr("MASTER_PORT=65535: not a whole number from 1 to 65534"));
}

}  // namespace
}  // namespace bps
