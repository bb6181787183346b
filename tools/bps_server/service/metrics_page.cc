#include "tools/bps_server/service/metrics_page.h"

#include "cpu_reduce/dispatch.h"
#include "src/base/format.h"
#include "src/metrics/process_metrics.h"

namespace bps {
namespace {

using Type = MetricsText::Type;

void addServer(const server::ControlServer& server, MetricsText& text) {
  const server::ServerCounters& counters = server.counters();
  text.single("bps_draining", Type::kGauge, "1 if the server takes no new jobs because it is about to end.",
              uint64_t{server.draining() ? 1U : 0U});
  text.single("bps_jobs_begun_total", Type::kCounter, "Jobs that began with this server.", counters.jobsBegun.value());
  text.single("bps_jobs_completed_total", Type::kCounter,
              "Begun jobs that ended without a failure that the server saw.", counters.jobsCompleted.value());
  text.single("bps_jobs_failed_total", Type::kCounter, "Begun jobs that ended with a failure that the server saw.",
              counters.jobsFailed.value());
  text.single("bps_jobs_left_total", Type::kCounter, "Jobs that the server left because it drains; they go on.",
              counters.jobsLeft.value());
  text.single("bps_jobs_refused_total", Type::kCounter, "Jobs that the server refused.", counters.jobsRefused.value());
  const AdmissionCounters& admissions = server.admissions();
  text.single("bps_connections_accepted_total", Type::kCounter, "Control connections that proved the key.",
              admissions.accepted());
  text.family("bps_connections_refused_total", Type::kCounter, "Control connections refused, by reason.");
  for (size_t reason = 0; reason < AdmissionCounters::kReasons; ++reason)
    text.sample({{"reason", AdmissionCounters::kNames[reason]}}, admissions.refused(reason));
}

void addLoad(const ServerLoad& load, const JobThreads::Counters& all, MetricsText& text) {
  uint64_t machines = 0, ranks = 0;
  for (const JobCounters& job : all.jobs) {
    machines += job.machines;
    ranks += job.ranks;
  }
  text.single("bps_jobs", Type::kGauge, "Jobs that are open.", uint64_t{load.jobs});
  text.single("bps_machines", Type::kGauge, "Worker machines of the open jobs.", machines);
  text.single("bps_ranks", Type::kGauge, "Ranks of the open jobs.", ranks);
  text.single("bps_free_memory_bytes", Type::kGauge, "Memory that more jobs may use.", load.freeBytes);
  text.single("bps_free_descriptors", Type::kGauge, "File descriptors that more jobs may use.", load.freeDescriptors);
  text.single("bps_silent_threads", Type::kGauge, "Summation threads that did not report in time for this page.",
              uint64_t{all.silentThreads});
}

void addTotals(const JobThreads::Counters& all, MetricsText& text) {
  ServiceCounters sum = all.endedJobs;
  for (const JobCounters& job : all.jobs) sum += job.service;
  text.single("bps_received_bytes_total", Type::kCounter, "Bytes of contributions received.", sum.bytesReceived);
  text.single("bps_sent_bytes_total", Type::kCounter, "Bytes of sums sent.", sum.bytesSent);
  text.single("bps_summed_bytes_total", Type::kCounter, "Bytes of contributions summed.", sum.bytesSummed);
  text.single("bps_rounds_total", Type::kCounter, "Rounds summed: one chunk of all machines.", sum.rounds);
  text.single("bps_queued_contributions", Type::kGauge, "Contributions that wait for those of other machines.",
              sum.queued);
  text.single("bps_unsent_sums", Type::kGauge, "Sums that the transport has not accepted yet.", sum.unsent);
}

void addJobs(const JobThreads::Counters& all, MetricsText& text) {
  const auto add = [&](std::string_view name, Type type, std::string_view help, uint64_t ServiceCounters::*member) {
    text.family(name, type, help);
    for (const JobCounters& job : all.jobs) text.sample({{"job", fmt::format("{:016x}", job.id)}}, job.service.*member);
  };
  add("bps_job_received_bytes_total", Type::kCounter, "Bytes of contributions received, by open job.",
      &ServiceCounters::bytesReceived);
  add("bps_job_sent_bytes_total", Type::kCounter, "Bytes of sums sent, by open job.", &ServiceCounters::bytesSent);
  add("bps_job_summed_bytes_total", Type::kCounter, "Bytes of contributions summed, by open job.",
      &ServiceCounters::bytesSummed);
  add("bps_job_rounds_total", Type::kCounter, "Rounds summed, by open job.", &ServiceCounters::rounds);
  add("bps_job_queued_contributions", Type::kGauge, "Contributions that wait for other machines, by open job.",
      &ServiceCounters::queued);
  add("bps_job_unsent_sums", Type::kGauge, "Sums that the transport has not accepted yet, by open job.",
      &ServiceCounters::unsent);
  text.family("bps_job_wait_seconds_total", Type::kCounter,
              "Time that rounds waited for the contribution of a rank, by open job.");
  for (const JobCounters& job : all.jobs) {
    const std::string id = fmt::format("{:016x}", job.id);
    for (const JobCounters::RankWait& wait : job.waits)
      text.sample({{"job", id}, {"rank", std::to_string(wait.rank)}}, wait.seconds);
    if (job.furtherRanks) text.sample({{"job", id}, {"rank", "others"}}, job.otherWaits);
  }
}

}  // namespace

std::string metricsPage(const server::ControlServer& server, const JobThreads& jobs) {
  const JobThreads::Counters all = jobs.counters();
  MetricsText text;
  addBuildInfo(cpu::describeKernels(), text);
  addServer(server, text);
  addLoad(jobs.load(), all, text);
  addTotals(all, text);
  addJobs(all, text);
  addProcessMetrics(text);
  return std::move(text).take();
}

}  // namespace bps
