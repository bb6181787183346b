// Listener: waits for the one caller that was given its handle, and gives its sockets. Whoever else connects is turned
// away, without taking more than a small fixed amount of memory and time.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "net_plugin/tcp/device.h"
#include "net_plugin/tcp/wire.h"

namespace bps::plugin::tcp {

class Listener {
 public:
  static Result<std::unique_ptr<Listener>> create(const Device& device);

  HandleBytes handle() const { return encodeHandle(handle_); }
  struct Arrival {
    std::vector<UniqueFd> sockets;  // none: the caller has not come yet, or not with all its sockets
    Carrier carrier = Carrier::kStream;
  };
  // Never blocks.
  Result<Arrival> accept();

 private:
  // A socket whose hello is not complete yet.
  struct Caller {
    UniqueFd socket;
    Deadline deadline;
    HelloBytes hello{};
    size_t got = 0;
  };
  // A connection that is not complete yet: its sockets that have said their right hello, each at its index.
  struct Party {
    uint64_t connection = 0;
    Carrier carrier = Carrier::kStream;
    Deadline deadline;
    std::vector<UniqueFd> sockets;
    size_t come = 0;
  };
  static constexpr size_t kMostCallers = 2 * kMostSockets;
  static constexpr size_t kMostParties = 16;
  static constexpr size_t kMostConnections = 4096;  // of one listener; bps makes one of them, and NCCL few
  static constexpr int kMostReports = 8;

  Listener(UniqueFd socket, const HandleData& handle, Patience patience, std::string kernelsChoice)
      : socket_(std::move(socket)), handle_(handle), patience_(patience), kernelsChoice_(std::move(kernelsChoice)) {}

  static bool isComplete(const Party& party) { return party.come == party.sockets.size(); }
  Status admitCallers();
  // A hello when it is whole and right; nothing yet; or a failure, why the caller has to go.
  Result<std::optional<Hello>> hear(Caller& caller) const;
  // Hears all that have something to say, beginning with the first.
  void hearFrom(size_t first);
  Status join(const Hello& hello, UniqueFd& socket);
  // Fails if a connection of this number has begun before.
  Status checkNew(uint64_t connection);
  void turnAway(const UniqueFd& socket, const Status& why);
  Arrival completeParty();

  UniqueFd socket_;
  HandleData handle_;
  Patience patience_;
  std::string kernelsChoice_;    // of congestion control (congestion.h)
  std::vector<Caller> callers_;  // oldest first
  std::vector<Party> parties_;   // oldest first
  std::vector<uint64_t> begun_;  // numbers of all connections so far: none begins twice
  int turnedAway_ = 0;
};

}  // namespace bps::plugin::tcp
