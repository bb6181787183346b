// SoftVerbs: RDMA devices played in this process's memory, in the place of libibverbs: queue pairs that send to each
// other at once, in the thread that posts. What real devices do late, or only when they break, a test asks for.
#pragma once
#include <array>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <vector>

#include "net_plugin/verbs/ib/device.h"

namespace bps::plugin::verbs::soft {

struct Receive {
  uint64_t id = 0;
  ibv_sge place{};
};
// A request whose message has found no receive yet; what it sends is copied.
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

class World {
 public:
  explicit World(uint64_t pieceBytes);
  World(const World&) = delete;
  World& operator=(const World&) = delete;
  ~World();

  std::unique_ptr<OpenDevice> open(const Settings& settings);
  const Library& library() const { return library_; }

  // Messages that found no receive when they came: a device would have had to ask for patience.
  size_t notReady() const { return notReady_; }
  size_t registrations() const { return regions_.size(); }
  size_t queuePairs() const { return pairs_.size(); }
  // From now on senders are not told that their messages arrived, until complain().
  void keepAcknowledgements() { acknowledges_ = false; }
  // The pair's next completion is a failure, as after answers that never came.
  void fail(uint32_t number);

  int send(Pair& from, const ibv_send_wr& request);
  int receive(Pair& pair, const ibv_recv_wr& request);
  ibv_mr* add(ibv_pd* domain, void* data, size_t bytes);
  void remove(ibv_mr* region);
  Pair* makePair(ibv_pd* domain, const ibv_qp_init_attr& attributes);
  void drop(Pair* pair);

 private:
  bool deliver(Pair& from, const Waiting& message);
  bool mayWrite(uint64_t address, size_t bytes, uint32_t key) const;
  static void complete(Pair& pair, ibv_wc completion);

  ibv_device device_{};
  ibv_context context_{};
  ibv_pd domain_{};
  Library library_;
  uint64_t pieceBytes_;
  std::map<uint32_t, std::unique_ptr<Pair>> pairs_;
  std::map<uint32_t, std::unique_ptr<ibv_mr>> regions_;
  uint32_t nextNumber_ = 1, nextKey_ = 1;
  size_t notReady_ = 0;
  bool acknowledges_ = true;
};

}  // namespace bps::plugin::verbs::soft
