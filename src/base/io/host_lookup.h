// HostLookup: an asynchronous lookup of one host name. The caller polls ended() or calls wait(),
// and then takes the result. One thread at a time uses a HostLookup.
//
// The C library cannot cancel a lookup that has started, and the destructor does not wait for the
// lookup. The memory that the C library's thread writes stays allocated until the lookup ends.
#pragma once
#include <memory>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/io/address.h"
#include "src/base/status.h"

namespace bps {

struct LookupRequest;

class HostLookup {
 public:
  explicit HostLookup(const HostPort& where);
  HostLookup(const HostLookup&) = delete;
  HostLookup& operator=(const HostLookup&) = delete;
  ~HostLookup();

  bool ended() const;
  // Returns when the lookup has ended or the deadline has passed.
  void wait(Deadline deadline) const;
  // Returns the addresses. Call take() only once. Fails if the host is unknown or the lookup has
  // not ended; the error names the host.
  Result<std::vector<Address>> take();

 private:
  std::unique_ptr<LookupRequest> request_;
};

// Looks up a host name and waits until the deadline. A failure names the host.
Result<std::vector<Address>> resolve(const HostPort& where, Deadline deadline);

}  // namespace bps
