// The C functions of include/bps/reducer.h.
#include <bps/reducer.h>

#include <memory>
#include <utility>

#include "src/api/api_guard.h"
#include "src/base/process/fork_generation.h"
#include "src/reducer/reducer.h"
#include "src/reducer/reducer_spec.h"

using namespace bps;

struct bpsReducer {
  static constexpr uint64_t kMagic = 0x6270732d72656475;  // "bps-redu"
  uint64_t magic = kMagic;
  const unsigned forks = forkGeneration();
  std::unique_ptr<reducer::Reducer> reducer;
  ~bpsReducer() { magic = 0; }
};

namespace bps {
namespace {

using reducer::Reducer;
using reducer::ReducerSpec;

Status create(bpsReducer_t* out, const reducer::ReducerArguments& args, const bpsReducerConfig_t* config) {
  if (out == nullptr) return badArgument("reducer is NULL");
  *out = nullptr;
  auto handle = std::make_unique<bpsReducer>();
  ReducerSpec spec = BPS_TRY(reducer::checkedSpec(args, config));
  handle->reducer = BPS_TRY(Reducer::create(std::move(spec)));
  *out = handle.release();
  return {};
}

Result<Reducer*> checkedReducer(bpsReducer_t handle) {
  if (handle == nullptr) return badArgument("reducer is NULL");
  if (handle->magic != bpsReducer::kMagic) return badArgument("reducer is no reducer, or was destroyed");
  if (handle->forks != forkGeneration())
    return Status(Code::kInvalidUsage, "reducer belongs to the process that forked this one off");
  return handle->reducer.get();
}

// A forked child process has no threads of the reducer, so it frees nothing.
Status destroy(bpsReducer_t handle) {
  if (handle == nullptr) return {};
  if (handle->magic == bpsReducer::kMagic && handle->forks != forkGeneration()) return {};
  BPS_TRY(checkedReducer(handle));
  delete handle;
  return {};
}

Status report(const Reducer& reducer, bpsReducerBucket_t* buckets, size_t* count) {
  if (count == nullptr) return badArgument("count is NULL");
  const std::vector<Reducer::BucketReport> reports = reducer.report();
  const size_t room = std::exchange(*count, reports.size());
  if (buckets == nullptr) return {};
  if (room < reports.size()) return badArgument("buckets has room for {} buckets, there are {}", room, reports.size());
  for (size_t i = 0; i < reports.size(); ++i) {
    const auto& [bytes, parameters, queue, times] = reports[i];
    buckets[i] = {bytes, parameters, queue, times.ready, times.launched, times.ended};
  }
  return {};
}

// Runs body(reducer) as the body of a C function.
template <class Body>
bpsResult_t withReducer(const char* function, bpsReducer_t handle, const Body& body) {
  return apiGuard(function, [&]() -> Status { return body(*BPS_TRY(checkedReducer(handle))); });
}

template <class T, class U>
Status store(T* out, const char* name, Result<U> value) {
  if (out == nullptr) return badArgument("{} is NULL", name);
  *out = static_cast<T>(BPS_TRY(std::move(value)));
  return {};
}

}  // namespace
}  // namespace bps

// NOLINTNEXTLINE(readability-function-size): a C function has no overloads and no default arguments
bpsResult_t bpsReducerCreate(bpsReducer_t* reducer, size_t nparams, const size_t* counts, const bpsDataType_t* types,
                             size_t ncomms, const bpsComm_t* comms, const bpsReducerConfig_t* config) {
  return apiGuard(__func__, [&] { return create(reducer, {nparams, counts, types, ncomms, comms}, config); });
}

bpsResult_t bpsReducerDestroy(bpsReducer_t reducer) {
  return apiGuard(__func__, [&] { return destroy(reducer); });
}

bpsResult_t bpsReducerGradient(bpsReducer_t reducer, size_t param, void** gradient) {
  return withReducer(__func__, reducer, [&](Reducer& r) { return store(gradient, "gradient", r.view(param)); });
}

bpsResult_t bpsReducerBegin(bpsReducer_t reducer, int synchronize, int* moved) {
  return withReducer(__func__, reducer, [&](Reducer& r) -> Status {
    const bool viewsMoved = BPS_TRY(r.begin(synchronize != 0));
    if (moved != nullptr) *moved = viewsMoved ? 1 : 0;
    return {};
  });
}

bpsResult_t bpsReducerReady(bpsReducer_t reducer, size_t param, void* gradient) {
  return withReducer(__func__, reducer, [&](Reducer& r) { return r.mark(param, gradient, true); });
}

bpsResult_t bpsReducerUnused(bpsReducer_t reducer, size_t param, void* gradient) {
  return withReducer(__func__, reducer, [&](Reducer& r) { return r.mark(param, gradient, false); });
}

bpsResult_t bpsReducerWait(bpsReducer_t reducer, size_t param) {
  return withReducer(__func__, reducer, [&](Reducer& r) { return r.wait(param); });
}

bpsResult_t bpsReducerFinish(bpsReducer_t reducer) {
  return withReducer(__func__, reducer, [](Reducer& r) { return r.finish(); });
}

bpsResult_t bpsReducerUsed(bpsReducer_t reducer, size_t param, int* used) {
  return withReducer(__func__, reducer, [&](Reducer& r) { return store(used, "used", r.usedByAny(param)); });
}

bpsResult_t bpsReducerStats(bpsReducer_t reducer, bpsReducerBucket_t* buckets, size_t* count) {
  return withReducer(__func__, reducer, [&](Reducer& r) { return report(r, buckets, count); });
}

bpsResult_t bpsReducerBucketOf(bpsReducer_t reducer, size_t param, size_t* bucket) {
  return withReducer(__func__, reducer, [&](Reducer& r) { return store(bucket, "bucket", r.bucketOf(param)); });
}
