// Detects the kernel module that lets RDMA devices register the memory of NVIDIA GPUs by its
// address. Without this module, a device may still support GPU memory as dma-bufs. IbvDevice asks
// each device for dma-buf support.
#pragma once
#include <string>

namespace bps::plugin::verbs {

// Returns the name of the loaded module, or empty text if no such module is loaded.
std::string peerMemoryModule(const std::string& root = "/sys");

}  // namespace bps::plugin::verbs
