#include "tests/unit/net_plugin/verbs/ib/soft_verbs.h"

#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>

namespace bps::plugin::verbs::soft {
namespace {

// The only FakeFabric of the process. The verbs functions use this variable, because they have no argument for it.
FakeFabric* world = nullptr;

int pollQueue(ibv_cq* cq, int most, ibv_wc* out) {
  auto& done = static_cast<Queue*>(cq)->done;
  int count = 0;
  for (; count < most && !done.empty(); ++count, done.pop_front()) out[count] = done.front();
  return count;
}

Library makeLibrary() {
  Library library;
  library.getDeviceList = [](int* count) {
    *count = 1;
    return new ibv_device* [1] { nullptr };
  };
  library.freeDeviceList = [](ibv_device** list) { delete[] list; };
  library.getDeviceName = [](ibv_device*) -> const char* { return "soft0"; };
  library.queryDevice = [](ibv_context*, ibv_device_attr* attributes) {
    attributes->max_qp_wr = 1 << 20;
    attributes->max_cqe = 1 << 22;
    return 0;
  };
  library.deallocPd = [](ibv_pd*) { return 0; };
  library.closeDevice = [](ibv_context*) { return 0; };
  library.regMr = [](ibv_pd* domain, void* data, size_t bytes, int access) {
    return world->add(domain, data, bytes, access);
  };
  library.regDmaBufMr = [](ibv_pd* domain, uint64_t, size_t bytes, uint64_t address, int fd, int access) {
    return world->addDmaBuf(domain, address, bytes, fd, access);
  };
  library.deregMr = [](ibv_mr* region) {
    world->remove(region);
    return 0;
  };
  library.createCompChannel = [](ibv_context* context) {
    return new ibv_comp_channel{context, ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK), 0};
  };
  library.destroyCompChannel = [](ibv_comp_channel* channel) {
    ::close(channel->fd);
    delete channel;
    return 0;
  };
  library.createCq = [](ibv_context* context, int, void*, ibv_comp_channel* channel, int) -> ibv_cq* {
    auto* queue = new Queue;
    queue->context = context;
    queue->channel = channel;
    return queue;
  };
  library.destroyCq = [](ibv_cq* queue) {
    delete static_cast<Queue*>(queue);
    return 0;
  };
  library.getCqEvent = [](ibv_comp_channel*, ibv_cq**, void**) { return -1; };
  library.ackCqEvents = [](ibv_cq*, unsigned) {};
  library.createQp = [](ibv_pd* domain, ibv_qp_init_attr* attributes) -> ibv_qp* {
    return world->makePair(domain, *attributes);
  };
  library.destroyQp = [](ibv_qp* pair) {
    world->drop(static_cast<Pair*>(pair));
    return 0;
  };
  library.modifyQp = [](ibv_qp* pair, ibv_qp_attr* attributes, int mask) {
    if ((mask & IBV_QP_DEST_QPN) != 0) static_cast<Pair*>(pair)->peer = attributes->dest_qp_num;
    return 0;
  };
  library.wcStatusStr = [](ibv_wc_status) { return "transport retry counter exceeded"; };
  return library;
}

}  // namespace

FakeFabric::FakeFabric(uint64_t pieceBytes) : library_(makeLibrary()), pieceBytes_(pieceBytes) {
  world = this;
  device_.transport_type = IBV_TRANSPORT_IB;
  context_.device = &device_;
  context_.ops.poll_cq = pollQueue;
  context_.ops.req_notify_cq = [](ibv_cq*, int) { return 0; };
  context_.ops.post_send = [](ibv_qp* pair, ibv_send_wr* request, ibv_send_wr**) {
    return world->send(*static_cast<Pair*>(pair), *request);
  };
  context_.ops.post_recv = [](ibv_qp* pair, ibv_recv_wr* request, ibv_recv_wr**) {
    return world->receive(*static_cast<Pair*>(pair), *request);
  };
  static ibv_context* context;
  static ibv_pd* domain;
  static uint64_t piece;
  context = &context_, domain = &domain_, piece = pieceBytes;
  library_.openDevice = [](ibv_device*) { return context; };
  library_.allocPd = [](ibv_context*) { return domain; };
  library_.queryPort = [](ibv_context*, uint8_t, ibv_port_attr* port) {
    port->max_msg_sz = static_cast<uint32_t>(piece);
    port->active_mtu = IBV_MTU_1024;
    return 0;
  };
}

