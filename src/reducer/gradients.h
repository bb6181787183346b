// Gradients: the memory of the buckets, and what the reducer knows about each gradient: its place in a
// bucket, its place in memory of the program, and whether this rank has used the parameter.
//
// Threads: moveTo() is called while no iteration is open. During an iteration, the entry of a parameter
// belongs to the thread that marks the parameter, then to the thread that waits for its bucket's call.
// The reducer's mutex orders these accesses.
#pragma once
#include <cstdint>
#include <vector>

#include "src/base/memory.h"
#include "src/reducer/bucket_plan.h"

namespace bps::reducer {

class Gradients {
 public:
  // If `views`, the gradients lie in the buckets; otherwise in memory of the program.
  static Result<Gradients> create(std::vector<Parameter> parameters, bool views, std::vector<Bucket> buckets);

  const std::vector<Parameter>& parameters() const { return parameters_; }
  const std::vector<Bucket>& buckets() const { return buckets_; }
  bool views() const { return views_; }
  uint8_t* bucketData(size_t bucket) const { return memory_[bucket].data(); }
  size_t bucketOf(size_t parameter) const { return entries_[parameter].bucket; }
  uint8_t* slot(size_t parameter) const;
  bool used(size_t parameter) const { return entries_[parameter].used; }

  // Notes that this rank uses the parameter, until forgetUse().
  void use(size_t parameter) { entries_[parameter].used = true; }
  void forgetUse();
  // Writes this rank's contribution into the bucket: the gradient, or zero if this rank does not use
  // the parameter. In the second case, keeps the value of a view. `gradient` is null for views.
  void contribute(size_t parameter, void* gradient);
  // Writes the averages of the used parameters of a bucket to the memory of the program.
  void deliverUsed(size_t bucket);
  // As deliverUsed(), for the other parameters. Those that no rank uses get back the value that they had.
  void deliverUnused(size_t bucket, const std::vector<uint8_t>& usedByAny);
  // Divides the gradients among other buckets. The values of views move with them.
  Status moveTo(std::vector<Bucket> buckets);

 private:
  struct Entry {
    size_t bucket = 0, offset = 0;
    void* gradient = nullptr;  // in memory of the program
    bool used = false;
    std::vector<uint8_t> kept;  // the value of a view whose slot contributes zero
  };

  Gradients(std::vector<Parameter> parameters, bool views) : parameters_(std::move(parameters)), views_(views) {}

  std::vector<Parameter> parameters_;
  bool views_;
  std::vector<Bucket> buckets_;
  std::vector<PageBuffer> memory_;  // of each bucket
  std::vector<Entry> entries_;      // of each parameter
};

}  // namespace bps::reducer
