// Asynchronous training without a framework: a network with one hidden layer learns handwritten digits. Every rank
// trains at its own speed, on parameters that the summation servers and the ranks keep (bps/params.h).
//
//   export LD_RUN_PATH=$PWD/build/lib
//   c++ -std=c++20 -O2 -Iinclude examples/train_digits_async.cc -o train_digits -Lbuild/lib -lbps
//   build/bin/bps-run -n 4 -s 2 -- ./train_digits examples/data/digits.bin
//
// BPS_STALENESS=0 makes the ranks train in step, BPS_STALENESS=4 keeps them within four steps of each other. Kill a
// rank with kill -9: the others go on. At the end all ranks have the same weights.
//
// After FILE, the program takes the number of steps, the number of steps after which it prints the loss (0: never), the
// least milliseconds that a rank computes in each step, and a rank that computes ten times as long (-1: none).
#include <bps/params.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <random>
#include <thread>
#include <vector>

namespace {

constexpr size_t kPixels = 64, kHidden = 64, kDigits = 10, kRecord = kPixels + 1, kBatch = 32;
// The places of the weights and biases of both layers in the parameter.
constexpr size_t kBias1 = kPixels * kHidden, kWeight2 = kBias1 + kHidden, kBias2 = kWeight2 + kHidden * kDigits,
                 kCount = kBias2 + kDigits;

bpsComm_t comm = nullptr;

void check(bpsResult_t result, const char* what) {
  if (result == bpsSuccess) return;
  std::fprintf(stderr, "%s: %s: %s\n", what, bpsGetErrorString(result), bpsGetLastError(comm));
  std::exit(1);
}

// The outputs of both layers for one image. `digits` are probabilities.
struct Outputs {
  std::vector<float> hidden = std::vector<float>(kHidden), digits = std::vector<float>(kDigits);
};

Outputs forward(const std::vector<float>& w, const uint8_t* image) {
  Outputs out;
  for (size_t h = 0; h < kHidden; ++h) {
    float sum = w[kBias1 + h];
    for (size_t p = 0; p < kPixels; ++p) sum += w[h * kPixels + p] * static_cast<float>(image[p]) / 16;
    out.hidden[h] = std::max(sum, 0.0F);
  }
  float total = 0;
  for (size_t d = 0; d < kDigits; ++d) {
    float sum = w[kBias2 + d];
    for (size_t h = 0; h < kHidden; ++h) sum += w[kWeight2 + d * kHidden + h] * out.hidden[h];
    total += out.digits[d] = std::exp(sum);
  }
  for (float& digit : out.digits) digit /= total;
  return out;
}

// Adds -rate times the gradient for one image to the change.
void learn(const std::vector<float>& w, const uint8_t* image, float rate, std::vector<float>& change) {
  const Outputs out = forward(w, image);
  std::vector<float> hidden(kHidden);
  for (size_t d = 0; d < kDigits; ++d) {
    const float error = out.digits[d] - (d == image[kPixels] ? 1.0F : 0.0F);
    change[kBias2 + d] -= rate * error;
    for (size_t h = 0; h < kHidden; ++h) {
      change[kWeight2 + d * kHidden + h] -= rate * error * out.hidden[h];
      if (out.hidden[h] > 0) hidden[h] += error * w[kWeight2 + d * kHidden + h];
    }
  }
  for (size_t h = 0; h < kHidden; ++h) {
    change[kBias1 + h] -= rate * hidden[h];
    for (size_t p = 0; p < kPixels; ++p)
      change[h * kPixels + p] -= rate * hidden[h] * static_cast<float>(image[p]) / 16;
  }
}

struct Quality {
  double accuracy = 0;  // the part of the images whose digit has the highest probability
  double loss = 0;      // mean cross-entropy
};

Quality evaluate(const std::vector<float>& w, const uint8_t* images, size_t count) {
  Quality quality;
  for (size_t i = 0; i < count; ++i) {
    const std::vector<float> digits = forward(w, images + i * kRecord).digits;
    const uint8_t digit = images[i * kRecord + kPixels];
    quality.accuracy += std::max_element(digits.begin(), digits.end()) - digits.begin() == digit;
    quality.loss -= std::log(digits[digit]);
  }
  quality.accuracy /= static_cast<double>(count);
  quality.loss /= static_cast<double>(count);
  return quality;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 2 || argc > 6) {
    std::fprintf(stderr, "usage: %s FILE [STEPS [EVERY [MILLISECONDS [SLOW]]]]\n", argv[0]);
    return 2;
  }
  const int steps = argc > 2 ? std::atoi(argv[2]) : 400, every = argc > 3 ? std::atoi(argv[3]) : 0;
  const int milliseconds = argc > 4 ? std::atoi(argv[4]) : 0, slow = argc > 5 ? std::atoi(argv[5]) : -1;
  std::ifstream file(argv[1], std::ios::binary);
  const std::vector<uint8_t> images((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t all = images.size() / kRecord, forTraining = all * 4 / 5;
  if (forTraining == 0) {
    std::fprintf(stderr, "%s: no images\n", argv[1]);
    return 2;
  }
  int rank = 0, ranks = 0;
  check(bpsCommInitFromEnv(&comm), "bpsCommInitFromEnv");
  check(bpsCommUserRank(comm, &rank), "bpsCommUserRank");
  check(bpsCommCount(comm, &ranks), "bpsCommCount");

  std::mt19937 random(static_cast<unsigned>(rank));
  std::vector<float> weights(kCount), change(kCount);
  std::uniform_real_distribution<float> initial(-0.2F, 0.2F);
  for (float& weight : weights) weight = initial(random);
  check(bpsParamInit(comm, 1, weights.data(), kCount, bpsFloat32), "bpsParamInit");  // now all have those of rank 0

  const float rate = 0.3F / static_cast<float>(kBatch * static_cast<size_t>(ranks));  // the changes of all ranks add up
  const auto begin = std::chrono::steady_clock::now();
  const auto seconds = [&] { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); };
  for (int step = 1; step <= steps; ++step) {
    const auto computed =
        std::chrono::steady_clock::now() + std::chrono::milliseconds(milliseconds) * (rank == slow ? 10 : 1);
    std::fill(change.begin(), change.end(), 0.0F);
    for (size_t i = 0; i < kBatch; ++i) learn(weights, &images[random() % forTraining * kRecord], rate, change);
    std::this_thread::sleep_until(computed);
    check(bpsParamPushPull(comm, 1, change.data(), weights.data(), kCount, bpsFloat32, nullptr), "bpsParamPushPull");
    check(bpsHostStreamSynchronize(nullptr), "bpsHostStreamSynchronize");
    if (every == 0 || step % every != 0) continue;
    const Quality quality = evaluate(weights, &images[forTraining * kRecord], all - forTraining);
    std::printf("rank %d, %.3f s, step %d: loss %.4f, accuracy %.4f\n", rank, seconds(), step, quality.loss,
                quality.accuracy);
    std::fflush(stdout);
  }
  const double rateOfSteps = steps / seconds();

  check(bpsParamBarrier(comm), "bpsParamBarrier");
  check(bpsParamPull(comm, 1, weights.data(), kCount, bpsFloat32, nullptr), "bpsParamPull");
  check(bpsHostStreamSynchronize(nullptr), "bpsHostStreamSynchronize");
  std::vector<uint64_t> pushes(static_cast<size_t>(ranks));
  check(bpsParamPushes(comm, 1, pushes.data()), "bpsParamPushes");
  const Quality quality = evaluate(weights, &images[forTraining * kRecord], all - forTraining);
  std::printf("rank %d of %d: %.1f steps/s, loss %.4f, accuracy %.4f, steps", rank, ranks, rateOfSteps, quality.loss,
              quality.accuracy);
  for (const uint64_t each : pushes) std::printf(" %llu", static_cast<unsigned long long>(each));
  std::printf("\n");
  bpsCommDestroy(comm);  // fails if a rank was lost
  return 0;
}