FakeFabric::~FakeFabric() { world = nullptr; }

std::unique_ptr<IbvDevice> FakeFabric::open(const VerbsOptions& options) {
  PortChoice choice;
  choice.port.device = "soft0";
  choice.port.link = LinkLayer::kEthernet;
  choice.gid.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 10, 0, 0, 1};
  choice.port.gids = {choice.gid};
  Result<std::unique_ptr<IbvDevice>> opened = IbvDevice::open(library_, choice, options);
  return opened.ok() ? std::move(opened).value() : nullptr;
}

GpuMemory::GpuMemory(size_t bytes) : bytes_(bytes) {
  const int file = ::memfd_create("gpu", MFD_CLOEXEC);
  if (file < 0 || ::ftruncate(file, static_cast<off_t>(bytes)) != 0) std::abort();
  inaccessible_ = static_cast<uint8_t*>(::mmap(nullptr, bytes, PROT_NONE, MAP_SHARED, file, 0));
  live_ = static_cast<uint8_t*>(::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0));
  if (inaccessible_ == MAP_FAILED || live_ == MAP_FAILED) std::abort();
  ::close(file);
}

GpuMemory::~GpuMemory() {
  ::munmap(inaccessible_, bytes_);
  ::munmap(live_, bytes_);
}

ibv_mr* FakeFabric::add(ibv_pd* domain, void* data, size_t bytes, int access) {
  const uint32_t key = nextKey_++;
  const ibv_mr region{&context_, domain, data, bytes, 0, key, key};
  return regions_.emplace(key, std::make_unique<Region>(Region{region, access})).first->second.get();
}

ibv_mr* FakeFabric::addDmaBuf(ibv_pd* domain, uint64_t address, size_t bytes, int fd, int access) {
  errno = !takesDmaBufs_ ? EOPNOTSUPP : fd != kDmaBuf ? EBADF : 0;
  return errno != 0 ? nullptr : add(domain, reinterpret_cast<void*>(address), bytes, access);
}

// Returns the address at which this process can access the bytes that the device sees at `address`.
uint8_t* FakeFabric::reach(uint64_t address) const {
  auto* data = reinterpret_cast<uint8_t*>(address);
  const bool onGpu = gpu_ != nullptr && data >= gpu_->data() && data < gpu_->data() + gpu_->size();
  return onGpu ? gpu_->live() + (data - gpu_->data()) : data;
}

// Returns the bytes that the request sends. The CPU itself reads inline data, which must therefore not be in GPU
// memory.
std::vector<uint8_t> FakeFabric::bytesOf(const ibv_send_wr& request) const {
  if (request.num_sge == 0) return {};
  const bool byCpu = (request.send_flags & IBV_SEND_INLINE) != 0;
  const auto* data = byCpu ? reinterpret_cast<const uint8_t*>(request.sg_list->addr) : reach(request.sg_list->addr);
  return {data, data + request.sg_list->length};
}

void FakeFabric::remove(ibv_mr* region) { regions_.erase(region->lkey); }

Pair* FakeFabric::makePair(ibv_pd* domain, const ibv_qp_init_attr& attributes) {
  auto pair = std::make_unique<Pair>();
  pair->context = &context_;
  pair->pd = domain;
  pair->send_cq = pair->recv_cq = attributes.send_cq;
  pair->qp_num = nextNumber_++;
  return pairs_.emplace(pair->qp_num, std::move(pair)).first->second.get();
}

void FakeFabric::drop(Pair* pair) { pairs_.erase(pair->qp_num); }

void FakeFabric::complete(Pair& pair, ibv_wc completion) {
  static_cast<Queue*>(pair.send_cq)->done.push_back(completion);
}

