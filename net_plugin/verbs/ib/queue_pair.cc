#include "net_plugin/verbs/ib/queue_pair.h"

#include <fcntl.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>

#include "src/base/format.h"

namespace bps::plugin::verbs {
namespace {

constexpr uint32_t kRequestedInlineBytes = 64;
// The code of the receiver-not-ready timer, where 12 means 0.64 ms. The default code 0 means 655
// ms, which would stall a connection. Receives are posted before they are granted, so a device
// answers "receiver not ready" only if it is busy. Retries are unlimited, because the liveness
// socket shows when the peer is gone.
constexpr uint8_t kReceiverNotReadyTimer = 12;
constexpr uint8_t kRetryForever = 7;
constexpr uint32_t kMax24Bits = (1U << 24) - 1;
constexpr uint8_t kMaxHops = 255;

}  // namespace

Result<std::unique_ptr<QueuePair>> QueuePair::create(IbvDevice& device, const Gid& gid, const Depths& depths) {
  if (std::max(depths.sends, depths.receives) > device.limits().requests)
    return failure(Code::kSystem, "queues of {} requests are needed, the device supports {}",
                   std::max(depths.sends, depths.receives), device.limits().requests);
  std::unique_ptr<QueuePair> made(new QueuePair(device, gid, depths));
  BPS_TRY(made->open());
  return made;
}

Status QueuePair::open() {
  const Library& verbs = device_.library();
  if (::getrandom(&startPsn_, sizeof startPsn_, 0) != static_cast<ssize_t>(sizeof startPsn_))
    return systemFailure("getrandom", errno);
  startPsn_ &= kMax24Bits;
  channel_ = verbs.createCompChannel(device_.context());
  if (channel_ == nullptr) return systemFailure("ibv_create_comp_channel", errno);
  if (::fcntl(channel_->fd, F_SETFL, ::fcntl(channel_->fd, F_GETFL) | O_NONBLOCK) != 0)
    return systemFailure("fcntl of a completion channel", errno);
  const auto entries = static_cast<int>(depths_.sends + depths_.receives);
  cq_ = verbs.createCq(device_.context(), entries, nullptr, channel_, 0);
  if (cq_ == nullptr) return systemFailure(fmt::format("ibv_create_cq of {} entries", entries), errno);
  ibv_qp_init_attr attributes{};
  attributes.send_cq = attributes.recv_cq = cq_;
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap = {.max_send_wr = depths_.sends,
                    .max_recv_wr = depths_.receives,
                    .max_send_sge = 1,
                    .max_recv_sge = 1,
                    .max_inline_data = kRequestedInlineBytes};
  qp_ = verbs.createQp(device_.domain(), &attributes);
  if (qp_ == nullptr) {
    attributes.cap.max_inline_data = 0;
    qp_ = verbs.createQp(device_.domain(), &attributes);
  }
  if (qp_ == nullptr) return systemFailure("ibv_create_qp (RLIMIT_MEMLOCK, or too many connections?)", errno);
  inlineBytes_ = attributes.cap.max_inline_data;
  return {};
}

QueuePair::~QueuePair() {
  const Library& verbs = device_.library();
  if (qp_ != nullptr) verbs.destroyQp(qp_);
  if (cq_ != nullptr) verbs.destroyCq(cq_);
  if (channel_ != nullptr) verbs.destroyCompChannel(channel_);
}

QueuePairInfo QueuePair::info() const {
  const IbvDevice::Limits& limits = device_.limits();
  return {.link = device_.port().link,
          .mtu = static_cast<uint8_t>(limits.mtu),
          .write = limits.write,
          .lid = limits.lid,
          .queuePair = qp_->qp_num,
          .startPsn = startPsn_,
          .pieceBytes = limits.pieceBytes,
          .gid = gid_.bytes};
}

Status QueuePair::modify(ibv_qp_attr& attributes, int mask, const char* what) {
  if (const int error = device_.library().modifyQp(qp_, &attributes, mask)) return systemFailure(what, error);
  return {};
}

// InfiniBand needs the global route header only between subnets. Ethernet always needs this header.
ibv_ah_attr QueuePair::addressVector(const QueuePairInfo& peer) const {
  ibv_ah_attr path{};
  path.port_num = static_cast<uint8_t>(device_.port().number);
  path.sl = static_cast<uint8_t>(device_.options().serviceLevel);
  path.dlid = peer.lid;
  const bool sameSubnet = std::equal(peer.gid.begin(), peer.gid.begin() + 8, gid_.bytes.begin());
  if (peer.link == LinkLayer::kEthernet || !sameSubnet) {
    path.is_global = 1;
    std::copy(peer.gid.begin(), peer.gid.end(), path.grh.dgid.raw);
    path.grh.sgid_index = static_cast<uint8_t>(gid_.index);
    path.grh.hop_limit = kMaxHops;
    path.grh.traffic_class = static_cast<uint8_t>(device_.options().trafficClass);
  }
  return path;
}

Status QueuePair::connect(const QueuePairInfo& peer, unsigned access) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = static_cast<uint8_t>(device_.port().number);
  attributes.qp_access_flags = access;
  BPS_TRY(modify(attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS,
                 "ibv_modify_qp to INIT"));
  return moveToReady(peer);
}

