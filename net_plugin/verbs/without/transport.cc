// This file replaces ib/ if <infiniband/verbs.h> is missing at build time.
#include "net_plugin/verbs/transport.h"

#include "net_plugin/log.h"

namespace bps::plugin::verbs {

Result<std::vector<std::unique_ptr<RdmaDevice>>> openDevices(const VerbsOptions&) {
  if (!readPorts().empty())
    logWarn("RDMA devices are not used: this plugin was built without verbs (install libibverbs-dev and rebuild)");
  else logInfo("built without verbs: <infiniband/verbs.h> was missing (libibverbs-dev)");
  return std::vector<std::unique_ptr<RdmaDevice>>();
}

}  // namespace bps::plugin::verbs
