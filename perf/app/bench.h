// Bench measures and checks the rows of bps-perf's table on one rank. Every rank runs the same
// sequence of calls and gets the same rows, because times and numbers of wrong elements are reduced
// over the ranks. One thread uses a Bench.
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

// The send and receive buffers of one rank, on the rank's GPU if it has one. The buffers must
// outlive the communicator that uses them.
class Buffers {
 public:
  explicit Buffers(Gpu* gpu) : gpu_(gpu) {}
  Buffers(const Buffers&) = delete;
  Buffers& operator=(const Buffers&) = delete;
  ~Buffers();
  Status allocate(size_t bytes);
  // write() lets `make` write the bytes at `at` in host memory. read() lets `look` read the bytes
  // at `at` in host memory. If the buffers are on a GPU, both functions copy the bytes.
  Status write(char* at, size_t bytes, const std::function<void(char*)>& make);
  Status read(const char* at, size_t bytes, const std::function<void(const char*)>& look);
  char* send() const { return static_cast<char*>(send_); }
  char* recv() const { return static_cast<char*>(recv_); }

 private:
  Status allocateOn(size_t bytes, void*& memory);

  Gpu* gpu_;
  void* send_ = nullptr;
  void* recv_ = nullptr;
  void* onHost_ = nullptr;  // host copy of one buffer, if the buffers are on a GPU
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
  using OnStart = std::function<void(const Row&, bool inPlace)>;
  // `buffers` must outlive `rank`'s communicator. Calls `onStart` before it measures half of a row,
  // and `onRow` after the row.
  Bench(const Options& options, RankCommunicator& rank, Buffers& buffers, OnStart onStart, OnRow onRow)
      : options_(options), rank_(rank), buffers_(buffers), onStart_(std::move(onStart)), onRow_(std::move(onRow)) {}
  // Returns the largest size, at most that of option -e, for which two buffers of every rank fit
  // into memory. All ranks must call this function.
  static Result<uint64_t> maxFittingBytes(const Options& options, RankCommunicator& rank, int ranksOnHost);
  Status run();
  const BenchTotals& totals() const { return totals_; }

 private:
  struct Call {
    NamedType type;
    NamedOp op;      // the operation that the command line names
    bpsRedOp_t use;  // the operation to pass to bpsAllReduce
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
  OnStart onStart_;
  OnRow onRow_;
  BenchTotals totals_;
  uint64_t epoch_ = 0;
  double excluded_ = 0;  // seconds spent in barriers, which the times leave out
};

}  // namespace bps::perf
