// The program that runs Open MPI for perf/compare_peers; mpirun starts it. Without Open MPI, this
// file is empty: make does not build it then, but source checks still read it.
#if __has_include(<mpi.h>)
#include <mpi.h>

#include <cstdio>

#include "perf/peers/timing.h"

namespace {

using namespace bps::perf;

// If a call fails, MPI ends the job with a message.
class OpenMpi final : public ComparedLibrary {
 public:
  OpenMpi(int* count, char*** words) {
    MPI_Init(count, words);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  ~OpenMpi() override { MPI_Finalize(); }

  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void prepare(const float* send, float* recv, size_t count) override {
    send_ = send;
    recv_ = recv;
    count_ = static_cast<int>(count);
  }
  void allReduce() override { MPI_Allreduce(send_, recv_, count_, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }
  double maxOverRanks(double value) override {
    double result = 0;
    MPI_Allreduce(&value, &result, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    return result;
  }

 private:
  int rank_ = 0, ranks_ = 0, count_ = 0;
  const float* send_ = nullptr;
  float* recv_ = nullptr;
};

}  // namespace

int main(int count, char** words) {
  TimingRequest request;
  if (count != 3) {
    std::fprintf(stderr, "usage: open_mpi SIZES SECONDS\n");
    return 2;
  }
  if (!parseTimingRequest(words[1], words[2], request)) return 2;
  OpenMpi library(&count, &words);
  return timeAll(library, request);
}
#endif
