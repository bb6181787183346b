// Patience: how long a peer may answer nothing before it counts as gone; and what the kernel knows of its answers.
#pragma once
#include <chrono>

namespace bps::plugin::stream {

using Patience = std::chrono::milliseconds;
inline constexpr Patience kUsualPatience{10000};

// What TCP says of the bytes under way on a socket.
struct Answers {
  unsigned lost = 0;    // times in a row that bytes were sent again after a time-out, and nothing came back
  unsigned probes = 0;  // a closed window was asked after, without an answer
  std::chrono::milliseconds since{0};  // the last answer
};

// A peer that is well answers what it is sent, also while it reads nothing: it is gone when asking brings nothing.
bool isGone(const Answers& answers, Patience patience);
// Of a socket that is not TCP: that all is well.
Answers answersOf(int socket);

}  // namespace bps::plugin::stream
