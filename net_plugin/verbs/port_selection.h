// Which ports of RDMA devices are used, and with which of their addresses. Pure.
#pragma once
#include <optional>
#include <vector>

#include "net_plugin/verbs/port.h"
#include "src/base/status.h"

namespace bps::plugin::verbs {

// NCCL_IB_HCA's grammar: "mlx5_1,mlx5_2:1" names that begin so, each with an optional port; "=..." names that are so;
// "^..." or "^=..." all but these. Empty: all.
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

// The address that a port is reached at. `index` as NCCL_IB_GID_INDEX: below 0 the best one is taken: of RoCE v2 before
// v1; an IPv4 address, else an IPv6 one of more than this link, else any. `peerGid`: of its family only, IPv4 or not,
// as the two ends of a connection must agree in that.
Result<Gid> chooseGid(const Port& port, int index, const GidBytes* peerGid = nullptr);

// The ports to use. What is left out for another reason than the filter is told through `report`, with the reason.
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
