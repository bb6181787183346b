#include "src/service/parameters/param_service.h"

#include <algorithm>
#include <cstring>
#include <functional>

#include "src/base/checksum/crc32c.h"
#include "src/base/format.h"

namespace bps {

Result<std::unique_ptr<ParamService>> ParamService::create(ParamSpec spec, std::vector<Lane> lanes) {
  std::unique_ptr<ParamService> service(new ParamService(std::move(spec)));
  const ParamSpec& s = service->spec_;
  for (size_t m = 0; m < s.machines; ++m) {
    if (s.local == m) continue;
    Client& client = service->clients_[m];
    client.results = BPS_TRY(PageBuffer::create(s.depth * s.maxChunkBytes));
    client.inbound = BPS_TRY(ContributionReceiver::create(
        std::move(lanes[m].push), {s.depth, s.maxChunkBytes, s.checksum, true, headerBytesWithClock(s.machines)}));
    client.answers = BPS_TRY(
        AnswerSender::create(std::move(lanes[m].answer), s.depth, client.results, headerBytesWithClock(s.machines)));
  }
  return service;
}

Result<bool> ParamService::step() {
  failedMachine_.reset();
  bool moved = spec_.local && BPS_TRY(stepLocal());
  for (size_t m = 0; m < spec_.machines; ++m) {
    if (spec_.local == m || clients_[m].gone) continue;
    Result<bool> stepped = step(m);
    if (!stepped.ok()) {
      if (stepped.error().code() != Code::kRemote) return stepped;  // not the fault of the machine
      failedMachine_ = m;
      lose(m);
      return stepped;
    }
    moved = std::move(stepped).value() || moved;
  }
  return moved;
}

void ParamService::lose(size_t machine) {
  Client& client = clients_[machine];
  if (std::exchange(client.gone, true) || client.inbound == nullptr) return;
  client.inbound->comm().markFailed();
  client.answers->comm().markFailed();
}

Result<bool> ParamService::step(size_t machine) {
  Client& client = clients_[machine];
  Result<bool> received = client.inbound->step(client.served);
  bool moved = BPS_TRY(serveArrived(machine));
  while (answer(client)) moved = true;
  moved = BPS_TRY(client.answers->step()) || moved;
  return BPS_TRY(std::move(received)) || moved;
}

// Of one machine, each step serves at most one chunk, so that the machines share the CPU.
Result<bool> ParamService::serveArrived(size_t machine) {
  Client& client = clients_[machine];
  if (client.served == client.inbound->arrived() || client.waiting.size() == spec_.depth) return false;
  if (!BPS_TRY(serve(machine, client.inbound->contribution(client.served)))) return false;
  ++client.served;
  return true;
}

Result<bool> ParamService::stepLocal() {
  Client& client = clients_[*spec_.local];
  bool moved = false;
  if (!offered_.empty()) {
    const LocalChunk& chunk = offered_.front();
    const bool sends = carriesContribution(static_cast<CallOp>(chunk.call.op)) && chunk.source != nullptr;
    const Contribution contribution{chunk.call, chunk.source, sends ? chunk.bytes : 0,
                                    false,      chunk.part,   chunk.restored};
    moved = BPS_TRY(serve(*spec_.local, contribution));
    if (moved) {
      client.waiting.back().target = chunk.target;
      client.waiting.back().note = chunk.note;
      offered_.pop_front();
    }
  }
  while (!client.waiting.empty() && mayAnswer(client.waiting.front())) {
    const Request& request = client.waiting.front();
    if (writesTarget(static_cast<CallOp>(request.call.op)))
      std::memcpy(request.target, request.place->value.data(), request.place->bytes());
    if (request.note) request.note(clockOf(request));
    client.waiting.pop_front();
    ++retired_;
    moved = true;
  }
  return moved;
}

Result<bool> ParamService::serve(size_t machine, const Contribution& contribution) {
  const CallInfo& call = contribution.call;
  const ParamPart& part = *contribution.part;
  const auto op = static_cast<CallOp>(call.op);
  const size_t bytes = part.count * elementBytes(static_cast<DataType>(call.type));
  const bool none = op == CallOp::kParamRestore && contribution.bytes == 0;
  if (bytes > spec_.maxChunkBytes || (!none && contribution.bytes != (carriesContribution(op) ? bytes : 0)))
    return failure(Code::kRemote, "{}: a chunk of {} bytes for {} elements", describe(call), contribution.bytes,
                   part.count);
  Request request;
  request.call = call;
  request.part = part;
  if (isForOwner(op)) {
    BPS_TRY(serveAsOwner(machine, contribution));
  } else {
    if (op == CallOp::kParamAsk || op == CallOp::kParamUndo) BPS_TRY(loseNamed(call, part));
    ParamStore::Part* const place = BPS_TRY(placeOf(machine, contribution));
    if (op != CallOp::kParamRestore && place != nullptr && place->restored && !haveRestored(clients_[machine].restored))
      return false;
    if (op == CallOp::kParamUndo && place != nullptr) spec_.store->undo(*place, part.machine, part.push);
    if (isPush(op)) {
      BPS_TRY(spec_.store->add(*place, part, machine, contribution.data));
      counters_.bytesSummed += bytes;
      ++counters_.rounds;
    }
    request.place = place;
  }
  clients_[machine].waiting.push_back(std::move(request));
  return true;
}

Status ParamService::loseNamed(const CallInfo& call, const ParamPart& part) {
  if (part.machine >= spec_.machines || part.machine == spec_.local)
    return failure(Code::kRemote, "{}: machine {} is not lost", describe(call), part.machine);
  lose(part.machine);
  return {};
}

Status ParamService::serveAsOwner(size_t machine, const Contribution& contribution) {
  const ParamPart& part = *contribution.part;
  const auto op = static_cast<CallOp>(contribution.call.op);
  Client& client = clients_[machine];
  if (op == CallOp::kParamLeave) client.leaves = true;
  if (op == CallOp::kParamRestored) {
    if (part.machine >= spec_.endpoints)
      return failure(Code::kRemote, "{}: there is no endpoint {}", describe(contribution.call), part.machine);
    client.restored[part.machine] = true;
  }
  if (op == CallOp::kParamReach) {
    if (part.push < client.barriers || part.push > client.barriers + 1)
      return failure(Code::kRemote, "barrier {} came after barrier {}", part.push, client.barriers);
    client.barriers = part.push;
  }
  if (op == CallOp::kParamSettled) {
    BPS_TRY(loseNamed(contribution.call, part));
    clients_[part.machine].settled = true;
  }
  return {};
}

Result<ParamStore::Part*> ParamService::placeOf(size_t machine, const Contribution& contribution) {
  const CallInfo& call = contribution.call;
  const ParamPart& part = *contribution.part;
  const auto op = static_cast<CallOp>(call.op);
  if (op == CallOp::kParamSet) return spec_.store->set(call, part, contribution.data);
  // If a rank is lost while it makes a parameter, the part may not exist yet.
  if ((op == CallOp::kParamAsk || op == CallOp::kParamUndo) && !spec_.store->contains(part)) return nullptr;
  if (op != CallOp::kParamRestore) return spec_.store->find(call, part);
  if (!contribution.clock) return failure(Code::kRemote, "{} without the pushes that it contains", describe(call));
  const void* const data = contribution.bytes > 0 ? contribution.data : nullptr;
  return spec_.store->restore(call, part, machine, *contribution.clock, data);
}

bool ParamService::haveRestored(const std::vector<bool>& endpoints) const {
  return std::all_of(clients_.begin(), clients_.end(), [&](const Client& client) {
    return client.gone || std::equal(endpoints.begin(), endpoints.end(), client.restored.begin(), std::less_equal());
  });
}

bool ParamService::takesOver() const {
  std::vector<bool> begun = lost_;
  for (const Client& client : clients_)
    for (size_t endpoint = 0; endpoint < begun.size() && !client.gone; ++endpoint)
      begun[endpoint] = begun[endpoint] || client.restored[endpoint];
  return !haveRestored(begun);
}

std::optional<size_t> ParamService::lostElsewhere() const {
  for (const Client& client : clients_)
    for (size_t endpoint = 0; endpoint < lost_.size(); ++endpoint)
      if (!client.gone && client.restored[endpoint] && !lost_[endpoint] && endpoint != spec_.local) return endpoint;
  return {};
}

uint32_t ParamService::barriersPassed() const {
  uint32_t passed = UINT32_MAX;
  for (const Client& client : clients_)
    if (!client.gone) passed = std::min(passed, client.barriers);
  return passed;
}

size_t ParamService::slowest(const ParamStore::Part& place) const {
  size_t least = spec_.machines;
  const std::vector<uint32_t>& pushes = place.clock.machines;
  const uint32_t passed = barriersPassed();
  for (size_t m = 0; m < spec_.machines; ++m)
    if (!clients_[m].gone && clients_[m].barriers == passed && (least == spec_.machines || pushes[m] < pushes[least]))
      least = m;
  return least;
}

ParamClock ParamService::clockOf(const Request& request) const {
  ParamClock clock;
  if (request.place == nullptr) {
    if (!isForOwner(static_cast<CallOp>(request.call.op))) clock.machines.resize(spec_.machines);
    else
      for (const Client& client : clients_) clock.machines.push_back(client.settled ? UINT32_MAX : client.barriers);
    return clock;
  }
  clock = request.place->clock;
  const size_t machine = slowest(*request.place);
  clock.slowest = machine < spec_.machines ? clock.machines[machine] : ParamClock::kNone;
  return clock;
}

bool ParamService::mayAnswer(const Request& request) const {
  const auto op = static_cast<CallOp>(request.call.op);
  if (op == CallOp::kParamLeave)
    return std::all_of(clients_.begin(), clients_.end(), [](const Client& each) { return each.leaves || each.gone; });
  if (spec_.staleness == JobSettings::kUnbounded || !isPush(op) || takesOver()) return true;
  const size_t machine = slowest(*request.place);
  return machine == spec_.machines ||
         uint64_t{request.part.push} <= uint64_t{request.place->clock.machines[machine]} + spec_.staleness;
}

// Queues the oldest answer to the machine, if it may be sent and has room. The value is copied: the next push may come
// while the answer is sent.
bool ParamService::answer(Client& client) {
  if (client.waiting.empty() || client.answers->pushed() - client.answers->done() == spec_.depth) return false;
  const Request& request = client.waiting.front();
  if (!mayAnswer(request)) return false;
  const size_t bytes = carriesAnswer(static_cast<CallOp>(request.call.op)) ? request.place->bytes() : 0;
  uint8_t* const slot = client.results.data() + client.answers->pushed() % spec_.depth * spec_.maxChunkBytes;
  if (bytes > 0) std::memcpy(slot, request.place->value.data(), bytes);
  std::optional<uint32_t> checksum;
  if (spec_.checksum) checksum = crc32c(slot, bytes);
  client.answers->push(slot, bytes, checksum, clockOf(request));
  client.waiting.pop_front();
  return true;
}

bool ParamService::drained() const {
  return std::all_of(clients_.begin(), clients_.end(), [this](const Client& client) {
    if (client.answers == nullptr || client.gone) return true;
    return client.answers->done() == client.answers->pushed() &&
           (client.waiting.empty() || !mayAnswer(client.waiting.front()));
  });
}

bool ParamService::active() const {
  return !offered_.empty() || !drained() ||
         std::any_of(clients_.begin(), clients_.end(), [](const Client& client) { return !client.waiting.empty(); });
}

ServiceCounters ParamService::counters() const {
  ServiceCounters counters = counters_;
  for (const Client& client : clients_) {
    counters.queued += client.waiting.size();
    if (client.inbound == nullptr) continue;
    counters.bytesReceived += client.inbound->bytesReceived();
    counters.bytesSent += client.answers->bytesPushed();
    counters.unsent += client.answers->pushed() - client.answers->done();
  }
  return counters;
}

std::vector<CallInfo> ParamService::pendingCalls() const {
  std::vector<CallInfo> calls;
  for (const Client& client : clients_)
    if (!client.waiting.empty() && calls.size() < kMaxPendingCalls) calls.push_back(client.waiting.front().call);
  return calls;
}

// Names the machines for which answers wait, and those that take no answers.
void ParamService::addPeerWaits(std::vector<PeerWait>& waits) const {
  std::vector<uint64_t> missing(spec_.machines);
  for (const Client& client : clients_)
    for (const Request& request : client.waiting)
      if (request.place != nullptr && !mayAnswer(request)) ++missing[slowest(*request.place)];
  for (size_t m = 0; m < spec_.machines; ++m) {
    const AnswerSender* const answers = clients_[m].answers.get();
    const uint64_t unsent = answers != nullptr ? answers->pushed() - answers->done() : 0;
    if (m != spec_.local && (missing[m] > 0 || unsent > 0))
      waits.push_back({spec_.nameOf(m), PeerWait::Data::kContribution, missing[m], unsent});
  }
}

void ParamService::forEachComm(const std::function<void(net::Comm&)>& use) {
  for (Client& client : clients_) {
    if (client.inbound != nullptr) use(client.inbound->comm());
    if (client.answers != nullptr) use(client.answers->comm());
  }
}

}  // namespace bps
