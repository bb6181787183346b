#include "tools/bps_server/status/status.h"

#include <algorithm>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <vector>

#include "bps/bps.h"
#include "src/base/format.h"
#include "src/base/io/host_lookup.h"
#include "src/control/keys/crypto.h"
#include "src/control/servers/server_list.h"
#include "src/server/status/report_text.h"
#include "tools/bps_server/check/server_connection.h"

namespace bps {
namespace {

using Json = nlohmann::ordered_json;

Json jsonOf(const JobReport& job) {
  Json json{{"id", fmt::format("{:016x}", job.id)},
            {"state", job.state},
            {"hub", job.hub},
            {"machines", job.machines},
            {"ranks", job.ranks},
            {"age_s", job.ageSeconds},
            {"no_progress_s", job.idleSeconds},
            {"bytes_summed", job.bytesSummed},
            {"calls", Json::array()},
            {"lanes", Json::array()},
            {"lanes_left_out", job.lanesLeftOut}};
  for (const CallReport& call : job.calls)
    json["calls"].push_back({{"number", call.number}, {"call", call.text}, {"bytes", call.bytes}, {"rail", call.rail}});
  for (const LaneReport& lane : job.lanes)
    json["lanes"].push_back({{"peer", lane.peer},
                             {"rail", lane.rail},
                             {"contributions_missing", lane.missing},
                             {"sums_not_sent", lane.unsent}});
  return json;
}

std::string jsonText(const StatusReport& report, const std::string& server) {
  Json json{{"server", server}, {"silent_threads", report.silentThreads}, {"jobs", Json::array()}};
  for (const JobReport& job : report.jobs) json["jobs"].push_back(jsonOf(job));
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

Result<StatusReport> queryStatus(const std::string& server, const Env& env) {
  BPS_TRY(cryptoInit());
  const Key key = BPS_TRY(serverKey(env));
  const std::chrono::milliseconds answerTimeout(static_cast<int64_t>(env.timeout.value * 1000));
  const Credentials credentials{key, env.auth, static_cast<uint32_t>(answerTimeout.count())};
  const HostPort where = BPS_TRY(parseHostPort(server, kServerPort));
  const std::vector<Address> addresses = BPS_TRY(resolve(where, Deadline::in(answerTimeout)));
  const auto connection = BPS_TRY(ServerConnection::open(addresses, credentials, answerTimeout));
  (void)BPS_TRY(connection->receive<Offer>());
  connection->send(MessageType::kStatus);
  StatusReport report = BPS_TRY(connection->receive<StatusReport>());
  connection->leave();
  return report;
}

}  // namespace

Status printServerStatus(const std::string& server, bool json, const Env& env) {
  Result<StatusReport> report = queryStatus(server, env);
  if (!report.ok()) return std::move(report).status().within("--status " + server);
  if (json) {
    fmt::print("{}\n", jsonText(std::move(report).value(), server));
    return {};
  }
  for (std::string& line : server::reportLines(std::move(report).value())) {
    std::replace_if(
        line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
    fmt::print("{}\n", line);
  }
  return {};
}

}  // namespace bps
