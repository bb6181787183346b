#include "src/service/parameters/param_store.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace bps::test {
namespace {

using Values = std::array<float, 2>;

// A store of three machines with one part of two floats, of a parameter of four.
class ParamStoreTest : public testing::Test {
 protected:
  ParamStoreTest() { EXPECT_TRUE(store_.set(call_, part(), initial_.data()).ok()); }

  static ParamPart part(uint32_t push = 0, uint64_t offset = 2) {
    return {.param = 5, .push = push, .offset = offset, .count = 2};
  }
  ParamStore::Part& place() { return *store_.find(call_, part()).value(); }
  Status add(size_t machine, uint32_t push, Values change) {
    return store_.add(place(), part(push), machine, change.data());
  }
  Values values() {
    Values values;
    std::memcpy(values.data(), place().value.data(), sizeof values);
    return values;
  }

  const CallInfo call_{.number = 0, .count = 4, .type = static_cast<uint8_t>(DataType::kFloat32)};
  const Values initial_{1, 2};
  size_t granted_ = 10 * kPageBytes;
  ParamStore store_{3, 1, [this](size_t bytes) -> Status {
                      if (bytes > granted_) return {Code::kSystem, "no memory"};
                      granted_ -= bytes;
                      return {};
                    }};
};

TEST_F(ParamStoreTest, AddsTheChangesOfEachMachineInItsOrder) {
  EXPECT_TRUE(add(0, 1, {10, 20}).ok());
  EXPECT_TRUE(add(2, 1, {100, 200}).ok());
  EXPECT_TRUE(add(0, 2, {1000, 2000}).ok());
  EXPECT_EQ(values(), (Values{1111, 2222}));
  EXPECT_EQ(place().clock.machines, (std::vector<uint32_t>{2, 0, 1}));
  EXPECT_EQ(place().clock.version, 3U);
  for (const uint32_t push : {0U, 2U, 4U}) {
    const Status refused = add(0, push, {1, 1});
    EXPECT_EQ(refused.code(), Code::kRemote) << push;
    EXPECT_NE(std::string(refused.message()).find("came where push 3 was due"), std::string::npos) << refused.message();
  }
  EXPECT_EQ(values(), (Values{1111, 2222}));
}

TEST_F(ParamStoreTest, KnowsOnlyThePartsThatWereSet) {
  EXPECT_FALSE(store_.find(call_, part(0, 0)).ok()) << "another offset";
  ParamPart longer = part();
  longer.count = 3;
  EXPECT_FALSE(store_.find(call_, longer).ok()) << "another size";
  CallInfo other = call_;
  other.type = static_cast<uint8_t>(DataType::kInt32);
  EXPECT_FALSE(store_.find(other, part()).ok()) << "another type";
}

TEST_F(ParamStoreTest, AsksForMemory) {
  granted_ = store_.overhead() + kPageBytes - 1;
  const Values data{};
  EXPECT_STREQ(store_.set(call_, part(0, 0), data.data()).status().message(), "no memory");
  granted_ = store_.overhead() + kPageBytes;
  EXPECT_TRUE(store_.set(call_, part(0, 0), data.data()).ok());
  EXPECT_STREQ(add(1, 1, {1, 1}).message(), "no memory") << "for the change that may be taken back";
}

TEST_F(ParamStoreTest, TakesBackTheLastPushOfAMachineOnly) {
  EXPECT_TRUE(add(0, 1, {10, 20}).ok());
  EXPECT_TRUE(add(1, 1, {0.5, 0.25}).ok());
  EXPECT_TRUE(add(0, 2, {100, 200}).ok());
  store_.undo(place(), 0, 1);
  EXPECT_EQ(values(), (Values{111.5, 222.25})) << "not the last push";
  store_.undo(place(), 0, 2);
  EXPECT_EQ(values(), (Values{11.5, 22.25}));
  store_.undo(place(), 0, 1);
  EXPECT_EQ(values(), (Values{11.5, 22.25})) << "only one push is kept";
  EXPECT_EQ(place().clock.machines, (std::vector<uint32_t>{1, 1, 0}));
}

TEST(ParamStore, TakesBackPushesOfEveryType) {
  for (int type = 0; type < kDataTypes; ++type) {
    ParamStore store(1, 1);
    const CallInfo call{.number = 0, .count = 9, .type = static_cast<uint8_t>(type)};
    const ParamPart part{.param = 0, .push = 1, .offset = 0, .count = 1};
    const std::array<uint8_t, 8> initial{}, change{0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40, 0x40};
    ParamStore::Part& place = *store.set(call, part, initial.data()).value();
    ASSERT_TRUE(store.add(place, part, 0, change.data()).ok());
    EXPECT_NE(std::memcmp(place.value.data(), initial.data(), place.bytes()), 0) << type;
    store.undo(place, 0, 1);
    EXPECT_EQ(std::memcmp(place.value.data(), initial.data(), place.bytes()), 0) << type;
  }
}

// A part that this store takes over from a lost owner.
class RestoredPartTest : public ParamStoreTest {
 protected:
  ParamStore::Part& restore(size_t machine, uint64_t version, std::vector<uint32_t> pushes, Values value) {
    const ParamClock clock{version, 0, std::move(pushes)};
    return *store_.restore(call_, part(0, 0), machine, clock, value.data()).value();
  }
};

TEST_F(RestoredPartTest, HasTheNewestValueOfAllMachines) {
  restore(1, 4, {1, 1, 2}, {4, 4});
  restore(0, 6, {2, 2, 2}, {6, 6});
  ParamStore::Part& place = *store_.restore(call_, part(0, 0), 2, {}, nullptr).value();
  EXPECT_EQ(place.awaits, (std::vector<bool>{false, false, false}));
  EXPECT_EQ(place.clock.machines, (std::vector<uint32_t>{2, 2, 2}));
  Values value;
  std::memcpy(value.data(), place.value.data(), sizeof value);
  EXPECT_EQ(value, (Values{6, 6}));
  const Values change{1, 1};
  EXPECT_TRUE(store_.add(place, part(2, 0), 1, change.data()).ok()) << "a push that the value contains";
  EXPECT_EQ(std::memcmp(place.value.data(), value.data(), sizeof value), 0);
  EXPECT_TRUE(store_.add(place, part(3, 0), 1, change.data()).ok());
  EXPECT_FALSE(store_.add(place, part(5, 0), 1, change.data()).ok()) << "a push is missing";
}

TEST_F(RestoredPartTest, IgnoresMachinesThatComeTwiceOrSendAWrongClock) {
  restore(0, 6, {2, 2, 2}, {6, 6});
  restore(0, 8, {3, 3, 2}, {8, 8});
  ParamStore::Part& place = restore(1, 9, {3, 3}, {9, 9});
  EXPECT_EQ(place.clock.version, 6U);
  EXPECT_EQ(place.awaits, (std::vector<bool>{false, false, true}));
}

TEST_F(RestoredPartTest, OfThisOwnerIsNotReplaced) {
  const ParamClock clock{100, 0, {9, 9, 9}};
  const Values value{9, 9};
  EXPECT_TRUE(store_.restore(call_, part(), 1, clock, value.data()).ok());
  EXPECT_EQ(values(), initial_);
}

}  // namespace
}  // namespace bps::test
