// Which ranks combine their buffers by NCCL, and which of them own a part.
#include "src/nccl/teams.h"

#include <gtest/gtest.h>

#include <vector>

namespace bps::nccl {
namespace {

Member memberOn(uint64_t machine) {
  Member member;
  member.machine = machine;
  member.hasServers = true;
  return member;
}

// One member of each team, all on machine 1 if they say so.
std::vector<Member> membersOf(const std::vector<uint64_t>& teams, bool anyOrder = true, bool oneMachine = false) {
  std::vector<Member> members;
  for (const uint64_t team : teams) {
    members.push_back(memberOn(oneMachine ? 1 : team));
    members.back().team = team;
    members.back().anyOrder = anyOrder;
  }
  return members;
}

TEST(Teams, TheFirstRanksOfEveryTeamOwnAPartEach) {
  const Teams teams = teamsOf(membersOf({7, 8, 7, 8, 7}));
  EXPECT_EQ(teams.owners, 2) << teams.why;
  EXPECT_EQ(teams.leads, (std::vector<int>{0, 1, 0, 1, 0}));
  EXPECT_EQ(teams.placeOf(0), 0);
  EXPECT_EQ(teams.placeOf(4), 2);
  EXPECT_EQ(teams.sizeOf(4), 3);
  EXPECT_EQ(teams.placeOf(3), 1);
  EXPECT_EQ(teams.sizeOf(1), 2);
  EXPECT_TRUE(teams.anyOrder);
  EXPECT_EQ(teamsOf(membersOf({7, 7, 9})).owners, 1);
}

TEST(Teams, AreNoneWhereARankHasNoneOrNobodyIsNear) {
  EXPECT_EQ(teamsOf(membersOf({7, 7, 8, 0})).why, "rank 3 has no team");
  EXPECT_EQ(teamsOf(membersOf({7, 7, 8, 0})).owners, 0);
  EXPECT_EQ(teamsOf(membersOf({7, 8, 9})).why, "no two GPUs share a machine or a switch");
}

TEST(Teams, AreOfTwoWhereTheOrderIsToBeOurs) {
  EXPECT_EQ(teamsOf(membersOf({7, 7, 8, 8}, false)).owners, 2);
  EXPECT_EQ(teamsOf(membersOf({7, 7, 8}, false)).owners, 1);
  EXPECT_EQ(teamsOf(membersOf({7, 7, 7, 8}, false)).owners, 0);
  EXPECT_EQ(teamsOf(membersOf({7, 7, 8, 8}, false, true)).owners, 0) << "two teams of one machine: (a+b)+(c+d)";
  EXPECT_EQ(teamsOf(membersOf({7, 7, 8, 8}, true, true)).owners, 2);
}

TEST(Teams, NeedServersAlikeOnThoseWhoAskForThem) {
  std::vector<Member> members = membersOf({7, 7, 7, 8, 8});
  members[2].hasServers = members[3].hasServers = false;  // never rank 0 of a communicator of owners
  EXPECT_EQ(teamsOf(members).owners, 2) << teamsOf(members).why;
  members[1].hasServers = false;
  EXPECT_EQ(teamsOf(members).owners, 0);
  EXPECT_EQ(teamsOf(members).why, "BPS_SERVERS is not set alike on ranks 0 and 1");
}

TEST(Teams, OfARootedPlanHaveTheirRootsInFront) {
  std::vector<Member> members = membersOf({7, 7, 7, 7, 8, 8, 8, 8});
  members[2].root = members[3].root = members[5].root = members[6].root = members[7].root = true;
  Teams teams = teamsOf(members);
  EXPECT_EQ(teams.owners, 2) << teams.why;
  EXPECT_EQ(teams.places, (std::vector<int>{2, 3, 0, 1, 3, 0, 1, 2}));
  members[5].root = members[6].root = members[7].root = false;  // a machine whose plan is another one
  teams = teamsOf(members);
  EXPECT_EQ(teams.owners, 2);
  EXPECT_EQ(teams.places, (std::vector<int>{2, 3, 0, 1, 0, 1, 2, 3}));
}

TEST(Member, TravelsWhole) {
  Member member = memberOn(0x1234567890abcdef);
  member.team = 77;
  member.root = true;
  member.why = "no NCCL";
  WireWriter writer;
  member.put(writer);
  WireReader reader(writer.bytes());
  Member read;
  read.get(reader);
  EXPECT_TRUE(reader.finish("member").ok());
  EXPECT_EQ(read.machine, member.machine);
  EXPECT_EQ(read.team, 77U);
  EXPECT_TRUE(read.root && read.hasServers && !read.anyOrder);
  EXPECT_EQ(read.why, "no NCCL");
}

}  // namespace
}  // namespace bps::nccl