void FakeFabric::fail(uint32_t number) {
  ibv_wc completion{};
  completion.status = IBV_WC_RETRY_EXC_ERR;
  complete(*pairs_.at(number), completion);
}

bool FakeFabric::may(int access, uint64_t address, size_t bytes, uint32_t key) const {
  const auto found = regions_.find(key);
  if (found == regions_.end() || (found->second->access & access) == 0) return false;
  const auto begin = reinterpret_cast<uintptr_t>(found->second->addr);
  return address >= begin && bytes <= found->second->length && address - begin <= found->second->length - bytes;
}

// Delivers a message from `from` to its peer. Returns false if the peer has posted no receive for the message.
bool FakeFabric::deliver(Pair& from, const Waiting& message) {
  const auto found = pairs_.find(from.peer);
  const bool writes = message.request.opcode != IBV_WR_SEND;
  ibv_wc sent{};
  sent.wr_id = message.request.wr_id;
  if (found == pairs_.end()) {
    sent.status = IBV_WC_RETRY_EXC_ERR;
    complete(from, sent);
    return true;
  }
  Pair& to = *found->second;
  if (message.request.opcode != IBV_WR_RDMA_WRITE && to.receives.empty()) return false;
  if (writes && !message.bytes.empty()) {
    const auto& target = message.request.wr.rdma;
    if (may(IBV_ACCESS_REMOTE_WRITE, target.remote_addr, message.bytes.size(), target.rkey))
      std::memcpy(reach(target.remote_addr), message.bytes.data(), message.bytes.size());
    else sent.status = IBV_WC_REM_ACCESS_ERR;
  }
  if (message.request.opcode != IBV_WR_RDMA_WRITE && sent.status == IBV_WC_SUCCESS) {
    const Receive receive = to.receives.front();
    to.receives.pop_front();
    ibv_wc received{};
    received.wr_id = receive.id;
    received.byte_len = static_cast<uint32_t>(message.bytes.size());
    received.opcode = writes ? IBV_WC_RECV_RDMA_WITH_IMM : IBV_WC_RECV;
    received.imm_data = message.request.imm_data;
    if (!writes && message.bytes.size() > receive.place.length) received.status = IBV_WC_LOC_LEN_ERR;
    else if (!writes && !message.bytes.empty())
      std::memcpy(reach(receive.place.addr), message.bytes.data(), message.bytes.size());
    complete(to, received);
  }
  if (acknowledges_ || sent.status != IBV_WC_SUCCESS) complete(from, sent);
  return true;
}

// Reads local memory, as the plugin does to flush. Returns true if the queue pair is connected to itself and may access
// the memory.
bool FakeFabric::readBack(Pair& from, const ibv_send_wr& request) {
  const auto& source = request.wr.rdma;
  ++flushes_;
  return from.peer == from.qp_num &&
         may(IBV_ACCESS_REMOTE_READ, source.remote_addr, request.sg_list->length, source.rkey);
}

int FakeFabric::send(Pair& from, const ibv_send_wr& request) {
  if (request.opcode == IBV_WR_RDMA_READ) {
    ibv_wc completion{};
    completion.wr_id = request.wr_id;
    completion.status = readBack(from, request) ? IBV_WC_SUCCESS : IBV_WC_REM_ACCESS_ERR;
    complete(from, completion);
    return 0;
  }
  Waiting message{request, bytesOf(request)};
  if (message.bytes.size() > pieceBytes_) return EINVAL;
  if (from.waiting.empty() && deliver(from, message)) return 0;
  ++receiverNotReadyCount_;
  from.waiting.push_back(std::move(message));
  return 0;
}

int FakeFabric::receive(Pair& pair, const ibv_recv_wr& request) {
  pair.receives.push_back({request.wr_id, request.num_sge > 0 ? *request.sg_list : ibv_sge{}});
  for (auto& [number, from] : pairs_)
    while (from->peer == pair.qp_num && !from->waiting.empty() && deliver(*from, from->waiting.front()))
      from->waiting.pop_front();
  return 0;
}

}  // namespace bps::plugin::verbs::soft
