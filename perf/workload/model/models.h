// Parameter tensors of known neural networks, built from their architectures, layer by layer. The
// number at the end of each entry is the network's number of parameters.
//
//   lenet5      LeCun 1998 as commonly implemented: full connections between the feature maps, 32 x 32 input, a plain
//               84 x 10 output layer                                                                     61,706
//   resnet50    bottleneck blocks 3, 4, 6, 3; scale and shift of batch normalisation are parameters, its running
//               statistics are not                                                                   25,557,032
//   vgg16       configuration D, no batch normalisation                                             138,357,544
//   vgg19       configuration E, no batch normalisation                                             143,667,240
//   bert-large  the bare encoder: embeddings (vocabulary 30522, 512 positions, 2 segments), 24 layers of width 1024,
//               pooler; without a head for a task                                                   335,141,888
//   gpt2        the small model: vocabulary 50257, 1024 positions, 12 layers of width 768; the output layer is tied to
//               the token embedding and counts once                                                 124,439,808
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "src/base/status.h"

namespace bps::perf {

struct Parameter {
  std::string name;
  std::vector<uint64_t> shape;

  uint64_t count() const {
    uint64_t product = 1;
    for (uint64_t extent : shape) product *= extent;
    return product;
  }
};

// Returns the parameters in the order of the forward pass. If there is no such model, fails with
// kInvalidArgument and lists the known models.
Result<std::vector<Parameter>> modelParameters(std::string_view model);

std::span<const std::string_view> modelNames();

uint64_t totalCount(std::span<const Parameter> parameters);

}  // namespace bps::perf
