// Functions that select RDMA ports and their GIDs. The functions have no side effects.
#pragma once
#include <optional>
#include <vector>

#include "net_plugin/verbs/port.h"
#include "src/base/status.h"

namespace bps::plugin::verbs {

// A filter for RDMA ports with the grammar of NCCL_IB_HCA. "mlx5_1,mlx5_2:1" is a list of name
// prefixes, each with an optional port. "=..." is a list of exact names. "^..." and "^=..." select
// all ports except the listed ones. Empty text selects all ports.
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

// Chooses the GID of a port. `index` is the value of NCCL_IB_GID_INDEX. If `index` is negative, an
// InfiniBand port uses GID 0. For RoCE ports, GIDs of RoCE v2 are preferred over GIDs of RoCE v1.
// Among GIDs of the same version, IPv4 addresses are preferred over routable IPv6 addresses, which
// are preferred over link-local addresses. If `peerGid` is given and `index` is negative, only GIDs
// of the same family (IPv4 or not) are considered. Both ends of a connection must use the same
// family.
Result<Gid> chooseGid(const Port& port, int index, const GidBytes* peerGid = nullptr);

// A port that choosePorts() has chosen, with its GID. choosePorts() returns the usable ports among
// the ports that the filter selects. It appends the unusable ports among them to `skipped`.
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
