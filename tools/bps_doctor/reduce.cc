#include "tools/bps_doctor/reduce.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <string_view>

#include "bps/bps.h"
#include "bps/bps_ext.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/io/fd.h"

namespace bps::doctor {
namespace {

constexpr size_t kWarmUps = 2, kCalls = 7;
constexpr size_t kDescriptionBytes = 1U << 20;
constexpr const char* kProcessName = "bps-doctor (all-reduce)";
constexpr int kResultFd = 3;

Status toStatus(bpsResult_t result, bpsComm_t comm) {
  if (result == bpsSuccess) return {};
  return {static_cast<Code>(result), bpsGetLastError(comm)};
}

Status describe(bpsComm_t comm, ReduceResult& result) {
  std::string text(kDescriptionBytes, '\0');
  BPS_TRY(toStatus(bpsCommDescribe(comm, text.data(), text.size()), comm));
  const auto facts = nlohmann::json::parse(text.c_str());
  result.machines = facts.at("machines").get<size_t>();
  result.servers = facts.at("servers").get<size_t>();
  result.workerShares = facts.at("shares").at("workers").get<std::vector<double>>();
  if (facts.contains("network")) result.bytesPerSecond = facts["network"].at("bytesPerSecond").get<double>();
  return {};
}

Status run(ReduceResult& result) {
  bpsComm_t comm = nullptr;
  BPS_TRY(toStatus(bpsCommInitFromEnv(&comm), nullptr));
  BPS_TRY(describe(comm, result));
  const size_t count = result.bytes / sizeof(float);
  const std::vector<float> send(count, 1);
  std::vector<float> receive(count);
  std::vector<double> times;
  for (size_t call = 0; call < kWarmUps + kCalls; ++call) {
    const auto start = Deadline::Clock::now();
    BPS_TRY(toStatus(bpsAllReduce(send.data(), receive.data(), count, bpsFloat32, bpsSum, comm, nullptr), comm));
    BPS_TRY(toStatus(bpsHostStreamSynchronize(nullptr), comm));
    if (call >= kWarmUps) times.push_back(std::chrono::duration<double>(Deadline::Clock::now() - start).count());
  }
  std::sort(times.begin(), times.end());
  result.seconds = times[times.size() / 2];
  if (std::adjacent_find(receive.begin(), receive.end(), std::not_equal_to<>()) != receive.end())
    return {Code::kInternal, "the sums are wrong"};
  return toStatus(bpsCommDestroy(comm), nullptr);
}

// Reads until the other end closes. Returns what came before the deadline, and an empty text if it did not close.
std::string readAll(int fd, Deadline deadline) {
  std::string text;
  std::array<char, 4096> buffer;
  while (!deadline.passed()) {
    pollfd wait{fd, POLLIN, 0};
    if (::poll(&wait, 1, deadline.leftMs()) <= 0) continue;
    const ssize_t count = ::read(fd, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return text;
    text.append(buffer.data(), static_cast<size_t>(count));
  }
  return "";
}

// Starts this program again, so that the library starts from nothing. The child writes its result to `out`.
Result<pid_t> startChild(uint64_t bytes, int out) {
  std::string name = kProcessName, size = std::to_string(bytes), to = std::to_string(kResultFd);
  const std::array<char*, 4> arguments = {name.data(), size.data(), to.data(), nullptr};
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, out, kResultFd);
  pid_t child = 0;
  const int error = ::posix_spawn(&child, "/proc/self/exe", &actions, nullptr, arguments.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error != 0) return systemFailure("the all-reduce cannot be started", error);
  return child;
}

ReduceResult failed(ReduceResult result, std::string why) {
  result.error = std::move(why);
  return result;
}

}  // namespace

ReduceResult measureReduce(uint64_t bytes, Deadline deadline) {
  ReduceResult result;
  result.ran = true;
  result.bytes = std::max<uint64_t>(bytes / sizeof(float), 1) * sizeof(float);
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return failed(result, systemFailure("pipe", errno).message());
  UniqueFd in(ends[0]), out(ends[1]);
  Result<pid_t> started = startChild(result.bytes, out.get());
  if (!started.ok()) return failed(result, started.error().message());
  const pid_t child = std::move(started).value();
  out.reset();
  const std::string text = readAll(in.get(), deadline);
  if (text.empty()) ::kill(child, SIGKILL);
  int status = 0;
  while (::waitpid(child, &status, 0) < 0 && errno == EINTR) continue;
  if (text.empty())
    return failed(result, WIFSIGNALED(status) && WTERMSIG(status) != SIGKILL
                              ? fmt::format("it ended with signal {}", WTERMSIG(status))
                              : "it did not end in time");
  const Status parsed = guarded([&] { result = nlohmann::json::parse(text).get<ReduceResult>(); });
  return parsed.ok() ? result : failed(result, parsed.message());
}

std::optional<int> runReduceProcess(int argc, char** argv) {
  if (argc != 3 || std::string_view(argv[0]) != kProcessName) return {};
  ReduceResult result;
  result.ran = true;
  int out = -1;
  const Status status = guarded([&] {
    result.bytes = std::stoull(argv[1]);
    out = std::stoi(argv[2]);
    return run(result);
  });
  if (!status.ok()) result.error = status.message();
  const std::string text = nlohmann::json(result).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(out, text.data() + written, text.size() - written);
    if (count <= 0) return 1;
    written += static_cast<size_t>(count);
  }
  return 0;
}

}  // namespace bps::doctor
