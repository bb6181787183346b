#include "src/interpose/group.h"

#include <algorithm>
#include <thread>

#include "src/nccl/real.h"

namespace bps::interpose {
namespace {

void note(ncclResult_t& first, ncclResult_t next) {
  if (first == ncclSuccess) first = next;
}

}  // namespace

Group& Group::ofThisThread() {
  thread_local Group group;
  return group;
}

ncclResult_t Group::start() {
  const ncclResult_t started = BPS_REAL(ncclGroupStart);
  if (started == ncclSuccess) ++depth_;
  return started;
}

ncclResult_t Group::end() {
  if (depth_ == 0 || --depth_ > 0) return BPS_REAL(ncclGroupEnd);
  const std::vector<Held> held = std::exchange(held_, {});
  const auto released = std::exchange(released_, {});
  const bool settled = std::all_of(held.begin(), held.end(), [](const Held& one) { return one.shadow->settled(); });
  ncclResult_t first = ncclSuccess;
  // Ours come first, as NCCL puts collectives before sends and receives: which of those a group holds may differ from
  // rank to rank, so it must not decide anything.
  if (settled) first = issue(held);
  note(first, BPS_REAL(ncclGroupEnd));
  // To settle, ranks talk over the communicator, which an open group would hold up.
  if (!settled) {
    note(first, settleAll(held));
    note(first, issue(held));
  }
  for (const Held& one : held) note(first, one.shadow->finishOnHost());
  for (const auto& [op, comm] : released) note(first, BPS_REAL(ncclRedOpDestroy, op, comm));
  return first;
}

ncclResult_t Group::simulateEnd(ncclSimInfo_t* info) {
  if (depth_ > 0 && --depth_ == 0) {
    held_.clear();
    for (const auto& [op, comm] : std::exchange(released_, {})) (void)BPS_REAL(ncclRedOpDestroy, op, comm);
  }
  return BPS_REAL(ncclGroupSimulateEnd, info);
}

ncclResult_t Group::settleAll(const std::vector<Held>& held) {
  std::vector<std::shared_ptr<Shadow>> open;
  for (const Held& one : held)
    if (!one.shadow->settled() && std::find(open.begin(), open.end(), one.shadow) == open.end())
      open.push_back(one.shadow);
  // Each by a thread of its own: another process may settle them one after the other, in any order.
  std::vector<ncclResult_t> outcomes(open.size(), ncclSuccess);
  std::vector<std::thread> others;
  for (size_t i = 1; i < open.size(); ++i) others.emplace_back([&, i] { outcomes[i] = open[i]->settle(); });
  outcomes[0] = open[0]->settle();
  for (std::thread& other : others) other.join();
  ncclResult_t first = ncclSuccess;
  for (const ncclResult_t outcome : outcomes) note(first, outcome);
  return first;
}

ncclResult_t Group::issue(const std::vector<Held>& held) {
  ncclResult_t first = ncclSuccess;
  bool passing = false;
  for (const auto& [shadow, call] : held) {
    if (shadow->serves(call)) {
      note(first, shadow->issueInGroup(call));
      continue;
    }
    if (!passing) note(first, BPS_REAL(ncclGroupStart));
    passing = true;
    shadow->countPassed(call);
    note(first, BPS_REAL(ncclAllReduce, call.send, call.recv, call.count, call.type, call.op, call.comm, call.stream));
  }
  if (passing) note(first, BPS_REAL(ncclGroupEnd));
  return first;
}

bool Group::holdBackDestroy(ncclRedOp_t op, ncclComm_t comm) {
  const bool used = std::any_of(held_.begin(), held_.end(),
                                [&](const Held& one) { return one.call.op == op && one.call.comm == comm; });
  if (used) released_.emplace_back(op, comm);
  return used;
}

}  // namespace bps::interpose
