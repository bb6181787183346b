#include "src/comm/servers/server_weights.h"

#include <algorithm>

namespace bps {

void ServerWeights::add(uint64_t firstCall, size_t server, bool present, double bytesPerSecond) {
  MutexLock lock(mutex_);
  changes_.push_back({firstCall, server, ServerEntry{"", bytesPerSecond, present}});
}

void ServerWeights::addRate(uint64_t firstCall, size_t server, double factor) {
  MutexLock lock(mutex_);
  ServerEntry entry = serversAt(UINT64_MAX)[server];
  entry.rateFactor = factor;
  changes_.push_back({firstCall, server, std::move(entry)});
}

std::vector<double> ServerWeights::factors() const {
  MutexLock lock(mutex_);
  std::vector<double> factors;
  for (const ServerEntry& server : serversAt(UINT64_MAX)) factors.push_back(server.rateFactor);
  return factors;
}

std::vector<ServerEntry> ServerWeights::serversAt(uint64_t call) const {
  std::vector<ServerEntry> servers = servers_;
  for (const Change& change : changes_)
    if (change.firstCall <= call) servers[change.server] = change.entry;
  return servers;
}

bool ServerWeights::changeAt(uint64_t call) const {
  MutexLock lock(mutex_);
  return std::any_of(changes_.begin(), changes_.end(), [&](const Change& change) { return change.firstCall == call; });
}

Result<std::vector<uint64_t>> ServerWeights::at(uint64_t call) const {
  MutexLock lock(mutex_);
  return weightsWith(roster_, serversAt(call));
}

Status ServerWeights::beforeCut(uint64_t call, Cutter& cutter) const {
  if (changeAt(call)) cutter.setWeights(BPS_TRY(at(call)));
  return {};
}

void ServerWeights::beforeBegin(uint64_t call) {
  MutexLock lock(mutex_);
  for (; !changes_.empty() && changes_.front().firstCall < call; changes_.pop_front())
    servers_[changes_.front().server] = changes_.front().entry;
}

size_t ServerWeights::present() const {
  MutexLock lock(mutex_);
  const std::vector<ServerEntry> servers = serversAt(UINT64_MAX);
  return static_cast<size_t>(
      std::count_if(servers.begin(), servers.end(), [](const ServerEntry& server) { return server.present; }));
}

}  // namespace bps
