#include "perf/workload/model/models.h"

#include <array>

#include "src/base/format.h"

namespace bps::perf {
namespace {

enum class Bias { kNo, kYes };

// Collects parameters; each call is one layer.
class Layers {
 public:
  void tensor(std::string name, std::vector<uint64_t> shape) { list_.push_back({std::move(name), std::move(shape)}); }

  // A square convolution from `in` to `out` channels.
  void conv(const std::string& name, uint64_t in, uint64_t out, uint64_t kernel, Bias bias) {
    tensor(name + ".weight", {out, in, kernel, kernel});
    if (bias == Bias::kYes) tensor(name + ".bias", {out});
  }
  void linear(const std::string& name, uint64_t in, uint64_t out) {
    tensor(name + ".weight", {out, in});
    tensor(name + ".bias", {out});
  }
  // The scale and the shift of a batch or layer normalisation.
  void norm(const std::string& name, uint64_t width) {
    tensor(name + ".weight", {width});
    tensor(name + ".bias", {width});
  }
  void embedding(const std::string& name, uint64_t entries, uint64_t width) {
    tensor(name + ".weight", {entries, width});
  }

  std::vector<Parameter> take() && { return std::move(list_); }

 private:
  std::vector<Parameter> list_;
};

std::vector<Parameter> lenet5() {
  Layers layers;
  layers.conv("conv1", 1, 6, 5, Bias::kYes);   // turns 32 x 32 into 28 x 28, pooled to 14 x 14
  layers.conv("conv2", 6, 16, 5, Bias::kYes);  // turns 14 x 14 into 10 x 10, pooled to 5 x 5
  layers.linear("fc1", uint64_t{16} * 5 * 5, 120);
  layers.linear("fc2", 120, 84);
  layers.linear("fc3", 84, 10);
  return std::move(layers).take();
}

// Adds three convolutions: 1 x 1 down to `width` channels, 3 x 3, and 1 x 1 up to 4 * width
// channels. If the shortcut's shape changes, also adds a projection.
void bottleneck(Layers& layers, const std::string& name, uint64_t in, uint64_t width, bool projects) {
  const uint64_t out = 4 * width;
  layers.conv(name + ".conv1", in, width, 1, Bias::kNo);
  layers.norm(name + ".bn1", width);
  layers.conv(name + ".conv2", width, width, 3, Bias::kNo);
  layers.norm(name + ".bn2", width);
  layers.conv(name + ".conv3", width, out, 1, Bias::kNo);
  layers.norm(name + ".bn3", out);
  if (!projects) return;
  layers.conv(name + ".downsample.0", in, out, 1, Bias::kNo);
  layers.norm(name + ".downsample.1", out);
}

std::vector<Parameter> resnet50() {
  constexpr std::array<int, 4> kBlocks = {3, 4, 6, 3};
  Layers layers;
  layers.conv("conv1", 3, 64, 7, Bias::kNo);
  layers.norm("bn1", 64);
  uint64_t in = 64;
  uint64_t width = 64;
  for (size_t stage = 0; stage < kBlocks.size(); ++stage, width *= 2) {
    for (int block = 0; block < kBlocks[stage]; ++block) {
      bottleneck(layers, fmt::format("layer{}.{}", stage + 1, block), in, width, block == 0);
      in = 4 * width;
    }
  }
  layers.linear("fc", in, 1000);
  return std::move(layers).take();
}

// Five stages of 3 x 3 convolutions. Pooling after each stage turns 224 x 224 into 7 x 7 in the
// end.
std::vector<Parameter> vgg(const std::array<int, 5>& convolutions) {
  constexpr std::array<uint64_t, 5> kWidths = {64, 128, 256, 512, 512};
  Layers layers;
  uint64_t in = 3;
  for (size_t stage = 0; stage < kWidths.size(); ++stage) {
    for (int i = 0; i < convolutions[stage]; ++i) {
      layers.conv(fmt::format("conv{}_{}", stage + 1, i + 1), in, kWidths[stage], 3, Bias::kYes);
      in = kWidths[stage];
    }
  }
  layers.linear("fc6", in * 7 * 7, 4096);
  layers.linear("fc7", 4096, 4096);
  layers.linear("fc8", 4096, 1000);
  return std::move(layers).take();
}

std::vector<Parameter> vgg16() { return vgg({2, 2, 3, 3, 3}); }
std::vector<Parameter> vgg19() { return vgg({2, 2, 4, 4, 4}); }

std::vector<Parameter> bertLarge() {
  constexpr uint64_t kWidth = 1024;
  Layers layers;
  layers.embedding("embeddings.word", 30522, kWidth);
  layers.embedding("embeddings.position", 512, kWidth);
  layers.embedding("embeddings.segment", 2, kWidth);
  layers.norm("embeddings.norm", kWidth);
  for (int i = 0; i < 24; ++i) {
    const std::string layer = fmt::format("encoder.{}.", i);
    for (const char* part : {"query", "key", "value", "output"}) {
      layers.linear(layer + "attention." + part, kWidth, kWidth);
    }
    layers.norm(layer + "attention.norm", kWidth);
    layers.linear(layer + "intermediate", kWidth, 4 * kWidth);
    layers.linear(layer + "output", 4 * kWidth, kWidth);
    layers.norm(layer + "output.norm", kWidth);
  }
  layers.linear("pooler", kWidth, kWidth);
  return std::move(layers).take();
}

std::vector<Parameter> gpt2() {
  constexpr uint64_t kWidth = 768;
  Layers layers;
  layers.embedding("wte", 50257, kWidth);
  layers.embedding("wpe", 1024, kWidth);
  for (int i = 0; i < 12; ++i) {
    const std::string layer = fmt::format("h.{}.", i);
    layers.norm(layer + "ln_1", kWidth);
    layers.linear(layer + "attn.qkv", kWidth, 3 * kWidth);
    layers.linear(layer + "attn.proj", kWidth, kWidth);
    layers.norm(layer + "ln_2", kWidth);
    layers.linear(layer + "mlp.fc", kWidth, 4 * kWidth);
    layers.linear(layer + "mlp.proj", 4 * kWidth, kWidth);
  }
  layers.norm("ln_f", kWidth);
  return std::move(layers).take();
}

constexpr std::array<std::string_view, 6> kNames = {"lenet5", "resnet50", "vgg16", "vgg19", "bert-large", "gpt2"};
constexpr std::array kBuilders = {lenet5, resnet50, vgg16, vgg19, bertLarge, gpt2};
static_assert(kNames.size() == kBuilders.size());

}  // namespace

std::span<const std::string_view> modelNames() { return kNames; }

uint64_t totalCount(std::span<const Parameter> parameters) {
  uint64_t total = 0;
  for (const Parameter& parameter : parameters) total += parameter.count();
  return total;
}

Result<std::vector<Parameter>> modelParameters(std::string_view model) {
  std::string known;
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (model == kNames[i]) return kBuilders[i]();
    known += (i == 0 ? "" : ", ") + std::string(kNames[i]);
  }
  return failure(Code::kInvalidArgument, "--model {}: no such model, expected one of {}", model, known);
}

}  // namespace bps::perf