Status QueuePair::moveToReady(const QueuePairInfo& peer) {
  ibv_qp_attr receiving{};
  receiving.qp_state = IBV_QPS_RTR;
  receiving.path_mtu = static_cast<ibv_mtu>(std::min<int>(peer.mtu, device_.limits().mtu));
  receiving.dest_qp_num = peer.queuePair;
  receiving.rq_psn = peer.startPsn;
  receiving.max_dest_rd_atomic = 1;
  receiving.min_rnr_timer = kReceiverNotReadyTimer;
  receiving.ah_attr = addressVector(peer);
  BPS_TRY(modify(receiving,
                 IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                     IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER,
                 "ibv_modify_qp to RTR (is there a route between the two GIDs?)"));
  ibv_qp_attr sending{};
  sending.qp_state = IBV_QPS_RTS;
  sending.timeout = static_cast<uint8_t>(device_.options().timeout);
  sending.retry_cnt = static_cast<uint8_t>(device_.options().retries);
  sending.rnr_retry = kRetryForever;
  sending.sq_psn = startPsn_;
  sending.max_rd_atomic = 1;
  return modify(
      sending,
      IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN | IBV_QP_MAX_QP_RD_ATOMIC,
      "ibv_modify_qp to RTS");
}

Status QueuePair::send(ibv_send_wr& request) {
  ibv_send_wr* rejected = nullptr;
  if (const int error = ibv_post_send(qp_, &request, &rejected)) return systemFailure("ibv_post_send", error);
  return {};
}

Status QueuePair::receive(uint64_t id, const ibv_sge& place) {
  ibv_sge piece = place;
  ibv_recv_wr request{};
  request.wr_id = id;
  request.sg_list = &piece;
  request.num_sge = place.length > 0 ? 1 : 0;
  ibv_recv_wr* rejected = nullptr;
  if (const int error = ibv_post_recv(qp_, &request, &rejected)) return systemFailure("ibv_post_recv", error);
  return {};
}

Result<std::span<const ibv_wc>> QueuePair::poll() {
  if (!failure_.ok()) return failure_.clone();
  const int count = ibv_poll_cq(cq_, static_cast<int>(batch_.size()), batch_.data());
  if (count < 0) return Status(Code::kSystem, "ibv_poll_cq failed");
  if (count > 0) armed_ = false;
  const std::span<const ibv_wc> batch = std::span(batch_).first(static_cast<size_t>(count));
  const auto failed =
      std::find_if(batch.begin(), batch.end(), [](const ibv_wc& each) { return each.status != IBV_WC_SUCCESS; });
  if (failed == batch.end()) return batch;
  failure_ = failure(Code::kRemote, "{} (status {}, vendor error {:#x})", device_.library().wcStatusStr(failed->status),
                     static_cast<int>(failed->status), failed->vendor_err);
  if (failed == batch.begin()) return failure_.clone();
  return batch.first(static_cast<size_t>(failed - batch.begin()));
}

Result<bool> QueuePair::arm() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  while (device_.library().getCqEvent(channel_, &queue, &context) == 0) {
    device_.library().ackCqEvents(queue, 1);
    armed_ = false;
  }
  if (armed_) return false;
  if (const int error = ibv_req_notify_cq(cq_, 0)) return systemFailure("ibv_req_notify_cq", error);
  armed_ = true;
  return true;
}

}  // namespace bps::plugin::verbs
