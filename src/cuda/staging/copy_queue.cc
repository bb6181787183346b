#include "src/cuda/staging/copy_queue.h"

#include <algorithm>
#include <bit>
#include <map>

#include "src/base/memory.h"
#include "src/cuda/stream_order.h"

namespace bps::cuda {
namespace {

constexpr size_t kWordDistance = 64;  // the words are on cache lines of their own
constexpr size_t kScalarRoom = 64;
constexpr size_t kMinRingBytes = 2U << 20, kMaxRingBytes = 32U << 20;
// A call is copied in at most kMaxSegments segments, unless its segments would be larger than a fourth of the ring. A
// segment has at least kMinSegmentBytes, because every copy takes some microseconds.
constexpr size_t kMaxSegments = 16, kMinSegmentBytes = 256U << 10;
static_assert(kMinRingBytes >= 4 * (kMinSegmentBytes + constants::kMaxChunkBytes));

struct Pool {
  Mutex mutex;
  std::map<std::pair<int, bool>, std::vector<CopyQueue*>> unused BPS_GUARDED_BY(mutex);  // by device and GPU memory
};

Pool& pool() {
  static auto* instance = new Pool;  // lives as long as the process
  return *instance;
}

size_t segmentBytes(size_t callBytes, size_t ringBytes) {
  return std::min(std::max(callBytes / kMaxSegments, kMinSegmentBytes), ringBytes / 4);
}

size_t bytesOf(std::span<const ChunkRef> chunks) {
  size_t bytes = 0;
  for (const ChunkRef& chunk : chunks) bytes += chunk.bytes;
  return bytes;
}

}  // namespace

Result<CopyQueue*> CopyQueue::take(const Device& device, bool gpuMemory) {
  {
    MutexLock lock(pool().mutex);
    std::vector<CopyQueue*>& unused = pool().unused[{device.ordinal(), gpuMemory}];
    const auto found = std::find_if(unused.begin(), unused.end(), [](const CopyQueue* queue) { return queue->idle(); });
    if (found != unused.end()) {
      CopyQueue* queue = *found;
      unused.erase(found);
      const MutexLock state(queue->mutex_);
      queue->released_ = false;
      return queue;
    }
  }
  return create(device, gpuMemory);
}

Result<CopyQueue*> CopyQueue::create(const Device& device, bool gpuMemory) {
  std::unique_ptr<CopyQueue> made(
      new CopyQueue(device, gpuMemory, BPS_TRY(PinnedMemory::create(device, kWords * kWordDistance))));
  // The priorities keep the two streams out of each other's queue of the device: a stream that waits for a sum must not
  // hold up copies out.
  made->out_ = BPS_TRY(OwnedStream::create(device, OwnedStream::Use::kCopies));
  made->in_ = BPS_TRY(OwnedStream::create(device, OwnedStream::Use::kWaits));
  made->reached_ = std::make_unique<OwnedEvent>(BPS_TRY(OwnedEvent::create(device)));
  made->ended_ = std::make_unique<OwnedEvent>(BPS_TRY(OwnedEvent::create(device)));
  return made.release();
}

void CopyQueue::recycle(CopyQueue* queue) {
  queue->release();
  MutexLock lock(pool().mutex);
  pool().unused[{queue->device_.ordinal(), queue->usesGpu_}].push_back(queue);
}

std::atomic_ref<uint32_t> CopyQueue::word(Word which) const {
  return std::atomic_ref<uint32_t>(*reinterpret_cast<uint32_t*>(words_.data() + which * kWordDistance));
}

Address CopyQueue::address(Word which) const { return words_.address() + which * kWordDistance; }

// The words have 32 bits and wrap around.
bool CopyQueue::hasPassed(Word which, uint64_t count) const {
  return static_cast<int32_t>(word(which).load(std::memory_order_acquire) - static_cast<uint32_t>(count)) >= 0;
}

Status CopyQueue::follow(Stream stream) { return orderAfter(device_, out_->get(), stream, *reached_); }

Status CopyQueue::lead(Stream stream) { return orderAfter(device_, stream, in_->get(), *ended_); }

// A ring that is too small is kept: copies may be using it. With GPU memory, which is registered once, there is one
// ring of the largest size.
Result<CopyRing*> CopyQueue::ringFor(size_t callBytes) {
  const size_t wanted =
      usesGpu_ ? kMaxRingBytes : std::clamp(std::bit_ceil(2 * callBytes + 1), kMinRingBytes, kMaxRingBytes);
  if (rings_.empty() || rings_.back()->bytes() < wanted)
    rings_.push_back(BPS_TRY(CopyRing::create(device_, wanted, usesGpu_)));
  return rings_.back().get();
}

Result<CopyQueue::PlacedCall> CopyQueue::place(const Buffers& buffers, std::span<const ChunkRef> chunks) {
  const size_t callBytes = bytesOf(chunks);
  PlacedCall call;
  call.buffers = buffers;
  call.ring = BPS_TRY(ringFor(callBytes));
  call.plan = planSegments(chunks, buffers.any() ? segmentBytes(callBytes, call.ring->bytes()) : SIZE_MAX);
  auto staged = std::make_shared<StagedCall>();
  staged->firstSegment = placed();
  for (const Segment& segment : call.plan.segments) {
    const size_t scalarBytes = call.rooms.empty() && buffers.scalar != nullptr ? kScalarRoom : 0;
    const size_t bytes = buffers.any() ? segment.bytes : 0;
    call.rooms.push_back(call.ring->take(bytes + scalarBytes, staged->firstSegment + call.rooms.size()));
    if (scalarBytes > 0) staged->scalar = call.ring->contributions(false) + call.rooms.back().offset + bytes;
    staged->chunksOf.push_back(segment.chunks);
  }
  for (size_t i = 0; i < chunks.size(); ++i) {
    const SegmentPlan::ChunkPlace& at = call.plan.places[i];
    const size_t offset = call.rooms[at.segment].offset + at.place;
    const bool onGpu = chunks[i].onGpu;
    staged->places.push_back({call.ring->contributions(onGpu) + offset, call.ring->sums(onGpu) + offset, at.segment});
  }
  call.staged = staged;
  const MutexLock lock(mutex_);
  placed_.store(staged->firstSegment + call.rooms.size(), std::memory_order_release);
  while (!inFlight_.empty() && hasPassed(kBack, inFlight_.front().second)) inFlight_.pop_front();
  inFlight_.emplace_back(staged->firstSegment, placed());
  if (released_) word(kIn).store(static_cast<uint32_t>(placed()), std::memory_order_release);
  return call;
}

// If a copy out waits for memory of an earlier segment of the same call, the copies in of that segment come first: in a
// queue that both streams share, they must not be behind what waits for them.
Status CopyQueue::enqueue(const PlacedCall& call) {
  const ScopedContext scope(device_);
  size_t copiedIn = 0;
  for (size_t i = 0; i < call.rooms.size(); ++i) {
    for (; call.staged->firstSegment + copiedIn < call.rooms[i].after; ++copiedIn) BPS_TRY(copyIn(call, copiedIn));
    BPS_TRY(copyOut(call, i));
  }
  for (; copiedIn < call.rooms.size(); ++copiedIn) BPS_TRY(copyIn(call, copiedIn));
  return {};
}

Status CopyQueue::copyOut(const PlacedCall& call, size_t index) const {
  const CopyRing::Room& room = call.rooms[index];
  const Api& api = device_.api();
  if (room.after > 0 && !hasPassed(kBack, room.after))
    BPS_TRY(check(api, api.streamWaitValue32(out_->get(), address(kBack), static_cast<uint32_t>(room.after), kWaitGeq),
                  "cuStreamWaitValue32"));
  if (index == 0 && call.buffers.scalar != nullptr)
    BPS_TRY(copy(*out_, call.staged->scalar, call.buffers.scalar, call.buffers.scalarBytes,
                 "cuMemcpyAsync of the operation's scalar"));
  for (const Segment::Run& run : call.plan.segments[index].runs)
    if (call.buffers.send != nullptr)
      BPS_TRY(copy(*out_, call.ring->contributions(run.onGpu) + room.offset + run.place, call.buffers.send + run.offset,
                   run.bytes, "cuMemcpyAsync out of the buffer"));
  const auto number = static_cast<uint32_t>(call.staged->firstSegment + index);
  return check(api, api.streamWriteValue32(out_->get(), address(kOut), number + 1, 0), "cuStreamWriteValue32");
}

// The in stream waits for the sums. It also waits until the segment is copied out: after release() nothing else would
// keep it from writing into a buffer that is still read, or that work before the call uses.
Status CopyQueue::copyIn(const PlacedCall& call, size_t index) const {
  const Api& api = device_.api();
  const auto number = static_cast<uint32_t>(call.staged->firstSegment + index);
  const auto waitFor = [&](Word which) {
    return check(api, api.streamWaitValue32(in_->get(), address(which), number + 1, kWaitGeq), "cuStreamWaitValue32");
  };
  BPS_TRY(waitFor(kOut));
  BPS_TRY(waitFor(kIn));
  for (const Segment::Run& run : call.plan.segments[index].runs)
    if (call.buffers.recv != nullptr)
      BPS_TRY(copy(*in_, call.buffers.recv + run.offset,
                   call.ring->sums(run.onGpu) + call.rooms[index].offset + run.place, run.bytes,
                   "cuMemcpyAsync back to the device"));
  return check(api, api.streamWriteValue32(in_->get(), address(kBack), number + 1, 0), "cuStreamWriteValue32");
}

Status CopyQueue::copy(const OwnedStream& stream, const void* to, const void* from, size_t bytes,
                       const char* what) const {
  if (bytes == 0) return {};
  const Api& api = device_.api();
  const auto target = reinterpret_cast<Address>(to), source = reinterpret_cast<Address>(from);
  return check(api, api.memcpyAsync(target, source, bytes, stream.get()), what);
}

void CopyQueue::setSummed(uint64_t segments) {
  const MutexLock lock(mutex_);
  if (!released_) word(kIn).store(static_cast<uint32_t>(segments), std::memory_order_release);
}

void CopyQueue::release() {
  const MutexLock lock(mutex_);
  released_ = true;
  word(kIn).store(static_cast<uint32_t>(placed()), std::memory_order_release);
}

bool CopyQueue::reachedCallsEnded() {
  const MutexLock lock(mutex_);
  return std::none_of(inFlight_.begin(), inFlight_.end(), [this](const auto& call) {
    return hasPassed(kOut, call.first + 1) && !hasPassed(kBack, call.second);
  });
}

}  // namespace bps::cuda
