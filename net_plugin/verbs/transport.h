// The interface of the RDMA verbs transport to the rest of the plugin. The interface consists of
// devices and of the handshake that establishes a connection over an existing socket. ib/
// implements the interface. without/ replaces ib/ if the verbs headers are missing at build time.
//
// The socket of the handshake stays open as the connection's liveness socket, because RDMA detects
// the death of a peer late or never.
#pragma once
#include <memory>
#include <vector>

#include "net_plugin/comm.h"
#include "net_plugin/verbs/port_selection.h"
#include "net_plugin/verbs/wire.h"
#include "src/base/deadline.h"
#include "src/base/io/fd.h"

namespace bps::plugin::verbs {

struct VerbsOptions {  // the values of the environment variables
  std::string hca;
  std::string hcaVariable = "BPS_IB_HCA";  // name of the variable that set hca, for messages
  int gidIndex = -1;
  int timeout = 20, retries = 7;
  int trafficClass = 0, serviceLevel = 0;
  bool write = true;          // use RDMA WRITE if both ends support it, otherwise SEND
  std::string peerMemModule;  // the module for GPU memory (peer_memory.h), or empty
};

// An open port of an RDMA device. Any thread may call its functions.
class RdmaDevice {
 public:
  RdmaDevice(const Port& port, const Gid& gid) : port_(port), gid_(gid) {}
  RdmaDevice(const RdmaDevice&) = delete;
  RdmaDevice& operator=(const RdmaDevice&) = delete;
  virtual ~RdmaDevice() = default;

  const Port& port() const { return port_; }
  const Gid& gid() const { return gid_; }
  VerbsExtension verbsExtension() const { return {port_.link, gid_.bytes}; }
  // Returns the kinds of memory that connections of this device support, as a set of the kPtr bits
  // of abi.h.
  virtual int ptrSupport() const = 0;

  // The handshake of one end of a connection. A Handshake is used by one thread at a time.
  class Handshake {
   public:
    Handshake() = default;
    Handshake(const Handshake&) = delete;
    Handshake& operator=(const Handshake&) = delete;
    virtual ~Handshake() = default;
    // Returns null until the connection is established. Never blocks. Fails at the deadline.
    virtual Result<std::unique_ptr<Comm>> step() = 0;
  };
  enum class Role { kSender, kReceiver };
  // For a sender, `listener` is the verbs extension in the handle of the peer. For a receiver,
  // `listener` is null.
  virtual Result<std::unique_ptr<Handshake>> startHandshake(UniqueFd socket, Role role, const VerbsExtension* listener,
                                                            Deadline deadline) = 0;

 private:
  Port port_;
  Gid gid_;
};

// Opens the usable devices. Logs the reason why each other device is not usable. Fails only for
// invalid options.
Result<std::vector<std::unique_ptr<RdmaDevice>>> openDevices(const VerbsOptions& options);

}  // namespace bps::plugin::verbs
