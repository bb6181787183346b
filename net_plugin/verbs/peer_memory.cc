#include "net_plugin/verbs/peer_memory.h"

#include <filesystem>
#include <system_error>

namespace bps::plugin::verbs {

std::string peerMemoryModule(const std::string& root) {
  // nvidia_peermem comes with the driver; the others, before it, with the network's.
  constexpr struct {
    const char *path, *module;
  } kPlaces[] = {{"/module/nvidia_peermem", "nvidia_peermem"},
                 {"/kernel/mm/memory_peers/nv_mem/version", "nv_peer_mem"},
                 {"/kernel/mm/memory_peers/nv_mem_nc/version", "nv_peer_mem_nc"}};
  for (const auto& place : kPlaces) {
    std::error_code error;  // what cannot be looked at is not there
    if (std::filesystem::exists(root + place.path, error)) return place.module;
  }
  return "";
}

}  // namespace bps::plugin::verbs
