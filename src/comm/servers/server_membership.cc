#include "src/comm/servers/server_membership.h"

#include "src/base/log.h"

namespace bps {

Result<ServerEvent> ServerMembership::handleOldest(bool unfinishedCalls) {
  ServerEvent event = *events_.oldest();
  if (event.kind == ServerEvent::Kind::kLost) {
    change_.onLost(event.server);
    BPS_TRY(recovery_.recover(event, unfinishedCalls));
  } else {
    BPS_TRY(change_.handle(event));
  }
  events_.handled();
  return event;
}

void ServerMembership::checkRates() {
  if (control_.rank() != 0 || plane_ == nullptr || !nextRateCheck_.passed()) return;
  nextRateCheck_ = Deadline::in(std::chrono::milliseconds(100));
  const std::vector<double> factors = weights_.factors();
  const std::optional<ServerRates::NewRate> rate = rates_.check(plane_->work(), factors, Deadline::Clock::now());
  if (!rate) return;
  const std::string name = control_.roster().endpointName(control_.roster().machines.size() + rate->server);
  if (rate->factor < factors[rate->server])
    logWarn(Subsystem::kColl, "{} is too slow for its share; from now on it gets the share of {:.0f} % of its rate",
            name, 100 * rate->factor);
  else
    logInfo(Subsystem::kColl, "{} may have become faster; from now on it gets the share of {:.0f} % of its rate", name,
            100 * rate->factor);
  control_.proposeRate(rate->server, rate->factor);
}

}  // namespace bps
