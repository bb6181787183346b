// Prints a survey and its findings.
#pragma once
#include <string>
#include <vector>

#include "tools/bps_doctor/judge/judge.h"

namespace bps::doctor {

// A table of the machines, the servers, the times, the findings and a verdict.
std::string reportText(const Survey& survey, const std::vector<Finding>& findings);
// The same as one JSON object.
std::string reportJson(const Survey& survey, const std::vector<Finding>& findings);
// The findings alone.
std::string findingsText(const std::vector<Finding>& findings);

}  // namespace bps::doctor
