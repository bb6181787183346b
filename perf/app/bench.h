// Bench: measures and checks the rows of the table on one rank. Every rank runs the same sequence of calls and gets the
// same rows, because times and wrong elements are reduced over the ranks. One thread uses it.
#pragma once
#include <cstdint>
#include <functional>
#include <vector>

#include "perf/app/generator.h"
#include "perf/app/gpu.h"
#include "perf/app/options.h"
#include "perf/app/rank.h"
#include "perf/report/report.h"

namespace bps::perf {

// Send and receive buffers of one rank, on its device if it has one. They must outlive the communicator that uses them.
class Buffers {
 public:
  explicit Buffers(Gpu* gpu) : gpu_(gpu) {}
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers();
  Status allocate(size_t bytes);
  // Calls `make` to write the bytes at `at`, or `look` to read them, in host memory.
  Status write(char* at, size_t bytes, const std::function<void(char*)>& make);
  Status read(const char* at, size_t bytes, const std::function<void(const char*)>& look);
  char* send() const { return static_cast<char*>(send_); }
  char* recv() const { return static_cast<char*>(recv_); }

 private:
  Status allocateOn(size_t bytes, void*& memory);

  Gpu* gpu_;
  void* send_ = nullptr;
  void* recv_ = nullptr;
  void* onHost_ = nullptr;  // host copy of one buffer, if the buffers are on a device
};

struct BenchTotals {
  std::vector<Row> rows;  // kept for -J
  uint64_t outOfBounds = 0, measurements = 0;
  double busBw = 0;  // sum
  double averageBusBw() const { return measurements > 0 ? busBw / static_cast<double>(measurements) : 0; }
};

class Bench {
 public:
  using OnRow = std::function<void(const Row&)>;
  // `buffers` must outlive `rank`'s communicator.
  Bench(const Options& options, RankCommunicator& rank, Buffers& buffers, OnRow onRow)
      : options_(options), rank_(rank), buffers_(buffers), onRow_(std::move(onRow)) {}
  // The largest size, at most that of -e, for which two buffers of every rank fit into memory. Collective.
  static Result<uint64_t> maxFittingBytes(const Options& options, RankCommunicator& rank, int ranksOnHost);
  Status run();
  const BenchTotals& totals() const { return totals_; }

 private:
  struct Call {
    NamedType type;
    NamedOp op;      // as on the command line
    bpsRedOp_t use;  // the operation to call
    size_t count = 0;
    bool inPlace = false;
    size_t bytes() const { return count * typeBytes(type.type); }
  };
  Status runTable(const NamedType& type, const NamedOp& op);
  Status runSizes(const Call& call);
  Status runRow(Call call);
  Status measure(const Call& call, const Generator& generator, Measurement& result);
  Status timeRun(const Call& call, Measurement& result);
  Status timeIterations(const Call& call, Measurement& result);
  Status check(const Call& call, const Generator& generator, Measurement& result);
  Status issueGroup(const Call& call, uint64_t iteration);
  Status issueOne(const Call& call, uint64_t iteration);
  size_t offset(const Call& call, uint64_t iteration) const;
  Result<double> allReduceValue(double value);

  const Options& options_;
  RankCommunicator& rank_;
  Buffers& buffers_;
  OnRow onRow_;
  BenchTotals totals_;
  uint64_t epoch_ = 0;
  double excluded_ = 0;  // seconds spent in barriers that are not timed
};

}  // namespace bps::perf
