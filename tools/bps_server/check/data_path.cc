#include "tools/bps_server/check/data_path.h"

#include <unistd.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "cpu_reduce/reduce.h"
#include "src/base/format.h"
#include "src/base/memory.h"
#include "src/net/mesh.h"
#include "src/net/message_queue.h"
#include "src/wire/data_header.h"
#include "src/wire/roster.h"

namespace bps {
namespace {

// A sum needs two machines. With these bandwidths, the server is the owner of all chunks.
constexpr size_t kMachines = 2;
constexpr double kWorkersRate = 1, kServersRate = 1e6;
constexpr size_t kPartition = 64U << 10, kCount = 256;

Roster rosterOf(const ServerConnection& connection, const std::string& server, const Env& env) {
  Roster roster;
  roster.jobId = connection.job();
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  for (uint32_t rank = 0; rank < kMachines; ++rank) {
    roster.ranks.push_back({fmt::format("check-{}", rank), host.data(), static_cast<uint32_t>(::getpid()), rank, 0});
    roster.machines.push_back({{rank}, kWorkersRate});
  }
  roster.servers.push_back({server, kServersRate});
  roster.settings.partitionBytes = kPartition;
  roster.settings.timeoutMs = static_cast<uint32_t>(env.timeout.value * 1000);
  return roster;
}

// One simulated machine. It has two connections to the server, and it exchanges one message in each
// direction.
class TestWorker {
 public:
  TestWorker(net::Plugin& plugin, const net::MeshShape& shape) : plugin_(plugin), shape_(shape) {}

  Status listen() {
    mesh_ = std::make_unique<net::Mesh>(BPS_TRY(net::Mesh::createListening(plugin_, 0, shape_)));
    return {};
  }
  net::Mesh& mesh() { return *mesh_; }
  Result<bool> connect() { return BPS_TRY(mesh_->step()) == Progress::kDone; }

  Status send(float value) {
    net::PeerConnections link = mesh_->take(kMachines);
    memory_ = BPS_TRY(PageBuffer::create(4 * kPageBytes));
    push_ = std::make_unique<net::MessageQueue>(std::move(link.pushOut), net::MessageQueue::Direction::kSend);
    answer_ = std::make_unique<net::MessageQueue>(std::move(link.answerIn), net::MessageQueue::Direction::kReceive);
    void* pushed = BPS_TRY(push_->comm().registerMemory(memory_.data(), 2 * kPageBytes));
    void* answered = BPS_TRY(answer_->comm().registerMemory(memory_.data() + 2 * kPageBytes, 2 * kPageBytes));
    DataHeader header;
    header.first = true;
    header.call.count = kCount;
    header.call.type = static_cast<uint8_t>(DataType::kFloat32);
    DataHeaderBytes bytes;
    const size_t size = encode(header, bytes);
    std::memcpy(at(0), bytes.data(), size);
    const std::vector<float> values(kCount, value);
    std::memcpy(at(1), values.data(), kCount * sizeof(float));
    answer_->push({at(2), kDataHeaderBytes, answered});
    answer_->push({at(3), kPageBytes, answered});
    push_->push({at(0), size, pushed});
    push_->push({at(1), kCount * sizeof(float), pushed});
    return {};
  }
  // Returns true if the sum has arrived.
  Result<bool> step() {
    push_->step();
    answer_->step();
    for (const net::MessageQueue* queue : {push_.get(), answer_.get()})
      if (!queue->failure().ok()) return queue->failure().clone();
    return answer_->done() == 2;
  }
  bool hasExpectedSum(float sum) {
    [[maybe_unused]] const size_t header = answer_->takeReceivedBytes();
    std::vector<float> values(kCount);
    std::memcpy(values.data(), at(3), kCount * sizeof(float));
    return answer_->takeReceivedBytes() == kCount * sizeof(float) && values == std::vector<float>(kCount, sum);
  }

 private:
  uint8_t* at(size_t page) { return memory_.data() + page * kPageBytes; }

  net::Plugin& plugin_;
  net::MeshShape shape_;
  std::unique_ptr<net::Mesh> mesh_;
  PageBuffer memory_;  // declared before the connections, which use the memory until they close
  std::unique_ptr<net::MessageQueue> push_, answer_;
};

// Steps both simulated machines until both are done.
template <class Step>
Status stepBoth(ServerConnection& connection, std::vector<std::unique_ptr<TestWorker>>& machines, const char* what,
                Step step) {
  for (const Deadline deadline = connection.answerDeadline();;) {
    bool done = true;
    for (auto& machine : machines) done = BPS_TRY(step(*machine)) && done;
    if (done) return {};
    BPS_TRY(connection.keepAlive());
    if (deadline.passed()) return failure(Code::kTimeout, "{}: not done in time", what);
    // Plugins have no descriptor to wait on before a connection is established.
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

// Does the hub's work in the exchange of handles: passes the handles of each participant to the
// other participants.
Status exchange(ServerConnection& connection, std::vector<std::unique_ptr<TestWorker>>& machines,
                const Roster& roster) {
  connection.send(MessageType::kBegin);
  const ControlOpInput part = BPS_TRY(connection.receive<ControlOpInput>());
  if (part.kind != ControlOp::kExchange || part.blobs.size() != roster.endpoints())
    return {Code::kRemote, "it sent no handles for its data connections"};
  ControlOpResult answer{ControlOp::kExchange, part.number, std::vector<Blob>(roster.endpoints())};
  for (size_t m = 0; m < kMachines; ++m) {
    answer.blobs[m] = machines[m]->mesh().handles()[kMachines];
    std::vector<Blob> handles(roster.endpoints());
    handles[kMachines] = part.blobs[m];
    BPS_TRY(machines[m]->mesh().setPeerHandles(handles));
  }
  connection.send(answer);
  return {};
}

}  // namespace

Result<std::string> checkDataPath(ServerConnection& connection, const std::string& name, const Env& env) {
  const Roster roster = rosterOf(connection, name, env);
  std::vector<bool> owners(roster.endpoints());
  owners[kMachines] = true;  // the check needs no connection between its simulated machines
  const auto plugin = BPS_TRY(net::Plugin::load(env.netPlugin, roster.jobId));
  std::vector<std::unique_ptr<TestWorker>> machines;
  for (size_t m = 0; m < kMachines; ++m) {
    machines.push_back(std::make_unique<TestWorker>(*plugin, net::MeshShape{m, kMachines, owners}));
    BPS_TRY(machines.back()->listen());
  }
  connection.send(OpenJob{1, kMachines, encode(roster)});
  (void)BPS_TRY(connection.receive<JobOpened>());
  BPS_TRY(exchange(connection, machines, roster));
  BPS_TRY(stepBoth(connection, machines, "connecting", [](TestWorker& machine) { return machine.connect(); }));
  const ControlOpInput met = BPS_TRY(connection.receive<ControlOpInput>());
  if (met.kind != ControlOp::kBarrier) return Status(Code::kRemote, "it did not report that it is connected");
  connection.send(ControlOpResult{ControlOp::kBarrier, met.number, {}});
  for (size_t m = 0; m < kMachines; ++m) BPS_TRY(machines[m]->send(static_cast<float>(m + 1)));
  BPS_TRY(stepBoth(connection, machines, "moving bytes", [](TestWorker& machine) { return machine.step(); }));
  for (auto& machine : machines)
    if (!machine->hasExpectedSum(3)) return Status(Code::kRemote, "its sum is wrong");
  connection.leave();  // must precede the close of the connections, so that the server sees no loss
  return plugin->description() + ", " + BPS_TRY(plugin->device(0)).name;
}

}  // namespace bps
