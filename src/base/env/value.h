// Parsers for the value of one environment variable: the grammar of bps, and the grammar of NCCL.
//
// In bps's grammar the whole text must match; the case of words and switches does not matter. In NCCL's grammar a
// number is the prefix that strtoll(text, 0) accepts, and every number except 0 turns a switch on.
#pragma once
#include <string>
#include <string_view>

#include "src/base/env.h"

namespace bps {

// Parses `text` into env.*var.field. A failure names the reason and leaves the field unchanged.
Status parseBpsValue(const EnvVar& var, std::string_view text, Env& env);
Status parseNcclValue(const EnvVar& var, std::string_view text, Env& env);

// Returns the candidate that is most similar to a misspelt name, or empty text if none is similar.
std::string closestName(std::string_view name, const std::vector<std::string_view>& candidates);

}  // namespace bps
