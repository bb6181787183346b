// DumpSignal: the signal with which a user asks a process to log the state of its calls (BPS_DUMP_SIGNAL).
//
// The signal belongs to the application first: bps installs its handler only if the signal has no handler and is not
// ignored. If the application installs a handler later, that handler replaces the handler of bps. The handler only
// increments a counter. Each communicator compares the counter with the last value that it has seen.
#pragma once
#include <cstdint>
#include <string>

namespace bps {

// Installs the handler for "USR1" or "USR2"; any other text installs none. Only the first call in a process has an
// effect. Any thread may call this function.
void handleDumpSignal(const std::string& signal);
// Returns the number of signals that have arrived. Any thread may call this function.
uint64_t dumpSignals();

}  // namespace bps
