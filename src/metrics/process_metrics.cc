#include "src/metrics/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <fstream>
#include <optional>

#include "bps/bps.h"
#include "src/base/format.h"

namespace bps {
namespace {

using Type = MetricsText::Type;

double cpuSeconds() {
  timespec time{};
  if (::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time) != 0) return 0;
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::optional<uint64_t> residentBytes() {
  uint64_t total = 0, resident = 0;
  if (!(std::ifstream("/proc/self/statm") >> total >> resident)) return {};
  return resident * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

std::optional<uint64_t> openDescriptors() {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return {};
  uint64_t count = 0;
  while (const dirent* entry = ::readdir(folder)) count += entry->d_name[0] != '.' ? 1 : 0;
  ::closedir(folder);
  return count - 1;  // without the descriptor of the folder
}

// Taken when the library or program is loaded, which is soon after the start of the process.
const double kStartSeconds = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();

}  // namespace

void addProcessMetrics(MetricsText& text) {
  text.single("process_cpu_seconds_total", Type::kCounter, "User and system CPU time in seconds.", cpuSeconds());
  if (const auto bytes = residentBytes())
    text.single("process_resident_memory_bytes", Type::kGauge, "Resident memory in bytes.", *bytes);
  if (const auto open = openDescriptors())
    text.single("process_open_fds", Type::kGauge, "Open file descriptors.", *open);
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) == 0)
    text.single("process_max_fds", Type::kGauge, "Limit of open file descriptors.",
                static_cast<uint64_t>(limit.rlim_cur));
  text.single("process_start_time_seconds", Type::kGauge, "Start of the process, in seconds since 1970.",
              kStartSeconds);
}

void addBuildInfo(std::string_view kernels, MetricsText& text) {
  text.family("bps_build_info", Type::kGauge, "Version of bps and the CPU kernels that sum; the value is always 1.");
  text.sample({{"version", fmt::format("{}.{}.{}", BPS_MAJOR, BPS_MINOR, BPS_PATCH)}, {"kernels", kernels}},
              uint64_t{1});
}

}  // namespace bps
