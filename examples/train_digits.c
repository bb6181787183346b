/*
 * Data parallel training without a framework: a network with two hidden layers learns handwritten digits. Every rank
 * computes the gradients of its part of each batch, and a bpsReducer averages them while the backward pass goes on.
 *
 *   cc -Iinclude examples/train_digits.c -o train_digits -Lbuild/lib -lbps -lm -Wl,-rpath,$PWD/build/lib
 *   build/bin/bps-run -n 4 -s 2 -- ./train_digits examples/data/digits.bin
 *
 * Rank 0 prints the loss and the accuracy on images that it has not learned from, and a checksum of the weights. The
 * checksum is the same on all ranks and for every number of servers (-s). With another number of ranks (-n), the loss
 * only differs by rounding. The number of ranks must divide the batch of 64 images.
 */
#include <bps/reducer.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PIXELS = 64, HIDDEN = 64, DIGITS = 10, RECORD = PIXELS + 1, BATCH = 64, LAYERS = 3, PARAMETERS = 2 * LAYERS };
enum { MAX_IMAGES = 4096 };

static const int kWidths[LAYERS + 1] = {PIXELS, HIDDEN, HIDDEN, DIGITS};

/* Parameter 2 l is the weights of layer l, by output and input; parameter 2 l + 1 is its biases. */
static float* parameters[PARAMETERS];
static float* gradients[PARAMETERS];
static size_t counts[PARAMETERS];
static float activations[LAYERS + 1][HIDDEN];
static float deltas[LAYERS + 1][HIDDEN]; /* of the loss by the activations before ReLU */
static unsigned char images[MAX_IMAGES][RECORD];

static void check(bpsResult_t result, bpsComm_t comm, const char* what) {
  if (result == bpsSuccess) return;
  fprintf(stderr, "%s: %s: %s\n", what, bpsGetErrorString(result), bpsGetLastError(comm));
  exit(1);
}

static size_t readImages(const char* path) {
  FILE* file = fopen(path, "rb");
  if (file == NULL) {
    perror(path);
    exit(2);
  }
  const size_t count = fread(images, RECORD, MAX_IMAGES, file);
  fclose(file);
  return count;
}

/* All ranks start with the same weights, because they use the same numbers. */
static void initialize(void) {
  unsigned state = 1;
  for (int p = 0; p < PARAMETERS; ++p) {
    const int layer = p / 2, inputs = kWidths[layer], outputs = kWidths[layer + 1];
    counts[p] = (size_t)(p % 2 == 0 ? inputs * outputs : outputs);
    parameters[p] = calloc(counts[p], sizeof(float));
    gradients[p] = calloc(counts[p], sizeof(float));
    if (parameters[p] == NULL || gradients[p] == NULL) exit(2);
    for (size_t i = 0; p % 2 == 0 && i < counts[p]; ++i) {
      state = state * 1664525U + 1013904223U;
      parameters[p][i] = ((float)(state >> 8) / 8388608.0F - 1.0F) * sqrtf(3.0F / (float)inputs);
    }
  }
}

/* Returns the loss. activations[LAYERS] becomes the probability of each digit. */
static float forward(const unsigned char* image) {
  for (int i = 0; i < PIXELS; ++i) activations[0][i] = (float)image[i] / 16.0F;
  for (int layer = 0; layer < LAYERS; ++layer) {
    const int inputs = kWidths[layer];
    for (int o = 0; o < kWidths[layer + 1]; ++o) {
      float sum = parameters[2 * layer + 1][o];
      for (int i = 0; i < inputs; ++i) sum += parameters[2 * layer][o * inputs + i] * activations[layer][i];
      activations[layer + 1][o] = layer + 1 < LAYERS && sum < 0 ? 0 : sum;
    }
  }
  float* out = activations[LAYERS];
  float largest = out[0], total = 0;
  for (int d = 1; d < DIGITS; ++d) largest = out[d] > largest ? out[d] : largest;
  for (int d = 0; d < DIGITS; ++d) total += out[d] = expf(out[d] - largest);
  for (int d = 0; d < DIGITS; ++d) out[d] /= total;
  return -logf(out[image[PIXELS]] + 1e-30F);
}

/* Adds the gradients of one layer for one image, and computes the deltas of the layer in front of it. */
static void backward(int layer, float scale) {
  const int inputs = kWidths[layer];
  float* before = deltas[layer];
  memset(before, 0, sizeof deltas[layer]);
  for (int o = 0; o < kWidths[layer + 1]; ++o) {
    const float delta = deltas[layer + 1][o];
    gradients[2 * layer + 1][o] += delta * scale;
    for (int i = 0; i < inputs; ++i) {
      gradients[2 * layer][o * inputs + i] += delta * activations[layer][i] * scale;
      if (activations[layer][i] > 0) before[i] += delta * parameters[2 * layer][o * inputs + i];
    }
  }
}

