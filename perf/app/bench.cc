#include "perf/app/bench.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <cstring>

#include "perf/app/host_memory.h"
#include "src/base/format.h"

namespace bps::perf {
namespace {

constexpr int kStale = 0xA5;  // the byte that fills a receive buffer before a check

double now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

Buffers::~Buffers() {
  for (void* each : {send_, recv_}) {
    if (gpu_ == nullptr) bpsMemFree(each);
    else if (each != nullptr) gpu_->release(each);
  }
  bpsMemFree(onHost_);
}

Status Buffers::allocate(size_t bytes) {
  if (gpu_ == nullptr) {
    BPS_TRY(allocateOn(bytes, send_));
    return allocateOn(bytes, recv_);
  }
  send_ = BPS_TRY(gpu_->allocate(bytes));
  recv_ = BPS_TRY(gpu_->allocate(bytes));
  return allocateOn(bytes, onHost_);
}

Status Buffers::allocateOn(size_t bytes, void*& memory) {
  const bpsResult_t result = bpsMemAlloc(&memory, bytes);
  if (result == bpsSuccess) return {};
  return failure(static_cast<Code>(result), "bpsMemAlloc: {} bytes: {}", bytes, bpsGetLastError(nullptr));
}

Status Buffers::write(char* at, size_t bytes, const std::function<void(char*)>& make) {
  make(gpu_ == nullptr ? at : static_cast<char*>(onHost_));
  return gpu_ == nullptr ? Status() : gpu_->copy(at, onHost_, bytes);
}

Status Buffers::read(const char* at, size_t bytes, const std::function<void(const char*)>& look) {
  if (gpu_ != nullptr) BPS_TRY(gpu_->copy(onHost_, at, bytes));
  look(gpu_ == nullptr ? at : static_cast<const char*>(onHost_));
  return {};
}

Result<uint64_t> Bench::maxFittingBytes(const Options& options, RankCommunicator& rank, int ranksOnHost) {
  // The buffers may use four fifths of the available memory. The library and other programs need
  // the rest.
  const double room = 0.8 * static_cast<double>(availableMemory()) / ranksOnHost / 2;
  const double least = BPS_TRY(rank.allReduceValue(room, bpsMin));
  return least >= static_cast<double>(options.maxBytes) ? options.maxBytes : static_cast<uint64_t>(least);
}

Status Bench::run() {
  const size_t bytes = options_.maxBytes + static_cast<size_t>(options_.unalign) * sizeof(double) + sizeof(double);
  BPS_TRY(buffers_.allocate(bytes));
  if (options_.registerBuffers != 0) {
    BPS_TRY(rank_.registerBuffer(buffers_.send(), bytes));
    BPS_TRY(rank_.registerBuffer(buffers_.recv(), bytes));
  }
  for (int cycle = 0; options_.cycles == 0 || cycle < options_.cycles; ++cycle) {
    for (const NamedType& type : chosenTypes(options_.type)) {
      for (const NamedOp& op : chosenOps(options_.op)) BPS_TRY(runTable(type, op));
    }
  }
  return {};
}

Status Bench::runTable(const NamedType& type, const NamedOp& op) {
  Call call{.type = type, .op = op, .use = op.op};
  const Generator generator(type.type, op.op, rank_.ranks());
  const bool own = op.op == bpsNumOps;
  if (own) call.use = BPS_TRY(rank_.preMulSum(type.type, generator.premulScalar(rank_.rank())));
  // Fill the buffers with the generator's values, so that no timed call touches new pages or adds
  // denormal numbers.
  const size_t room = options_.maxBytes / typeBytes(type.type);
  call.count = 0;
  for (char* buffer : {buffers_.send(), buffers_.recv()})
    BPS_TRY(buffers_.write(buffer + offset(call, 0), room * typeBytes(type.type),
                           [&](char* memory) { generator.fill(memory, room, rank_.rank(), 0); }));
  BPS_TRY(runSizes(call));
  if (own) BPS_TRY(rank_.destroyOp(call.use));
  return {};
}

Status Bench::runSizes(const Call& call) {
  const size_t element = typeBytes(call.type.type);
  for (uint64_t size = options_.minBytes; options_.warmup > 0 && size <= options_.maxBytes;) {
    Call warm = call;
    warm.count = size / element;
    for (int i = 0; i < options_.warmup; ++i) BPS_TRY(issueGroup(warm, static_cast<uint64_t>(i)));
    BPS_TRY(rank_.synchronize());
    if (size == 0 || size > UINT64_MAX / 2) break;
    size *= 2;
  }
  for (std::optional<uint64_t> size = options_.minBytes; size; size = nextSize(options_, *size)) {
    Call row = call;
    row.count = *size / element;
    BPS_TRY(runRow(row));
  }
  return {};
}

Status Bench::runRow(Call call) {
  Row row;
  row.count = call.count;
  row.bytes = call.bytes();
  row.type = call.type.name;
  row.op = call.op.name;
  const Generator generator(call.type.type, call.op.op, rank_.ranks());
  for (Measurement* half : {&row.outOfPlace, &row.inPlace}) {
    call.inPlace = half == &row.inPlace;
    onStart_(row, call.inPlace);
    BPS_TRY(measure(call, generator, *half));
    totals_.busBw += half->busbw;
    ++totals_.measurements;
  }
  if (row.outOfPlace.wrong > 0 || row.inPlace.wrong > 0) ++totals_.outOfBounds;
  onRow_(row);
  const bool kept = !options_.jsonFile.empty() || !options_.csvFile.empty() || !options_.plotFile.empty();
  if (kept && options_.cycles != 0) totals_.rows.push_back(std::move(row));
  return {};
}

Status Bench::measure(const Call& call, const Generator& generator, Measurement& result) {
  BPS_TRY(timeRun(call, result));
  const double seconds = result.micros * 1e-6;
  result.algbw = seconds > 0 ? static_cast<double>(call.bytes()) / 1e9 / seconds : 0;
  result.busbw = result.algbw * busFactor(rank_.ranks());
  if (options_.perIteration != 0) BPS_TRY(timeIterations(call, result));
  if (options_.checks > 0) BPS_TRY(check(call, generator, result));
  return {};
}

Status Bench::timeRun(const Call& call, Measurement& result) {
  BPS_TRY(issueGroup(call, 0));
  BPS_TRY(rank_.synchronize());
  BPS_TRY(rank_.barrier());
  excluded_ = 0;
  const double start = now();
  for (int i = 0; i < options_.iterations; ++i) BPS_TRY(issueGroup(call, static_cast<uint64_t>(i) + 1));
  const double issued = now();
  BPS_TRY(rank_.synchronize());
  const double seconds = (options_.cpuTime != 0 ? issued : now()) - start - excluded_;
  result.micros = BPS_TRY(allReduceValue(seconds * 1e6 / options_.iterations / options_.aggregated));
  return {};
}

// Times each iteration separately and takes the slowest rank's time.
Status Bench::timeIterations(const Call& call, Measurement& result) {
  BPS_TRY(rank_.barrier());
  std::vector<double> times;
  for (int i = 0; i < options_.iterations; ++i) {
    excluded_ = 0;
    const double start = now();
    BPS_TRY(issueGroup(call, static_cast<uint64_t>(i)));
    BPS_TRY(rank_.synchronize());
    if (i >= options_.skipIterations) times.push_back((now() - start - excluded_) * 1e6 / options_.aggregated);
  }
  BPS_TRY(rank_.maxOverRanksInPlace(times));
  result.iterations = iterationTimes(std::move(times));
  return {};
}

Status Bench::check(const Call& call, const Generator& generator, Measurement& result) {
  result.checked = true;
  for (int i = 0; i < options_.checks && result.wrong == 0; ++i) {
    ++epoch_;
    const size_t at = offset(call, epoch_);
    char* recv = buffers_.recv() + at;
    char* send = call.inPlace ? recv : buffers_.send() + at;
    const size_t bytes = call.bytes();
    if (!call.inPlace) BPS_TRY(buffers_.write(recv, bytes, [&](char* memory) { std::memset(memory, kStale, bytes); }));
    BPS_TRY(
        buffers_.write(send, bytes, [&](char* memory) { generator.fill(memory, call.count, rank_.rank(), epoch_); }));
    BPS_TRY(issueOne(call, epoch_));
    BPS_TRY(rank_.synchronize());
    uint64_t wrong = 0;
    BPS_TRY(buffers_.read(recv, bytes,
                          [&](const char* memory) { wrong = generator.wrongElements(memory, call.count, epoch_); }));
    result.wrong = BPS_TRY(rank_.sumOverRanks(wrong));
  }
  return {};
}

// Issues as many calls as option -m says, in one group. With -z 1 and -z 2, waits after each call
// instead and forms no group.
Status Bench::issueGroup(const Call& call, uint64_t iteration) {
  const auto calls = static_cast<uint64_t>(options_.aggregated);
  const bool each = options_.blocking == 1 || options_.blocking == 2;
  const bool group = calls > 1 && !each;
  if (group) BPS_TRY(rank_.groupStart());
  for (uint64_t i = 0; i < calls; ++i) {
    BPS_TRY(issueOne(call, iteration * calls + i));
    if (each) BPS_TRY(rank_.synchronize());
    if (options_.blocking == 1) BPS_TRY(rank_.barrier());
  }
  if (group) BPS_TRY(rank_.groupEnd());
  if (options_.blocking != 3) return {};
  BPS_TRY(rank_.synchronize());
  const double start = now();
  BPS_TRY(rank_.barrier());
  excluded_ += now() - start;
  return {};
}

Status Bench::issueOne(const Call& call, uint64_t iteration) {
  const size_t at = offset(call, iteration);
  char* recv = buffers_.recv() + at;
  const char* send = call.inPlace ? recv : buffers_.send() + at;
  return rank_.allReduce(send, recv, call.count, call.type.type, call.use);
}

// Successive calls use different ranges of the buffers if there is room, so that no call finds its
// data in a cache.
size_t Bench::offset(const Call& call, uint64_t iteration) const {
  const size_t bytes = call.bytes();
  const size_t unaligned = static_cast<size_t>(options_.unalign) * typeBytes(call.type.type);
  if (bytes == 0) return unaligned;
  const size_t parts = std::max<size_t>(1, options_.maxBytes / std::bit_ceil(bytes));
  return iteration % parts * bytes + unaligned;
}

Result<double> Bench::allReduceValue(double value) {
  if (options_.average == 2) return rank_.allReduceValue(value, bpsMin);
  if (options_.average == 3) return rank_.allReduceValue(value, bpsMax);
  if (options_.average == 0 && rank_.rank() != 0) value = 0;
  const double sum = BPS_TRY(rank_.allReduceValue(value, bpsSum));
  return options_.average == 0 ? sum : sum / rank_.ranks();
}

}  // namespace bps::perf
