// The table of a report: one row for each machine.
#pragma once
#include <string>

#include "tools/bps_doctor/survey.h"

namespace bps::doctor {

std::string machineTable(const Survey& survey);
// Lists ranks in short form: "0-3,6".
std::string rankList(const Machine& machine);

}  // namespace bps::doctor
