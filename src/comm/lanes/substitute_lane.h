// SubstituteLane: takes the place of the lane to a lost server. The machines exchange the chunks of
// the server directly (exchange_path.h), so every machine sums them itself, in machine order. So the
// bits are the same, and no other owner has to take the chunks in an order of its own.
#pragma once
#include <memory>
#include <utility>

#include "src/comm/lanes/exchange_path.h"
#include "src/comm/lanes/lane.h"

namespace bps {

class SubstituteLane final : public Lane {
 public:
  SubstituteLane(ChunkBuffers& buffers, std::unique_ptr<ExchangePath> path) : Lane(buffers), path_(std::move(path)) {}
  Result<bool> step(uint64_t oldestRound) override;
  uint64_t oldestRound() const override;
  bool idle() const override { return waiting_.empty() && path_->idle(); }
  void forEachComm(const std::function<void(net::Comm&)>& use) override { path_->forEachComm(use); }
  std::optional<uint64_t> checkWait(std::chrono::milliseconds timeout) override;
  void addPeerWaits(const std::string&, std::vector<PeerWait>& waits) const override { path_->addPeerWaits(waits); }
  std::optional<size_t> failedEndpoint(size_t) const override { return path_->failedMachine(); }
  size_t awaitedEndpoint(size_t owner) const override { return awaited_.value_or(owner); }

 private:
  std::unique_ptr<ExchangePath> path_;
  std::optional<size_t> awaited_;
};

// The lane to a lost server if no rank can make further calls, because a rank has left.
class LostLane final : public Lane {
 public:
  using Lane::Lane;
  Result<bool> step(uint64_t) override { return false; }
  bool idle() const override { return waiting_.empty(); }
};

}  // namespace bps
