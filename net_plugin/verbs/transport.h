// What the rest of the plugin knows of RDMA verbs: devices, and connections made over a socket that is there already.
// Implemented in ib/, or, where the verbs headers are missing at build time, in without/.
//
// The socket stays beside the connection: its end tells of the peer's, which RDMA itself notices late or never.
#pragma once
#include <memory>
#include <vector>

#include "net_plugin/comm.h"
#include "net_plugin/verbs/port_selection.h"
#include "net_plugin/verbs/wire.h"
#include "src/base/deadline.h"
#include "src/base/io/fd.h"

namespace bps::plugin::verbs {

struct VerbsOptions {  // as NCCL's variables of these names
  std::string hca;
  std::string hcaVariable = "BPS_IB_HCA";  // where hca comes from, for messages
  int gidIndex = -1;
  int timeout = 20, retries = 7;
  int trafficClass = 0, serviceLevel = 0;
  bool write = true;          // where both ends can; else SEND
  std::string peerMemModule;  // the module by which devices reach GPU memory by its address; empty: there is none
};

// A port, opened.
class RdmaDevice {
 public:
  RdmaDevice(const Port& port, const Gid& gid) : port_(port), gid_(gid) {}
  RdmaDevice(const RdmaDevice&) = delete;
  RdmaDevice& operator=(const RdmaDevice&) = delete;
  virtual ~RdmaDevice() = default;

  const Port& port() const { return port_; }
  const Gid& gid() const { return gid_; }
  VerbsExtension verbsExtension() const { return {port_.link, gid_.bytes}; }
  // NCCL's bits for the kinds of memory that connections take.
  virtual int ptrSupport() const = 0;

  // One end of a connection that is being made.
  class Handshake {
   public:
    Handshake() = default;
    Handshake(const Handshake&) = delete;
    Handshake& operator=(const Handshake&) = delete;
    virtual ~Handshake() = default;
    // Null: not yet. Never blocks; ends at its deadline.
    virtual Result<std::unique_ptr<Comm>> step() = 0;
  };
  enum class Role { kSender, kReceiver };
  // `listener`: what the handle says of the other end, for the sender.
  virtual Result<std::unique_ptr<Handshake>> startHandshake(UniqueFd socket, Role role, const VerbsExtension* listener,
                                                            Deadline deadline) = 0;

 private:
  Port port_;
  Gid gid_;
};

// The usable devices; what is left out is logged, with the reason. Fails for wrong settings only.
Result<std::vector<std::unique_ptr<RdmaDevice>>> openDevices(const VerbsOptions& options);

}  // namespace bps::plugin::verbs
