// ParamService: keeps the parts of parameters that one endpoint owns, for asynchronous training. bps-server and the
// ranks of worker machines use the same class.
//
// There are no rounds. The requests of a machine are served in their order, whatever the other machines do: a push is
// added to the part at once, a pull reads the part. The answer carries the value after the machine's own push, so a
// machine reads what it has written. A chunk is added or read as a whole.
//
// If the staleness is limited to s pushes, the answer to push p of a machine waits until every other machine has made
// push p - s to this part. So with s = 0 the machines train in step, and all get the same values. A machine that waits
// at a barrier, or whose connection has ended, is not waited for. The answers to one machine keep their order, so
// with a limit all machines must push to the parameters in the same order.
//
// If an endpoint is lost, another one takes over its parts (comm/lanes/parameters/owner_takeover.h). Requests to these
// parts wait until all machines have sent the copies that the sender has sent. Meanwhile no answer waits for a slow
// machine: the copies may be behind requests whose answers wait.
//
// Barriers are numbered. With kParamReach a machine says that it has reached a barrier, and asks which barrier each
// machine has reached. Barriers stop waiting for a lost machine once its loss is settled
// (comm/lanes/parameters/owner_takeover.h). With kParamLeave a machine says that it needs the others no more; the
// answer waits until all machines have said so or are gone.
#pragma once
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/memory.h"
#include "src/service/answer_sender.h"
#include "src/service/chunk_service.h"
#include "src/service/parameters/param_store.h"

namespace bps {

struct ParamSpec : Summation {
  explicit ParamSpec(Summation sums = {}) : Summation(std::move(sums)) {}

  std::optional<size_t> local;  // the machine that this service runs in
  size_t endpoints = 0;         // owners of parameters: the machines, and then the servers
  size_t depth = 0;
  size_t maxChunkBytes = 0;
  uint32_t staleness = JobSettings::kUnbounded;
  std::shared_ptr<ParamStore> store;
};

class ParamService final : public ChunkService {
 public:
  static Result<std::unique_ptr<ParamService>> create(ParamSpec spec, std::vector<Lane> lanes);

  Result<bool> step() override;
  std::optional<size_t> failedMachine() const override { return failedMachine_; }
  void lose(size_t machine) override;
  bool lost(size_t machine) const override { return clients_[machine].gone; }
  void beginTakeover(size_t endpoint) override { lost_[endpoint] = true; }
  std::optional<size_t> lostElsewhere() const override;
  bool canOffer() const override { return offered_.size() + local().waiting.size() < spec_.depth; }
  void offer(const LocalChunk& chunk) override { offered_.push_back(chunk); }
  uint64_t retired() override { return retired_; }
  bool drained() const override;
  bool active() const override;
  uint64_t bytesSummed() const override { return counters_.bytesSummed; }
  ServiceCounters counters() const override;
  const WaitTimes& waitTimes() const override { return waitTimes_; }
  std::optional<EndpointWait> checkWait() override { return {}; }  // a slow machine is no failure
  std::vector<CallInfo> pendingCalls() const override;
  void addPeerWaits(std::vector<PeerWait>& waits) const override;
  void forEachComm(const std::function<void(net::Comm&)>& use) override;

 private:
  struct Request {  // served, but not answered
    CallInfo call;
    ParamPart part;
    const ParamStore::Part* place = nullptr;  // null if isForOwner(), or if kParamAsk finds no part
    void* target = nullptr;                   // of the local machine
    std::function<void(const ParamClock&)> note;
  };
  struct Client {        // a machine
    PageBuffer results;  // declared before the connections, which use this memory until they close
    std::unique_ptr<ContributionReceiver> inbound;  // null for the local machine
    std::unique_ptr<AnswerSender> answers;
    std::deque<Request> waiting;
    uint64_t served = 0;
    uint32_t barriers = 0;       // that the machine has reached
    std::vector<bool> restored;  // by endpoint: the machine has sent all its copies of the parts of this lost endpoint
    bool leaves = false;
    bool gone = false;     // its connection has ended
    bool settled = false;  // lost, and its last push is in all parts or in none
  };

  explicit ParamService(ParamSpec spec)
      : spec_(std::move(spec)), clients_(spec_.machines), lost_(spec_.endpoints), waitTimes_(spec_.machines) {
    for (Client& client : clients_) client.restored.resize(spec_.endpoints);
  }
  const Client& local() const { return clients_[*spec_.local]; }
  Result<bool> step(size_t machine);
  Result<bool> stepLocal();
  // Carries out what a request asks for, and returns true; its answer may wait. Returns false if the request must wait.
  Result<bool> serve(size_t machine, const Contribution& contribution);
  // The request says that the machine `part.machine` is lost.
  Status loseNamed(const CallInfo& call, const ParamPart& part);
  Status serveAsOwner(size_t machine, const Contribution& contribution);
  Result<ParamStore::Part*> placeOf(size_t machine, const Contribution& contribution);
  Result<bool> serveArrived(size_t machine);
  bool mayAnswer(const Request& request) const;
  uint32_t barriersPassed() const;
  // The machine that has pushed the least to the part, among those that still push; the number of machines if none
  // does.
  size_t slowest(const ParamStore::Part& place) const;
  // True if all machines have sent their copies of the parts of these endpoints. A request waits for the endpoints
  // whose loss its sender knew of. If it waited for later losses too, the sender's own copies could be behind the
  // request.
  bool haveRestored(const std::vector<bool>& endpoints) const;
  // True if some machine has not sent all its copies yet.
  bool takesOver() const;
  ParamClock clockOf(const Request& request) const;
  bool answer(Client& client);

  ParamSpec spec_;
  std::vector<Client> clients_;
  std::deque<LocalChunk> offered_;
  uint64_t retired_ = 0;
  std::optional<size_t> failedMachine_;
  std::vector<bool> lost_;  // by endpoint; a server knows only the losses that machines tell
  ServiceCounters counters_;
  WaitTimes waitTimes_;
};

}  // namespace bps
