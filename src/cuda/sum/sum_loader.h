// SumKernel: the kernel of sum_kernel.h on one device.
//
// load() may block until the device is idle, so it must not run while a call is in flight. launch() only puts the
// kernel into a stream: load() has already loaded the code and launched it once. A SumKernel is never unloaded, because
// unloading may block too. Any thread may call these functions.
#pragma once
#include "src/cuda/device.h"
#include "src/cuda/sum/sum_kernel.h"

namespace bps::cuda {

class SumKernel {
 public:
  // Later calls return the same object. Fails if the driver cannot load modules, or not this one.
  static Result<const SumKernel*> load(const Device& device);
  // The stream must belong to the device's primary context.
  Status launch(const SumArguments& sum, Stream stream) const;

 private:
  SumKernel(const Device& device, Function function) : device_(device), function_(function) {}
  static Result<const SumKernel*> create(const Device& device);

  const Device& device_;
  Function function_;
};

}  // namespace bps::cuda
