#include "src/comm/lanes/bcube/bcube_network.h"

#include <chrono>
#include <thread>
#include <utility>

#include "src/base/format.h"
#include "src/base/io/wire_io.h"
#include "src/net/mesh.h"

namespace bps {
namespace {

class Connecting {
 public:
  explicit Connecting(const BcubeNetworkArgs& args) : args_(args), shape_(args.place.shape) {}

  Result<BcubeNetwork> run() {
    BPS_TRY(exchangeAddresses());
    BPS_TRY(listen());
    BPS_TRY(exchangeHandles());
    connected_ = threeQuartersOf(args_.deadline);
    while (!BPS_TRY(step())) {
      if (args_.cancelled()) return Status(Code::kInvalidUsage, "aborted while connecting");
      std::this_thread::sleep_for(
          std::chrono::microseconds(200));  // a plugin has no descriptor to wait for while it connects
    }
    return takeAll();
  }

 private:
  // A machine that cannot reach a neighbour reports it before the others give up their waits for this machine.
  static Deadline threeQuartersOf(Deadline deadline) {
    const auto left = deadline.at() - Deadline::Clock::now();
    return Deadline::in(left - left / 4).earlier(deadline);
  }
  const Roster& roster() const { return args_.control.roster(); }
  size_t self() const { return roster().ranks[args_.control.rank()].machine; }
  std::string nameOf(size_t machine) const { return roster().endpointName(machine); }

  // Learns which machine has which address.
  Status exchangeAddresses() {
    if (roster().machines.size() != shape_.machines())
      return failure(Code::kInvalidUsage, "BPS_FABRIC: {} has {} machines, the job has {}", shape_.text(),
                     shape_.machines(), roster().machines.size());
    const Blob own = std::move(WireWriter().put(static_cast<uint32_t>(args_.place.address))).take();
    const std::vector<Blob> addresses =
        BPS_TRY(args_.control.exchange(std::vector<Blob>(roster().endpoints(), own), args_.deadline));
    constexpr size_t kNobody = ~size_t{0};
    network_.machineAt.assign(shape_.machines(), kNobody);
    for (size_t machine = 0; machine < shape_.machines(); ++machine) {
      WireReader in(addresses[machine]);
      const size_t address = in.get<uint32_t>();
      if (!in.finish("address").ok() || address >= shape_.machines())
        return failure(Code::kRemote, "{} has no valid address on a {}", nameOf(machine), shape_.text());
      if (const size_t other = std::exchange(network_.machineAt[address], machine); other != kNobody)
        return failure(Code::kInvalidUsage, "BPS_FABRIC: {} and {} both have the address {}", nameOf(other),
                       nameOf(machine), shape_.addressText(address));
    }
    if (network_.machineAt[args_.place.address] == self()) return {};
    return failure(Code::kRemote, "the hub has exchanged the addresses of {}", nameOf(self()));
  }

  Status listen() {
    for (size_t level = 0; level < shape_.k(); ++level) {
      const std::string& interface = args_.place.levels[level].interface;
      const std::optional<int> device = BPS_TRY(args_.plugin.find(interface, ""));
      if (!device)
        return failure(Code::kInvalidUsage, "BPS_FABRIC: interface {} of level {} is no device of the net plugin; {}",
                       interface, level, "BPS_SOCKET_IFNAME must select it");
      network_.nics += (level == 0 ? "" : "+") + interface;
      const size_t digit = shape_.digit(args_.place.address, level);
      meshes_.push_back(BPS_TRY(net::Mesh::createListening(
          args_.plugin, *device, net::MeshShape{digit, shape_.n(), std::vector<bool>(shape_.n(), true)})));
    }
    return {};
  }

  size_t machineOf(size_t level, size_t digit) const {
    return network_.machineAt[shape_.neighbour(args_.place.address, level, digit)];
  }

  Status exchangeHandles() {
    std::vector<Blob> handles(roster().endpoints());
    for (size_t level = 0; level < shape_.k(); ++level) {
      std::vector<Blob> ofLevel = meshes_[level].handles();
      for (size_t digit = 0; digit < shape_.n(); ++digit)
        if (machineOf(level, digit) != self()) handles[machineOf(level, digit)] = std::move(ofLevel[digit]);
    }
    std::vector<Blob> theirs = BPS_TRY(args_.control.exchange(handles, args_.deadline));
    for (size_t level = 0; level < shape_.k(); ++level) {
      std::vector<Blob> ofLevel(shape_.n());
      for (size_t digit = 0; digit < shape_.n(); ++digit)
        if (machineOf(level, digit) != self()) ofLevel[digit] = std::move(theirs[machineOf(level, digit)]);
      BPS_TRY(meshes_[level].setPeerHandles(ofLevel));
    }
    return {};
  }

  Result<bool> step() {
    bool connected = true;
    for (size_t level = 0; level < shape_.k(); ++level) {
      Result<Progress> progress = meshes_[level].step();
      if (!progress.ok()) return cannotConnect(level, progress.error().message());
      const bool done = std::move(progress).value() == Progress::kDone;
      if (!done && connected_.passed()) return cannotConnect(level, "no answer in time");
      connected = connected && done;
    }
    return connected;
  }

  Status cannotConnect(size_t level, const std::string& why) const {
    const size_t digit = meshes_[level].current();
    const size_t peer = machineOf(level, digit);
    Status failed =
        failure(Code::kRemote, "{} ({}) and {} ({}) are neighbours of level {}, but {} does not reach {} over {}: {}",
                nameOf(self()), shape_.addressText(args_.place.address), nameOf(peer),
                shape_.addressText(shape_.neighbour(args_.place.address, level, digit)), level, nameOf(self()),
                args_.place.levels[level].machines[digit].host(), args_.place.levels[level].interface, why);
    args_.control.suspect(roster().memberOf(peer, 0), failed.message());
    return failed;
  }

  BcubeNetwork takeAll() {
    for (size_t level = 0; level < shape_.k(); ++level) {
      std::vector<BcubeNeighbour>& ofLevel = network_.neighbours.emplace_back(shape_.n());
      for (size_t digit = 0; digit < shape_.n(); ++digit) {
        net::PeerConnections taken = meshes_[level].take(digit);
        ofLevel[digit] = {std::move(taken.pushOut), std::move(taken.pushIn), std::move(taken.answerOut),
                          std::move(taken.answerIn)};
      }
    }
    return std::move(network_);
  }

  const BcubeNetworkArgs& args_;
  const Bcube& shape_;
  std::vector<net::Mesh> meshes_;  // by level
  BcubeNetwork network_;
  Deadline connected_ = Deadline::never();
};

}  // namespace

Result<BcubeNetwork> connectBcube(const BcubeNetworkArgs& args) { return Connecting(args).run(); }

}  // namespace bps
