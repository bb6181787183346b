// The program that runs bps for perf/compare_peers. Rank and settings come from the environment, as
// in bps-perf.
#include <bps/bps.h>
#include <bps/bps_ext.h>

#include <cstdio>
#include <cstdlib>
#include <utility>

#include "perf/app/environment.h"
#include "perf/peers/timing.h"

namespace bps::perf {
namespace {

class Bps final : public ComparedLibrary {
 public:
  explicit Bps(const LaunchEnv& place) : rank_(place.process), ranks_(place.processes) {
    bpsUniqueId id;
    check("bpsGetUniqueId", bpsGetUniqueId(&id));
    check("bpsCommInitRank", bpsCommInitRank(&comm_, ranks_, id, rank_));
  }
  ~Bps() override { check("bpsCommDestroy", bpsCommDestroy(comm_)); }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void prepare(const float* send, float* recv, size_t count) override {
    send_ = send;
    recv_ = recv;
    count_ = count;
  }
  void allReduce() override { sum(send_, recv_, count_, bpsFloat32, bpsSum); }
  double maxOverRanks(double value) override {
    sum(&value, &value, 1, bpsFloat64, bpsMax);
    return value;
  }

 private:
  static void check(const char* call, bpsResult_t result) {
    if (result == bpsSuccess) return;
    std::fprintf(stderr, "%s: %s: %s\n", call, bpsGetErrorString(result), bpsGetLastError(nullptr));
    std::exit(1);
  }
  void sum(const void* send, void* recv, size_t count, bpsDataType_t type, bpsRedOp_t op) {
    check("bpsAllReduce", bpsAllReduce(send, recv, count, type, op, comm_, nullptr));
    check("bpsHostStreamSynchronize", bpsHostStreamSynchronize(nullptr));
  }

  const int rank_, ranks_;
  bpsComm_t comm_ = nullptr;
  const float* send_ = nullptr;
  float* recv_ = nullptr;
  size_t count_ = 0;
};

int run(const char* sizes, const char* seconds) {
  TimingRequest request;
  if (!parseTimingRequest(sizes, seconds, request)) return 2;
  auto place = readLaunchEnv(processLookup());
  if (!place.ok()) {
    std::fprintf(stderr, "%s\n", std::move(place).status().message());
    return 2;
  }
  Bps library(std::move(place).value());
  return timeAll(library, request);
}

}  // namespace
}  // namespace bps::perf

int main(int count, char** words) {
  if (count == 3) return bps::perf::run(words[1], words[2]);
  std::fprintf(stderr, "usage: bps SIZES SECONDS\n");
  return 2;
}
