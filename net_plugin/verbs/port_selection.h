// The selection of RDMA ports and of their GIDs. The functions have no side effects.
#pragma once
#include <optional>
#include <vector>

#include "net_plugin/verbs/port.h"
#include "src/base/status.h"

namespace bps::plugin::verbs {

// The grammar of NCCL_IB_HCA: "mlx5_1,mlx5_2:1" are name prefixes with an optional port; "=..." means exact names;
// "^..." and "^=..." mean all but these. Empty text selects all ports.
class HcaFilter {
 public:
  static Result<HcaFilter> parse(const std::string& text);
  bool selects(const std::string& device, int port) const;

 private:
  struct Entry {
    std::string name;
    std::optional<int> port;
  };
  bool exclude_ = false;
  bool exact_ = false;
  std::vector<Entry> entries_;
};

// Chooses the GID of a port. `index` is the value of NCCL_IB_GID_INDEX. If it is negative, RoCE v2 is preferred over
// v1, then IPv4 over a routable IPv6 address over a link-local one. If `peerGid` is given, only GIDs of its family
// (IPv4 or not) are considered, because both ends of a connection must use the same family.
Result<Gid> chooseGid(const Port& port, int index, const GidBytes* peerGid = nullptr);

// Returns the ports to use. Ports that the filter selects but that cannot be used are appended to `skipped`.
struct PortChoice {
  Port port;
  Gid gid;
};
struct SkippedPort {
  std::string port, why;
};
std::vector<PortChoice> choosePorts(const std::vector<Port>& ports, const HcaFilter& filter, int gidIndex,
                                    std::vector<SkippedPort>& skipped);

}  // namespace bps::plugin::verbs
