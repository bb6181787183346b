// FakeFabric: simulated RDMA devices in the memory of this process, in place of libibverbs. A queue pair delivers a
// message at once, on the thread that posts the send. Delays and failures occur only if a test asks for them.
#pragma once
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "net_plugin/verbs/ib/ibv_device.h"

namespace bps::plugin::verbs::soft {

struct Receive {
  uint64_t id = 0;
  ibv_sge place{};
};
// A copy of a request whose message waits for a posted receive.
struct Waiting {
  ibv_send_wr request{};
  std::vector<uint8_t> bytes;
};
struct Queue : ibv_cq {
  std::deque<ibv_wc> done;
};
struct Pair : ibv_qp {
  uint32_t peer = 0;
  std::deque<Receive> receives;
  std::deque<Waiting> waiting;
};

// Memory that devices can access and the CPU cannot. A CPU access through data() ends the process.
class GpuMemory {
 public:
  explicit GpuMemory(size_t bytes);
  GpuMemory(const GpuMemory&) = delete;
  GpuMemory& operator=(const GpuMemory&) = delete;
  ~GpuMemory();

  uint8_t* data() const { return inaccessible_; }  // the address that devices use
  uint8_t* live() const { return live_; }          // the address through which a test accesses the bytes
  size_t size() const { return bytes_; }

 private:
  size_t bytes_;
  uint8_t *inaccessible_ = nullptr, *live_ = nullptr;
};

class FakeFabric {
 public:
  explicit FakeFabric(uint64_t pieceBytes);
  FakeFabric(const FakeFabric&) = delete;
  FakeFabric& operator=(const FakeFabric&) = delete;
  ~FakeFabric();

  std::unique_ptr<IbvDevice> open(const VerbsOptions& options);
  const Library& library() const { return library_; }

  // Returns the number of messages that arrived before their receive was posted. A real device would answer such a
  // message with "receiver not ready".
  size_t receiverNotReadyCount() const { return receiverNotReadyCount_; }
  size_t registrations() const { return regions_.size(); }
  size_t queuePairs() const { return pairs_.size(); }
  // The descriptor of a dma-buf with GPU memory, which devices accept after takeDmaBufs().
  static constexpr int kDmaBuf = 1000;
  void takeDmaBufs() { takesDmaBufs_ = true; }
  // Makes this GPU memory accessible to the devices.
  void attach(const GpuMemory& memory) { gpu_ = &memory; }
  size_t flushes() const { return flushes_; }
  // After this call, senders receive no acknowledgements.
  void withholdAcknowledgements() { acknowledges_ = false; }
  // Makes the next completion of queue pair `number` a failure, as if acknowledgements were missing.
  void fail(uint32_t number);

  int send(Pair& from, const ibv_send_wr& request);
  int receive(Pair& pair, const ibv_recv_wr& request);
  ibv_mr* add(ibv_pd* domain, void* data, size_t bytes, int access);
  ibv_mr* addDmaBuf(ibv_pd* domain, uint64_t address, size_t bytes, int fd, int access);
  void remove(ibv_mr* region);
  Pair* makePair(ibv_pd* domain, const ibv_qp_init_attr& attributes);
  void drop(Pair* pair);

 private:
  bool deliver(Pair& from, const Waiting& message);
  struct Region : ibv_mr {
    int access = 0;
  };
  bool may(int access, uint64_t address, size_t bytes, uint32_t key) const;
  uint8_t* reach(uint64_t address) const;
  std::vector<uint8_t> bytesOf(const ibv_send_wr& request) const;
  bool readBack(Pair& from, const ibv_send_wr& request);
  static void complete(Pair& pair, ibv_wc completion);

  ibv_device device_{};
  ibv_context context_{};
  ibv_pd domain_{};
  Library library_;
  uint64_t pieceBytes_;
  std::map<uint32_t, std::unique_ptr<Pair>> pairs_;
  std::map<uint32_t, std::unique_ptr<Region>> regions_;
  uint32_t nextNumber_ = 1, nextKey_ = 1;
  size_t receiverNotReadyCount_ = 0;
  bool acknowledges_ = true, takesDmaBufs_ = false;
  const GpuMemory* gpu_ = nullptr;
  size_t flushes_ = 0;
};

}  // namespace bps::plugin::verbs::soft
