#include <nlohmann/json.hpp>

#include "src/comm/communicator.h"

namespace bps {

std::string Communicator::describe() const {
  const Roster& roster = control_->roster();
  nlohmann::ordered_json facts;
  facts["ranks"] = nRanks();
  facts["machines"] = roster.machines.size();
  facts["servers"] = roster.servers.size();
  facts["serverNames"] = nlohmann::ordered_json::array();
  for (const ServerEntry& server : roster.servers) facts["serverNames"].push_back(server.name);
  facts["transport"] = channel_->transport();
  facts["shares"] = {{"workers", plan_.shares.workers}, {"servers", plan_.shares.servers}};
  facts["chunkBytes"] = tuning_.limits.unitBytes;
  facts["directBytes"] = tuning_.limits.directMachines > 0 ? tuning_.limits.directBytes : 0;
  facts["eagerBytes"] = tuning_.limits.eagerBytes;
  facts["window"] = tuning_.window;
  facts["kernels"] = std::string(reduceTarget());
  return facts.dump();
}

}  // namespace bps
