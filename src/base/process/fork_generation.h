#pragma once

namespace bps {

// How often this process and those before it were forked off by one that uses bps: what was made at another count
// belongs to a parent, whose threads are not here and whose connections must not be used. Any thread.
unsigned forkGeneration();

}  // namespace bps
