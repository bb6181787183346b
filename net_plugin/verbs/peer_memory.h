// Detects the kernel module that lets RDMA devices register the memory of NVIDIA GPUs by its address. Without it, a
// device may still support GPU memory as dma-bufs; each device is asked for that.
#pragma once
#include <string>

namespace bps::plugin::verbs {

// Returns the name of the loaded module, or empty text.
std::string peerMemoryModule(const std::string& root = "/sys");

}  // namespace bps::plugin::verbs
