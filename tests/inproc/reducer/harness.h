// Communicators and reducers of several ranks in this process, for the tests of the reducer. The tests use the public
// interface, as a program does.
#pragma once
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bps/bps_ext.h"
#include "bps/reducer.h"
#include "tests/support/cluster.h"
#include "tests/support/data.h"

namespace bps::test {

struct JobShape {
  size_t ranks = 2, servers = 0, comms = 1, perMachine = 1;
};

// `comms` communicators of the same ranks and servers, and one more for reference results.
class ReducerJob {
 public:
  explicit ReducerJob(const JobShape& shape);
  ~ReducerJob();
  size_t ranks() const { return shape_.ranks; }
  // Returns the communicators of a rank.
  std::vector<bpsComm_t> of(size_t rank) const;
  bpsComm_t reference(size_t rank) const { return comms_.back()[rank]; }
  bpsComm_t& at(size_t comm, size_t rank) { return comms_[comm][rank]; }
  // Runs body(rank) on a thread for each rank.
  void run(const std::function<void(size_t)>& body) const;

 private:
  JobShape shape_;
  std::unique_ptr<Servers> servers_;
  std::vector<std::vector<bpsComm_t>> comms_;  // of each communicator, of each rank
};

struct Model {
  std::vector<size_t> counts;
  std::vector<bpsDataType_t> types;
  size_t size() const { return counts.size(); }
  size_t bytes(size_t parameter) const {
    return counts[parameter] * elementBytes(static_cast<DataType>(types[parameter]));
  }
};
Model floatModel(std::vector<size_t> counts);

// A reducer of one rank, with the memory of its gradients.
class ReducerRank {
 public:
  ReducerRank(const ReducerJob& job, size_t rank, const Model& model, const bpsReducerConfig_t& config);
  ~ReducerRank();
  bpsReducer_t get() const { return reducer_; }
  // Frees the reducer now.
  void destroy();
  size_t rank() const { return rank_; }
  // Begins an iteration, and asks for the new places of moved views. Returns whether they have moved.
  bool begin(bool synchronize);
  // Returns where the gradient of the parameter lies.
  uint8_t* gradient(size_t parameter) const { return static_cast<uint8_t*>(places_[parameter]); }
  Bytes content(size_t parameter) const { return {gradient(parameter), gradient(parameter) + model_.bytes(parameter)}; }
  void fill(size_t parameter, float value);  // for parameters of type float
  float first(size_t parameter) const { return *reinterpret_cast<const float*>(gradient(parameter)); }
  bpsResult_t ready(size_t parameter) const { return bpsReducerReady(reducer_, parameter, argument(parameter)); }
  bpsResult_t unused(size_t parameter) const { return bpsReducerUnused(reducer_, parameter, argument(parameter)); }
  bpsResult_t wait(size_t parameter) const { return bpsReducerWait(reducer_, parameter); }
  bpsResult_t finish() const { return bpsReducerFinish(reducer_); }
  bool usedByAny(size_t parameter) const;
  size_t bucketOf(size_t parameter) const;
  std::vector<bpsReducerBucket_t> stats() const;

 private:
  void* argument(size_t parameter) const { return views_ ? nullptr : places_[parameter]; }

  const Model model_;
  const size_t rank_;
  const bool views_;
  bpsReducer_t reducer_ = nullptr;
  std::vector<Bytes> memory_;  // unless the gradients are views
  std::vector<void*> places_;
};

// True if the last error of this thread contains `text`.
testing::AssertionResult lastErrorSays(const std::string& text);

}  // namespace bps::test
