#include "src/comm/metrics/rank_page.h"

#include "cpu_reduce/dispatch.h"
#include "src/base/format.h"
#include "src/metrics/metrics_text.h"
#include "src/metrics/process_metrics.h"

namespace bps {
namespace {

using Type = MetricsText::Type;

std::string jobName(const CommSample& comm) { return fmt::format("{:016x}", comm.identity.job); }

double secondsOf(uint64_t nanoseconds) { return static_cast<double>(nanoseconds) * 1e-9; }

void addCommunicators(const std::vector<CommSample>& open, MetricsText& text) {
  text.family("bps_rank_info", Type::kGauge, "Open communicators of this process; the value is always 1.");
  uint64_t failed = 0;
  for (const CommSample& comm : open) {
    const RankIdentity& self = comm.identity;
    text.sample({{"job", jobName(comm)},
                 {"rank", std::to_string(self.rank)},
                 {"ranks", std::to_string(self.ranks)},
                 {"machine", std::to_string(self.machine)}},
                uint64_t{1});
    failed += comm.failed ? 1 : 0;
  }
  text.single("bps_rank_communicators", Type::kGauge, "Communicators that are open.", uint64_t{open.size()});
  text.single("bps_rank_failed_communicators", Type::kGauge, "Open communicators that have failed.", failed);
}

void addCalls(const RankTotals& all, uint64_t chunks, MetricsText& text) {
  text.single("bps_rank_calls_begun_total", Type::kCounter, "All-reduces that the program issued.", all.begun);
  text.single("bps_rank_calls_completed_total", Type::kCounter, "All-reduces whose result is complete.", all.completed);
  text.single("bps_rank_calls_failed_total", Type::kCounter, "All-reduces that ended with an error.", all.failed);
  text.single("bps_rank_calls_in_flight", Type::kGauge, "All-reduces that have not ended.",
              all.begun - std::min(all.begun, all.completed + all.failed));
  text.single("bps_rank_chunks_in_flight", Type::kGauge, "Chunks of begun calls whose sum has not arrived.", chunks);
  text.single("bps_rank_call_seconds_total", Type::kCounter,
              "Time from the issue of an all-reduce to its end, added up over all-reduces.",
              secondsOf(all.nanoseconds));
  text.single("bps_rank_reduced_bytes_total", Type::kCounter, "Bytes of the buffers of completed all-reduces.",
              all.bytes);
  text.family("bps_rank_copied_bytes_total", Type::kCounter, "Bytes copied between device memory and host memory.");
  text.sample({{"to", "host"}}, all.bytesToHost);
  text.sample({{"to", "device"}}, all.bytesToDevice);
}

void addNetwork(const RankTotals& all, MetricsText& text) {
  text.single("bps_rank_sent_bytes_total", Type::kCounter, "Bytes sent to machines and servers.", all.bytesSent);
  text.single("bps_rank_sent_messages_total", Type::kCounter, "Messages sent to machines and servers.",
              all.messagesSent);
  text.single("bps_rank_received_bytes_total", Type::kCounter, "Bytes received from machines and servers.",
              all.bytesReceived);
}

void addServers(const std::vector<CommSample>& open, const RankTotals& all, MetricsText& text) {
  text.family("bps_rank_servers", Type::kGauge, "Servers in use, by open job.");
  for (const CommSample& comm : open)
    text.sample({{"job", jobName(comm)}, {"rank", std::to_string(comm.identity.rank)}}, comm.counters->servers.inUse());
  text.family("bps_rank_server_changes_total", Type::kCounter, "Changes of the servers of a job, by kind.");
  for (size_t change = 0; change < all.serverChanges.size(); ++change)
    text.sample({{"change", ServerTally::kNames[change]}}, all.serverChanges[change]);
}

void addWaits(const std::vector<CommSample>& open, MetricsText& text) {
  text.family("bps_rank_wait_seconds_total", Type::kCounter,
              "Time that the rounds which this rank sums waited for the contribution of a rank, by open job.");
  for (const CommSample& comm : open) {
    const std::string job = jobName(comm), self = std::to_string(comm.identity.rank);
    const auto add = [&](const std::string& other, const std::atomic<uint64_t>& waited) {
      text.sample({{"job", job}, {"rank", self}, {"for_rank", other}},
                  secondsOf(waited.load(std::memory_order_relaxed)));
    };
    for (const CommCounters::Wait& wait : comm.counters->waits) add(std::to_string(wait.rank), wait.nanoseconds);
    if (comm.counters->furtherMachines) add("others", comm.counters->otherWaits);
  }
}

}  // namespace

void RankTotals::add(const CommCounters& counters) {
  const CallCounters& calls = counters.calls;
  // The ends of calls are read before their beginnings, so that no page has more ends than beginnings.
  completed += calls.completed.value();
  failed += calls.failed.value();
  begun += calls.begun.value();
  bytes += calls.bytes.value();
  nanoseconds += calls.nanoseconds.value();
  bytesToHost += calls.bytesToHost.value();
  bytesToDevice += calls.bytesToDevice.value();
  bytesSent += counters.network->bytesSent.value();
  messagesSent += counters.network->messagesSent.value();
  bytesReceived += counters.network->bytesReceived.value();
  const ServerTally::Counts changes = counters.servers.counts();
  for (size_t change = 0; change < changes.size(); ++change) serverChanges[change] += changes[change];
}

std::string rankPage(const std::vector<CommSample>& open, const RankTotals& ended) {
  RankTotals all = ended;
  uint64_t chunks = 0;
  for (const CommSample& comm : open) {
    all.add(*comm.counters);
    chunks += comm.counters->chunksInFlight.load(std::memory_order_relaxed);
  }
  MetricsText text;
  addBuildInfo(cpu::describeKernels(), text);
  addCommunicators(open, text);
  addCalls(all, chunks, text);
  addNetwork(all, text);
  addServers(open, all, text);
  addWaits(open, text);
  addProcessMetrics(text);
  return std::move(text).take();
}

}  // namespace bps
