// The text of one environment variable, as a value: in bps's own grammar, or as NCCL reads its variables.
//
// bps's own: whole texts only; words and switches in any case. NCCL's: a number is what strtoll(text, 0) reads, and any
// number but 0 switches on; what NCCL takes for a level of NCCL_DEBUG is one here.
#pragma once
#include <string>
#include <string_view>

#include "src/base/env.h"

namespace bps {

// Reads `text` into env.*var.field. Fails with what is wrong about it; the field is then as before.
Status parseBpsValue(const EnvVar& var, std::string_view text, Env& env);
Status parseNcclValue(const EnvVar& var, std::string_view text, Env& env);

// The candidate that a misspelt name most likely means; empty if none is close.
std::string closestName(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace bps
