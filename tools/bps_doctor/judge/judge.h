// Finds what is wrong in a survey. All functions are pure.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "tools/bps_doctor/survey.h"

namespace bps::doctor {

enum class Level {
  kWarning,  // the job works, perhaps slower
  kProblem,
};

struct Finding {
  Level level = Level::kProblem;
  std::string check;  // "port", "key", "memlock", "nofile", "nic", "server", "version", "mtu", ...
  std::string text;
  std::string fix;           // what to do
  bool aboutServer = false;  // the ranks can go on without the server
};

// The findings that need no all-reduce. The survey has the facts of rank 0.
std::vector<Finding> judge(const Survey& survey);
// The findings about the measured time.
std::vector<Finding> judgeTime(const Survey& survey);

// The time that the all-reduce takes according to the formula of the plan (src/plan/shares.h).
struct ExpectedTime {
  double seconds = 0;     // 0: unknown
  bool measured = false;  // the rate is what the communicator has measured, because a NIC's rate is unknown
};
ExpectedTime expectedTime(const Survey& survey);

// True if the ranks cannot run an all-reduce with these findings.
bool preventsReduce(const std::vector<Finding>& findings);
// Tells which check an error of a handshake belongs to, and what to do. `what` begins the text.
Finding explainError(const std::string& what, const std::string& error, const std::string& otherCheck);
// 1 if there is a problem, otherwise 0.
int exitStatus(const std::vector<Finding>& findings);

}  // namespace bps::doctor
