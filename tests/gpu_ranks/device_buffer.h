// A rank's device: its buffers and streams, by CUDA's driver, be it real or the double. What fails ends the program,
// with a line that says what.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "src/cuda/device.h"
#include "src/cuda/pinned_memory.h"

namespace bps::test {

[[noreturn]] void fail(const std::string& what);

// The first device, or the one chosen before, and its context the calling thread's for good.
const cuda::Device& gpu();
// Of those that there are, counted round.
void chooseGpu(int number);

class Stream {
 public:
  Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  ~Stream();
  cuda::Stream get() const { return stream_; }
  void synchronize() const;
  bool idle() const;

 private:
  cuda::Stream stream_ = nullptr;
};

// On the device, and as much in pinned memory of the host.
class Buffer {
 public:
  explicit Buffer(size_t bytes);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();
  void* data() const { return reinterpret_cast<void*>(address_); }
  uint8_t* onHost() const { return host_->data(); }
  float* floats() const { return reinterpret_cast<float*>(onHost()); }
  // In the order of the stream.
  void upload(const Stream& stream) const { copy(address_, hostAddress(), bytes_, stream); }
  void download(const Stream& stream) const { download(stream, bytes_); }
  void download(const Stream& stream, size_t bytes) const { copy(hostAddress(), address_, bytes, stream); }

 private:
  cuda::Address hostAddress() const { return reinterpret_cast<cuda::Address>(onHost()); }
  static void copy(cuda::Address to, cuda::Address from, size_t bytes, const Stream& stream);
  size_t bytes_;
  cuda::Address address_ = 0;
  std::optional<cuda::PinnedMemory> host_;
};

}  // namespace bps::test
