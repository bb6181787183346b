// ServerChange: lets a server join, leave or get another rate while the calls of a communicator go on. It carries out,
// on this rank, what ServerEvent (src/wire/server_messages.h) requires; the hub has one change at a time
// (src/control/servers/server_changes.h). Only the holder of the progress lock uses a ServerChange.
//
//   join:   kJoining -> listens -> kHandles -> connects -> kConnected -> ready -> kAt -> the new lane takes its place
//           -> done -> kEnd
//   leave:  kLeaving -> ready -> kAt -> the lane is idle -> done -> kEnd -> the lane ends
//   rate:   kNewRate -> ready -> kAt -> done -> kEnd
//
// A rank that is ready cuts no call until it receives kAt (call_cutter.h). So no rank has cut the call of kAt, and all
// ranks cut every call with the same servers. From this call on, a rank that joins waits until the old lane in this
// place, if there is one, is idle: chunks of a place are never on two lanes. A rank keeps its lane to a server that
// leaves until kEnd: if the server is lost before, other ranks may need the sums that the lane has kept.
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "src/comm/lanes/data_plane.h"
#include "src/comm/servers/call_cutter.h"
#include "src/control/control_plane.h"
#include "src/net/waiter.h"

namespace bps {

class ServerChange {
 public:
  // `plane` is null if this rank does not use the network. All arguments must outlive this object.
  ServerChange(ControlPlane& control, CallCutter& cutter, DataPlane* plane, net::Waiter& waiter)
      : control_(control), cutter_(cutter), plane_(plane), waiter_(waiter) {}

  // Handles any event but kLost.
  Status handle(const ServerEvent& event);
  // Call this function before the recovery from the loss of a server.
  void onLost(uint32_t server) {
    if (change_ && change_->server == server) change_->lost = true;
  }
  // Goes on with the change. `callsBegun` is the number of calls that this rank has begun. Returns whether anything
  // moved.
  Result<bool> step(uint64_t callsBegun);
  // True if this rank may begin the call with this number.
  bool mayBegin(uint64_t call) const;
  // True if step() must be called without an event.
  bool connecting() const { return change_ && change_->mesh != nullptr && change_->connects; }

 private:
  struct Change {
    explicit Change(const ServerEvent& begin)
        : what(begin.kind),
          server(begin.server),
          number(begin.change),
          bytesPerSecond(begin.bytesPerSecond),
          rateFactor(begin.rateFactor) {}
    bool joins() const { return what == ServerEvent::Kind::kJoining; }
    bool changesLane() const { return what != ServerEvent::Kind::kNewRate; }

    ServerEvent::Kind what;  // kJoining, kLeaving or kNewRate
    uint32_t server, number;
    double bytesPerSecond, rateFactor;
    std::unique_ptr<net::Mesh> mesh;  // until the connections exist
    bool connects = false, connected = false;
    Deadline deadline = Deadline::never();  // for the connections
    bool ready = false, done = false;       // this rank has replied
    bool lost = false;                      // the server is lost, so its lane is replaced (recovery.h)
    std::optional<uint64_t> firstCall;      // since kAt
  };
  size_t endpoint() const { return control_.roster().machines.size() + change_->server; }
  Status begin(const ServerEvent& event);
  Status connect(const ServerEvent& event);
  Status takeEffectAt(const ServerEvent& event);
  Status onEnd();
  void end();
  void noteConnected();
  Status becomeReady();
  void giveUp(const std::string& why);
  Result<bool> stepMesh();
  void reply(ServerReply::Kind kind, uint64_t limit = 0, Blob handles = {}, std::string text = {}) const;
  void log(const std::string& text) const;

  ControlPlane& control_;
  CallCutter& cutter_;
  DataPlane* const plane_;
  net::Waiter& waiter_;
  std::optional<Change> change_;
  Deadline nextMeshStep_ = Deadline::in({});
};

}  // namespace bps