static void computeDeltas(const unsigned char* image) {
  for (int d = 0; d < DIGITS; ++d) deltas[LAYERS][d] = activations[LAYERS][d] - (d == image[PIXELS] ? 1.0F : 0.0F);
}

/* Computes the gradients of this rank's part of a batch, and returns the loss. Those of a layer are complete after its
 * last image. */
static float computeGradients(bpsReducer_t reducer, size_t first, int count) {
  float loss = 0;
  for (int p = 0; p < PARAMETERS; ++p) memset(gradients[p], 0, counts[p] * sizeof(float));
  for (int i = 0; i < count; ++i) {
    loss += forward(images[first + (size_t)i]) / (float)count;
    computeDeltas(images[first + (size_t)i]);
    for (int layer = LAYERS; layer-- > 0;) {
      backward(layer, 1.0F / (float)count);
      if (i + 1 < count) continue;
      for (int p = 2 * layer + 1; p >= 2 * layer; --p)
        check(bpsReducerReady(reducer, (size_t)p, gradients[p]), NULL, "bpsReducerReady");
    }
  }
  return loss;
}

static float step(bpsReducer_t reducer, size_t first, int count) {
  check(bpsReducerBegin(reducer, 1, NULL), NULL, "bpsReducerBegin");
  const float loss = computeGradients(reducer, first, count);
  for (int p = 0; p < PARAMETERS; ++p) { /* the first layer that is averaged can be updated at once */
    check(bpsReducerWait(reducer, (size_t)p), NULL, "bpsReducerWait");
    for (size_t i = 0; i < counts[p]; ++i) parameters[p][i] -= 0.1F * gradients[p][i];
  }
  check(bpsReducerFinish(reducer), NULL, "bpsReducerFinish");
  return loss;
}

static unsigned long long checksum(void) { /* FNV-1a */
  unsigned long long hash = 14695981039346656037ULL;
  for (int p = 0; p < PARAMETERS; ++p)
    for (size_t i = 0; i < counts[p] * sizeof(float); ++i)
      hash = (hash ^ ((const unsigned char*)parameters[p])[i]) * 1099511628211ULL;
  return hash;
}

int main(int argc, char** argv) {
  if (argc != 2 && argc != 3) {
    fprintf(stderr, "usage: %s FILE [EPOCHS]\n", argv[0]);
    return 2;
  }
  const int epochs = argc == 3 ? atoi(argv[2]) : 20;
  const size_t all = readImages(argv[1]), batches = all * 4 / 5 / BATCH; /* a fifth is for the test at the end */
  bpsComm_t comm = NULL;
  int rank = 0, ranks = 0;
  check(bpsCommInitFromEnv(&comm), NULL, "bpsCommInitFromEnv");
  check(bpsCommUserRank(comm, &rank), comm, "bpsCommUserRank");
  check(bpsCommCount(comm, &ranks), comm, "bpsCommCount");
  if (batches == 0 || BATCH % ranks != 0) {
    fprintf(stderr, "%s: too few images, or %d ranks, which do not divide %d\n", argv[1], ranks, BATCH);
    return 2;
  }

  initialize();
  const bpsDataType_t types[PARAMETERS] = {bpsFloat32, bpsFloat32, bpsFloat32, bpsFloat32, bpsFloat32, bpsFloat32};
  bpsReducerConfig_t config = BPS_REDUCER_CONFIG_INITIALIZER;
  config.bucketBytes = config.firstBucketBytes = 8192; /* small, so that this small network has several buckets */
  bpsReducer_t reducer = NULL;
  check(bpsReducerCreate(&reducer, PARAMETERS, counts, types, 1, &comm, &config), NULL, "bpsReducerCreate");
  const int mine = BATCH / ranks;
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    float loss = 0;
    for (size_t batch = 0; batch < batches; ++batch)
      loss += step(reducer, batch * BATCH + (size_t)(rank * mine), mine) / (float)batches;
    if (rank == 0) fprintf(stderr, "epoch %d: loss %.4f on the images of rank 0\n", epoch, (double)loss);
  }
  check(bpsReducerDestroy(reducer), NULL, "bpsReducerDestroy");

  size_t right = 0;
  double loss = 0;
  for (size_t i = batches * BATCH; i < all; ++i) {
    loss += forward(images[i]);
    int best = 0;
    for (int d = 1; d < DIGITS; ++d) best = activations[LAYERS][d] > activations[LAYERS][best] ? d : best;
    right += best == images[i][PIXELS];
  }
  const size_t tested = all - batches * BATCH;
  printf("rank %d of %d: loss %.5f, accuracy %.4f, checksum %016llx\n", rank, ranks, loss / (double)tested,
         (double)right / (double)tested, checksum());
  check(bpsCommDestroy(comm), NULL, "bpsCommDestroy");
  for (int p = 0; p < PARAMETERS; ++p) {
    free(parameters[p]);
    free(gradients[p]);
  }
  return 0;
}
