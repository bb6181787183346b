// Which GPUs of its machine one works with before and after the network, as the machine's plan says.
#pragma once
#include <string>

#include "src/base/env.h"

namespace bps::interpose {

// The switch under which the GPU is, where the plan is to combine buffers under each switch, and empty where it is to
// combine all of the machine: over NVLink, or because nothing is known of the GPU.
std::string neighbourhoodOf(int device, const Env& env);

}  // namespace bps::interpose
