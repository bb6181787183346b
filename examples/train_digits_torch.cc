// Data parallel training with libtorch, the C++ library of PyTorch, which has no DistributedDataParallel. A bpsReducer
// averages the gradients while the backward pass goes on. Gradients are views of the reducer's buckets.
//
//   torch=$(python3 -c 'import torch; print(torch.__path__[0])')
//   include="-Iinclude -I$torch/include -I$torch/include/torch/csrc/api/include"
//   libraries="-Lbuild/lib -lbps -L$torch/lib -ltorch -ltorch_cpu -lc10"
//   g++ -std=c++20 $include examples/train_digits_torch.cc $libraries -Wl,-rpath,$PWD/build/lib,-rpath,$torch/lib
//   build/bin/bps-run -n 4 -s 2 -- ./a.out examples/data/digits.bin
//
// Every rank prints the loss, the accuracy on images that it has not learned from, and a checksum of the weights. The
// checksum is the same on all ranks and for every number of servers (-s). With another number of ranks (-n), which must
// divide the batch of 64 images, the loss only differs by rounding.
#include <bps/reducer.h>
#include <torch/torch.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <vector>

namespace {

constexpr int64_t kPixels = 64, kHidden = 64, kDigits = 10, kBatch = 64;
constexpr int kEpochs = 20;
constexpr double kRate = 0.1;

void check(bpsResult_t result, const char* what) {
  if (result == bpsSuccess) return;
  std::fprintf(stderr, "%s: %s: %s\n", what, bpsGetErrorString(result), bpsGetLastError(nullptr));
  std::exit(1);
}

struct Data {
  torch::Tensor images, digits;
  int64_t learned;  // the first images are for learning, the others for the test at the end
};

Data load(const char* path) {
  std::ifstream file(path, std::ios::binary);
  std::vector<char> bytes((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const auto count = static_cast<int64_t>(bytes.size()) / (kPixels + 1);
  if (count < kBatch) {
    std::fprintf(stderr, "%s has no images\n", path);
    std::exit(2);
  }
  const auto rows = torch::from_blob(bytes.data(), {count, kPixels + 1}, torch::kUInt8).clone();
  return {rows.slice(1, 0, kPixels).to(torch::kFloat) / 16, rows.select(1, kPixels).to(torch::kLong),
          count * 4 / 5 / kBatch * kBatch};
}

// The gradients of a model, averaged over all ranks.
class Averager {
 public:
  Averager(const std::vector<torch::Tensor>& parameters, bpsComm_t comm) : parameters_(parameters) {
    std::vector<size_t> counts;
    for (const auto& parameter : parameters_) counts.push_back(static_cast<size_t>(parameter.numel()));
    const std::vector<bpsDataType_t> types(counts.size(), bpsFloat32);
    bpsReducerConfig_t config = BPS_REDUCER_CONFIG_INITIALIZER;
    config.gradientsAreViews = 1;
    config.findUnusedParameters = 0;
    check(bpsReducerCreate(&reducer_, counts.size(), counts.data(), types.data(), 1, &comm, &config),
          "bpsReducerCreate");
    placeGradients();
    // Autograd calls the hook of a parameter with its gradient. The gradient that autograd then keeps is not used.
    for (size_t i = 0; i < parameters_.size(); ++i) {
      parameters_[i].register_hook([this, i](const torch::Tensor& gradient) {
        views_[i].copy_(gradient);
        check(bpsReducerReady(reducer_, i, nullptr), "bpsReducerReady");
      });
    }
  }
  ~Averager() { bpsReducerDestroy(reducer_); }
  Averager(const Averager&) = delete;
  Averager& operator=(const Averager&) = delete;

  void begin() {
    int moved = 0;
    check(bpsReducerBegin(reducer_, 1, &moved), "bpsReducerBegin");
    if (moved != 0) placeGradients();
  }

  // Updates each parameter as soon as its gradient is there.
  void update() {
    const torch::NoGradGuard noGradients;
    for (size_t i = 0; i < parameters_.size(); ++i) {
      check(bpsReducerWait(reducer_, i), "bpsReducerWait");
      parameters_[i].sub_(views_[i], kRate);
      parameters_[i].mutable_grad().reset();
    }
    check(bpsReducerFinish(reducer_), "bpsReducerFinish");
  }

 private:
  void placeGradients() {
    views_.clear();
    for (size_t i = 0; i < parameters_.size(); ++i) {
      void* place = nullptr;
      check(bpsReducerGradient(reducer_, i, &place), "bpsReducerGradient");
      views_.push_back(torch::from_blob(place, parameters_[i].sizes(), torch::kFloat));
    }
  }

  std::vector<torch::Tensor> parameters_, views_;
  bpsReducer_t reducer_ = nullptr;
};

torch::nn::Sequential makeModel() {
  torch::manual_seed(1);  // all ranks start with the same weights
  return torch::nn::Sequential(torch::nn::Linear(kPixels, kHidden), torch::nn::ReLU(),
                               torch::nn::Linear(kHidden, kHidden), torch::nn::ReLU(),
                               torch::nn::Linear(kHidden, kDigits));
}

unsigned long long checksum(const std::vector<torch::Tensor>& parameters) {  // FNV-1a
  unsigned long long hash = 14695981039346656037ULL;
  for (const auto& parameter : parameters) {
    const auto* bytes = static_cast<const unsigned char*>(parameter.data_ptr());
    for (size_t i = 0; i < parameter.nbytes(); ++i) hash = (hash ^ bytes[i]) * 1099511628211ULL;
  }
  return hash;
}

void train(torch::nn::Sequential& model, const Data& data, bpsComm_t comm, int rank, int ranks) {
  Averager averager(model->parameters(), comm);
  const int64_t mine = kBatch / ranks;
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (int64_t first = rank * mine; first < data.learned; first += kBatch) {
      const auto loss = torch::nn::functional::cross_entropy(model->forward(data.images.slice(0, first, first + mine)),
                                                             data.digits.slice(0, first, first + mine));
      averager.begin();
      loss.backward();
      averager.update();
    }
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::fprintf(stderr, "usage: %s FILE\n", argv[0]);
    return 2;
  }
  torch::set_num_threads(1);
  const Data data = load(argv[1]);
  bpsComm_t comm = nullptr;
  int rank = 0, ranks = 0;
  check(bpsCommInitFromEnv(&comm), "bpsCommInitFromEnv");
  check(bpsCommUserRank(comm, &rank), "bpsCommUserRank");
  check(bpsCommCount(comm, &ranks), "bpsCommCount");
  if (kBatch % ranks != 0) {
    std::fprintf(stderr, "%d ranks do not divide the batch of %d images\n", ranks, static_cast<int>(kBatch));
    return 2;
  }
  auto model = makeModel();
  train(model, data, comm, rank, ranks);
  const torch::NoGradGuard noGradients;
  const auto outputs = model->forward(data.images);
  const double loss =
      torch::nn::functional::cross_entropy(outputs.slice(0, 0, data.learned), data.digits.slice(0, 0, data.learned))
          .item<double>();
  const auto right = outputs.argmax(1).eq(data.digits).slice(0, data.learned).to(torch::kFloat).mean().item<double>();
  std::printf("rank %d of %d: loss %.5f, accuracy %.4f, checksum %016llx\n", rank, ranks, loss, right,
              checksum(model->parameters()));
  check(bpsCommDestroy(comm), "bpsCommDestroy");
  return 0;
}
