// A rank's CUDA device, its buffers and its streams. The CUDA driver may be real or fake. A failure
// ends the program with a message.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "src/cuda/device.h"
#include "src/cuda/pinned_memory.h"

namespace bps::test {

[[noreturn]] void fail(const std::string& what);

// Opens the chosen device (by default the first one) and makes its context current on the calling
// thread permanently.
const cuda::Device& gpu();
// Chooses device `number` modulo the number of devices.
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

// A buffer on the device and a pinned host buffer of the same size.
class Buffer {
 public:
  explicit Buffer(size_t bytes);
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer();
  void* data() const { return reinterpret_cast<void*>(address_); }
  uint8_t* onHost() const { return host_->data(); }
  float* floats() const { return reinterpret_cast<float*>(onHost()); }
  // upload() and download() queue a copy on the stream.
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
