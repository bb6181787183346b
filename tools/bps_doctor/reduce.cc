#include "tools/bps_doctor/reduce.h"

#include <poll.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "bps/bps.h"
#include "bps/bps_ext.h"
#include "src/base/format.h"
#include "src/base/guard.h"
#include "src/base/io/fd.h"

namespace bps::doctor {
namespace {

constexpr size_t kWarmUps = 2, kCalls = 7;
constexpr size_t kDescriptionBytes = 1U << 20;

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

[[noreturn]] void runChild(ReduceResult result, int out) {
  const Status status = guarded([&] { return run(result); });
  if (!status.ok()) result.error = status.message();
  std::string text = nlohmann::json(result).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  for (size_t written = 0; written < text.size();) {
    const ssize_t count = ::write(out, text.data() + written, text.size() - written);
    if (count <= 0) break;
    written += static_cast<size_t>(count);
  }
  ::_exit(0);
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
  if (::pipe(ends.data()) != 0) return failed(result, systemFailure("pipe", errno).message());
  UniqueFd in(ends[0]), out(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) return failed(result, systemFailure("fork", errno).message());
  if (child == 0) runChild(result, out.get());
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

}  // namespace bps::doctor
