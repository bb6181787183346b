// The program that runs Gloo for perf/compare_peers, in one process per rank. Without Gloo, this
// file is empty: make does not build it then, but source checks still read it.
#if __has_include(<gloo/allreduce.h>)
#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/allreduce_ring_chunked.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "perf/peers/timing.h"

namespace bps::perf {
namespace {

struct Place {
  int rank, ranks;
  std::string store, interface;  // a directory that all ranks share; the name of the network interface
};

using Options = gloo::detail::AllreduceOptionsImpl;  // the class that names the algorithms
using Reduce = void (*)(void*, const void*, const void*, size_t);
using Context = std::shared_ptr<gloo::rendezvous::Context>;

// Connects all ranks in a context. Every rank passes the same `name` for the same context.
Context connect(const Place& place, const std::string& name) {
  gloo::transport::tcp::attr attributes;
  attributes.iface = place.interface;
  auto device = gloo::transport::tcp::CreateDevice(attributes);
  gloo::rendezvous::FileStore files(place.store);
  gloo::rendezvous::PrefixStore store(name, files);
  auto context = std::make_shared<gloo::rendezvous::Context>(place.rank, place.ranks);
  context->connectFullMesh(store, device);
  return context;
}

// Gloo has two interfaces: one function with options, which PyTorch calls, and a class for each
// algorithm.
class Gloo : public ComparedLibrary {
 public:
  explicit Gloo(const Place& place) : place_(place), control_(connect(place, "control")) {}
  int rank() const override { return place_.rank; }
  int ranks() const override { return place_.ranks; }
  double maxOverRanks(double value) override {
    gloo::AllreduceOptions options(control_);
    options.setOutput(&value, 1);
    options.setReduceFunction(static_cast<Reduce>(&gloo::max<double>));
    gloo::allreduce(options);
    return value;
  }

 protected:
  const Place place_;

 private:
  const Context control_;  // separate, because the data context may be polled, which not every call supports
};

class GlooFunctionAlgorithm final : public Gloo {
 public:
  GlooFunctionAlgorithm(const Place& place, Options::Algorithm algorithm)
      : Gloo(place), context_(connect(place, "data")), algorithm_(algorithm) {}
  void prepare(const float* send, float* recv, size_t count) override {
    options_.emplace(context_);
    options_->setAlgorithm(algorithm_);
    options_->setInput(const_cast<float*>(send), count);
    options_->setOutput(recv, count);
    options_->setReduceFunction(static_cast<Reduce>(&gloo::sum<float>));
  }
  void allReduce() override { gloo::allreduce(*options_); }

 private:
  const Context context_;
  const Options::Algorithm algorithm_;
  std::optional<gloo::AllreduceOptions> options_;
};

// Sums in place. If `poll` is true, the caller polls the sockets itself, and no other thread is
// woken.
template <class Algorithm>
class GlooClassAlgorithm final : public Gloo {
 public:
  GlooClassAlgorithm(const Place& place, bool poll) : Gloo(place), context_(connect(place, "data")) {
    for (int other = 0; poll && other < place.ranks; ++other) {
      if (other != place.rank) context_->getPair(other)->setSync(true, true);
    }
  }
  void prepare(const float* /*send*/, float* recv, size_t count) override {
    algorithm_.reset();  // destroyed first, because the next one may use the same slots of the context
    algorithm_ = std::make_unique<Algorithm>(context_, std::vector<float*>{recv}, static_cast<int>(count));
  }
  void allReduce() override { algorithm_->run(); }

 private:
  const Context context_;
  std::unique_ptr<Algorithm> algorithm_;  // a pointer, because the algorithm's destructor may throw
};

std::unique_ptr<ComparedLibrary> make(const Place& place, const std::string& algorithm) {
  using Ring = gloo::AllreduceRingChunked<float>;
  using Halving = gloo::AllreduceHalvingDoubling<float>;
  if (algorithm == "ring") return std::make_unique<GlooFunctionAlgorithm>(place, Options::RING);
  if (algorithm == "bcube") return std::make_unique<GlooFunctionAlgorithm>(place, Options::BCUBE);
  if (algorithm == "ring_chunked") return std::make_unique<GlooClassAlgorithm<Ring>>(place, false);
  if (algorithm == "halving_doubling") return std::make_unique<GlooClassAlgorithm<Halving>>(place, false);
  if (algorithm == "halving_doubling_poll") return std::make_unique<GlooClassAlgorithm<Halving>>(place, true);
  return nullptr;
}

int run(const TimingRequest& request, const Place& place, const std::string& algorithm) {
  try {
    const auto library = make(place, algorithm);
    if (library != nullptr) return timeAll(*library, request);
    std::fprintf(stderr, "unknown algorithm \"%s\"\n", algorithm.c_str());
    return 2;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "Gloo: %s\n", error.what());
    return 1;
  }
}

}  // namespace
}  // namespace bps::perf

int main(int count, char** words) {
  bps::perf::TimingRequest request;
  if (count != 8) {
    std::fprintf(stderr, "usage: gloo SIZES SECONDS RANK RANKS STORE INTERFACE ALGORITHM\n");
    return 2;
  }
  if (!bps::perf::parseTimingRequest(words[1], words[2], request)) return 2;
  return bps::perf::run(request, {std::atoi(words[3]), std::atoi(words[4]), words[5], words[6]}, words[7]);
}
#endif
