// Runs the named scenarios. Without names it runs all scenarios, and with `--part I N` it runs part
// I of N. Each scenario runs in separate processes. The program exits with 0 if all scenarios pass.
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <thread>

#include "src/base/format.h"
#include "tests/interpose/harness.h"

namespace bps::test {

std::vector<Scenario>& scenarios() {
  static std::vector<Scenario> all;
  return all;
}

void failed(const char* file, int line, const std::string& what) {
  std::fprintf(stderr, "%s:%d: %s\n", file, line, what.c_str());
  std::fflush(stderr);
  ::_exit(1);
}

namespace {
template <class Ready>
void waitFor(const Ready& ready) {
  while (!ready()) std::this_thread::sleep_for(std::chrono::microseconds(200));
}
}  // namespace

ncclUniqueId Rank::id(int number) const {
  if (rank == 0) {
    BPS_NCCL(ncclGetUniqueId(&page->ids[number]));
    page->idsMade = number + 1;
  }
  waitFor([&] { return page->idsMade > number; });
  return page->ids[number];
}

ncclComm_t Rank::makeComm(int number) const {
  ncclComm_t comm = nullptr;
  BPS_NCCL(ncclCommInitRank(&comm, nRanks, id(number), rank));
  return comm;
}

void Rank::barrier(int point) const {
  ++page->arrived[point];
  waitFor([&] { return page->arrived[point] >= nRanks; });
}

void Rank::placeRanksOnMachines(int ranksOfOne) const {
  ::setenv("BPS_HOSTID", fmt::format("machine{}", rank / ranksOfOne).c_str(), 1);
  ::setenv("FAKE_CUDA_DEVICES", fmt::format("{}", ranksOfOne).c_str(), 1);
  ::setenv("FAKE_NCCL_DEVICE", fmt::format("{}", rank % ranksOfOne).c_str(), 1);
}

std::string takeNcclCalls() {
  const std::string calls = fakeNcclCalls();
  fakeNcclClearCalls();
  return calls;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

void negotiate(const Rank& rank, ncclComm_t comm) {
  BPS_NCCL(allReduce(rank, comm, kLarge));
  fakeNcclClearCalls();
}

namespace {

SharedPage* newPage() {
  void* mapped = ::mmap(nullptr, sizeof(SharedPage), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  return mapped == MAP_FAILED ? nullptr : static_cast<SharedPage*>(mapped);
}

pid_t startRank(const Scenario& scenario, int rank, SharedPage* page) {
  const pid_t pid = ::fork();
  if (pid != 0) return pid;
  ::alarm(40);
  ::setenv("BPS_HOSTID", fmt::format("machine{}", rank).c_str(), 1);
  for (const auto& [name, value] : scenario.environment)
    if (value == nullptr) ::unsetenv(name);
    else ::setenv(name, value, 1);
  scenario.body(Rank{rank, scenario.ranks, page});
  std::exit(0);
}

bool run(const Scenario& scenario) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<pid_t> ranks;
  SharedPage* page = newPage();
  for (int rank = 0; rank < scenario.ranks; ++rank) ranks.push_back(startRank(scenario, rank, page));
  std::string wrong;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    int status = 0;
    ::waitpid(ranks[rank], &status, 0);
    if (status != 0) wrong += fmt::format(" rank {}: status {:#x};", rank, status);
  }
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%s %s (%.2f s)%s\n", wrong.empty() ? "ok  " : "FAIL", scenario.name, took.count(), wrong.c_str());
  std::fflush(stdout);
  return wrong.empty();
}

}  // namespace
}  // namespace bps::test

int main(int argc, char** argv) {
  using namespace bps::test;
  const bool parted = argc == 4 && std::strcmp(argv[1], "--part") == 0;
  const int part = parted ? std::atoi(argv[2]) : 0, parts = parted ? std::max(1, std::atoi(argv[3])) : 1;
  int bad = 0, ran = 0, number = 0;
  for (const Scenario& scenario : scenarios()) {
    bool wanted = argc == 1 || (parted && number++ % parts == part);
    for (int i = 1; i < argc; ++i) wanted |= std::strcmp(argv[i], scenario.name) == 0;
    if (!wanted) continue;
    ++ran;
    bad += run(scenario) ? 0 : 1;
  }
  std::printf("%d of %d scenarios passed\n", ran - bad, ran);
  return bad == 0 && ran > 0 ? 0 : 1;
}
