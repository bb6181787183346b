// EchoService: sends back what other ranks send, so that they can test the way to this rank. It listens on the ports
// that data connections of bps would use: on every interface, with a port of BPS_PORT_RANGE.
//
// A connection must begin with the token of this run. A connection has a buffer of fixed size and a deadline, and the
// number of connections is limited. The service runs on a thread of its own, which the destructor joins.
#pragma once
#include <array>
#include <atomic>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include "src/base/io/fd.h"
#include "tools/bps_doctor/facts.h"

namespace bps::doctor {

constexpr size_t kTokenBytes = 16;
using Token = std::array<uint8_t, kTokenBytes>;

class EchoService {
 public:
  // Listens on each NIC of `facts` and writes the ports into `facts`. A NIC on which the service cannot listen keeps
  // port 0; if BPS_SOCKET_IFNAME selects this NIC, `facts` gets the reason. NICs with only a link-local address are
  // left out, because such an address has a meaning on one link only.
  static Result<std::unique_ptr<EchoService>> start(Facts& facts, const Env& env, const Token& token);
  EchoService(const EchoService&) = delete;
  EchoService& operator=(const EchoService&) = delete;
  ~EchoService();

 private:
  EchoService(std::vector<UniqueFd> listeners, Doorbell bell, const Token& token);
  void run() const;

  std::vector<UniqueFd> listeners_;
  Doorbell bell_;
  Token token_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace bps::doctor
