#include "net_plugin/verbs/peer_memory.h"

#include <filesystem>
#include <system_error>

namespace bps::plugin::verbs {

std::string peerMemoryModule(const std::string& root) {
  // nvidia_peermem is part of the GPU driver; the older modules are part of the network driver.
  constexpr struct {
    const char *path, *module;
  } kPlaces[] = {{"/module/nvidia_peermem", "nvidia_peermem"},
                 {"/kernel/mm/memory_peers/nv_mem/version", "nv_peer_mem"},
                 {"/kernel/mm/memory_peers/nv_mem_nc/version", "nv_peer_mem_nc"}};
  for (const auto& place : kPlaces) {
    std::error_code error;  // an inaccessible path counts as missing
    if (std::filesystem::exists(root + place.path, error)) return place.module;
  }
  return "";
}

}  // namespace bps::plugin::verbs
