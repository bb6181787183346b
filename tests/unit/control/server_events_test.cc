// Tests which events of servers a rank accepts from the hub.
#include "tests/unit/control/fake_hub.h"

namespace bps::test {
namespace {

using Kind = ServerEvent::Kind;
constexpr uint32_t kPresent = 0, kAbsent = 1;

ServerEvent event(Kind kind, uint32_t server, uint32_t change = 1) {
  ServerEvent made{kind, server};
  made.change = kind == Kind::kLost ? 0 : change;
  return made;
}

// Sends the events to a rank whose first server is present and whose second one is absent. Returns the failure of the
// rank, or "" if it has none.
std::string outcomeOf(const std::vector<ServerEvent>& events) {
  FakeHub hub;
  Roster roster = FakeHub::roster();
  roster.servers = {{"present:1", 0, true}, {"", 0, false}};
  hub.send(MessageType::kRoster, encode(roster));
  for (const ServerEvent& each : events) hub.send(each);
  hub.send(MessageType::kGoodbye);  // from then on the hub may be silent
  return hub.outcome();
}

TEST(ServerEvents, ServersMayJoinAndLeaveAndBeLost) {
  EXPECT_EQ(outcomeOf({event(Kind::kJoining, kAbsent), event(Kind::kHandles, kAbsent), event(Kind::kAt, kAbsent),
                       event(Kind::kEnd, kAbsent), event(Kind::kLeaving, kAbsent), event(Kind::kAborted, kAbsent),
                       event(Kind::kLeaving, kPresent), event(Kind::kLost, kAbsent), event(Kind::kAt, kPresent),
                       event(Kind::kEnd, kPresent), event(Kind::kJoining, kPresent), event(Kind::kAt, kPresent),
                       event(Kind::kLost, kPresent), event(Kind::kEnd, kPresent), event(Kind::kJoining, kPresent)}),
            "");
}

TEST(ServerEvents, ImpossibleEventsEndTheConnectionWithTheHub) {
  const std::vector<ServerEvent> wrong[] = {
      {event(Kind::kLost, kAbsent)},
      {event(Kind::kLost, 2)},
      {event(Kind::kJoining, kPresent)},
      {event(Kind::kJoining, 2)},
      {event(Kind::kLeaving, kAbsent)},
      {event(Kind::kLeaving, UINT32_MAX)},
      {event(Kind::kHandles, kAbsent)},
      {event(Kind::kAt, kPresent)},
      {event(Kind::kEnd, kPresent)},
      {event(Kind::kAborted, kPresent)},
      {event(Kind::kJoining, kAbsent), event(Kind::kLeaving, kPresent, 2)},
      {event(Kind::kLeaving, kPresent), event(Kind::kAt, kAbsent)},
      {event(Kind::kLeaving, kPresent), event(Kind::kAborted, kPresent), event(Kind::kEnd, kPresent)},
      {event(Kind::kLeaving, kPresent), event(Kind::kAt, kPresent), event(Kind::kEnd, kPresent),
       event(Kind::kLost, kPresent)},
  };
  for (const auto& events : wrong) {
    const std::string why = outcomeOf(events);
    EXPECT_NE(why.find("unexpected event " + std::to_string(static_cast<int>(events.back().kind))), std::string::npos)
        << "sequence " << &events - wrong << ": " << why;
  }
}

}  // namespace
}  // namespace bps::test
