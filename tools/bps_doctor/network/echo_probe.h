// Tests the ways from this rank to the echo services of other ranks, many at a time.
#pragma once
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "src/base/io/address.h"
#include "src/base/status.h"
#include "tools/bps_doctor/network/echo_service.h"

namespace bps::doctor {

constexpr std::chrono::seconds kAnswerTime(3);  // of a connect, of the small messages and of the large one

struct EchoTarget {
  int rank = 0;
  std::string nic;
  std::string address;  // without a port
  int port = 0;
  Token token{};
};

enum class Way {
  kGood,
  kSilent,       // no answer to the connect
  kRefused,      // the connect was refused
  kUnreachable,  // the kernel reported an error, for example that there is no route
  kNoEcho,       // connected, but not even small messages return
  kNoLarge,      // small messages return, full-size segments do not
};

struct WayResult {
  int from = 0, to = 0;
  std::string nic;      // of `to`
  std::string address;  // with the port
  Way way = Way::kGood;
  std::string error;      // the text of the kernel; empty if the way is good
  double roundTrip = 0;   // seconds, the least of several; 0 if small messages did not return
  bool outStuck = false;  // kNoLarge: the bytes from `from` to `to` were not acknowledged
};

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(EchoTarget, rank, nic, address, port, token)
NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE(WayResult, from, to, nic, address, way, error, roundTrip, outStuck)

// Returns one result for each target. Takes at most probeTime().
Result<std::vector<WayResult>> probeWays(int rank, const std::vector<EchoTarget>& targets);
std::chrono::seconds probeTime(size_t targets);

}  // namespace bps::doctor
