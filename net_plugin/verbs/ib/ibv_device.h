// IbvDevice: an open port of an RDMA device. It holds the device context, the protection domain and
// the registrations, and knows the limits of the device. Any thread may use an IbvDevice.
#pragma once
#include "net_plugin/verbs/ib/memory/registry.h"
#include "net_plugin/verbs/transport.h"

namespace bps::plugin::verbs {

struct ContextCloser {
  const Library* library;
  void operator()(ibv_context* context) const { library->closeDevice(context); }
};
using Context = std::unique_ptr<ibv_context, ContextCloser>;
struct DomainCloser {
  const Library* library;
  void operator()(ibv_pd* domain) const { library->deallocPd(domain); }
};
using Domain = std::unique_ptr<ibv_pd, DomainCloser>;

class IbvDevice final : public RdmaDevice {
 public:
  static Result<std::unique_ptr<IbvDevice>> open(const Library& library, const PortChoice& choice,
                                                 const VerbsOptions& options);

  Result<std::unique_ptr<Handshake>> startHandshake(UniqueFd socket, Role role, const VerbsExtension* listener,
                                                    Deadline deadline) override;

  int ptrSupport() const override { return limits_.ptrSupport; }
  const Library& library() const { return library_; }
  const VerbsOptions& options() const { return options_; }
  ibv_context* context() const { return context_.get(); }
  ibv_pd* domain() const { return domain_.get(); }
  Registry& registry() { return registry_; }

  struct Limits {
    uint16_t lid = 0;
    ibv_mtu mtu = IBV_MTU_256;
    uint64_t pieceBytes = 0;  // size limit of one work request
    uint32_t requests = 0;    // limit of the work requests in one queue
    bool write = false;       // whether to use RDMA WRITE with immediate
    int ptrSupport = 0;       // a set of the kPtr bits of abi.h
  };
  const Limits& limits() const { return limits_; }

 private:
  IbvDevice(const Library& library, const PortChoice& choice, const VerbsOptions& options, Context context,
            Domain domain, const Limits& limits);

  const Library& library_;
  VerbsOptions options_;
  Context context_;
  Domain domain_;
  Limits limits_;
  Registry registry_;
};

}  // namespace bps::plugin::verbs
