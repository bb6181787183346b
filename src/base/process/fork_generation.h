// forkGeneration(): detects objects that belong to a parent process.
#pragma once

namespace bps {

// Returns the number of forks between the process that loaded bps and this one. An object created
// at another value belongs to a parent process: its threads do not exist here, and its connections
// must not be used. Any thread may call this function.
unsigned forkGeneration();

}  // namespace bps
