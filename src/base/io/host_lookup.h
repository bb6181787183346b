// HostLookup: looks up the addresses of a host name, with a deadline. One thread at a time uses it.
#pragma once
#include <memory>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/address.h"
#include "src/base/status.h"

namespace bps {

struct LookupRequest;

// Looks one host name up beside its caller, which asks now and then whether it has ended. The C library's name service
// cannot be interrupted: a look-up that is given up goes on in a thread of the C library, and what that writes to stays
// until it has ended, so giving up never waits.
class HostLookup {
 public:
  explicit HostLookup(const HostPort& where);
  HostLookup(const HostLookup&) = delete;
  HostLookup& operator=(const HostLookup&) = delete;
  ~HostLookup();

  bool ended() const;
  // Until it has ended or the deadline passes.
  void wait(Deadline deadline) const;
  // The addresses, once. Fails naming the host; before the end it says that the name service does not answer.
  Result<std::vector<Address>> take();

 private:
  std::unique_ptr<LookupRequest> request_;
};

// Looks a name up, ending at the deadline. Fails naming the host.
Result<std::vector<Address>> resolve(const HostPort& where, Deadline deadline);

}  // namespace bps
