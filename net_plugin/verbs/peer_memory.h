// Whether RDMA devices of this machine reach NVIDIA's GPUs by the address of their memory: a kernel module joins the
// two drivers. (Where it does not, GPU memory may still come as a dma-buf, which each device is asked for.)
#pragma once
#include <string>

namespace bps::plugin::verbs {

// The module, as the kernel names it under `root`; empty: none is loaded.
std::string peerMemoryModule(const std::string& root = "/sys");

}  // namespace bps::plugin::verbs
