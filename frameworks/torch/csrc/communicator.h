// Communicator: the bps communicator of one process group, and the works in flight on it.
//
// The ranks of the group meet through the group's store, so bps needs no BPS_ROOT. They meet at the first all-reduce or
// at connect(), whichever is first (rendezvous.h). Two kinds of threads serve a communicator: completion_threads.h, and
// the timer thread. The timer thread ends the communicator if a work is late, and drops works that nobody waits for.
//
// Any thread may call any function. As everywhere in PyTorch, all ranks must make their calls in the same order.
#pragma once
#include <bps/bps_ext.h>

#include <chrono>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/Store.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>
#include <vector>

#include "completion_threads.h"
#include "work.h"

namespace bps_torch {

struct GroupOptions {
  c10::intrusive_ptr<c10d::Store> store;
  std::string name;  // of the process group, for errors
  int rank = 0;
  int size = 1;
  std::chrono::milliseconds timeout{0};  // of starting and of each call
};

// An all-reduce of the tensors, each on its own. The tensors are on one device.
struct AllReduce {
  c10d::OpType type;
  std::vector<at::Tensor> tensors;
  c10d::ReduceOp op;
  std::chrono::milliseconds timeout;
};

class Communicator : public std::enable_shared_from_this<Communicator> {
 public:
  static std::shared_ptr<Communicator> create(GroupOptions options);
  // Shuts down all communicators of the process that still exist. Ends works in flight.
  static void shutdownAll();

  // Starts the communicator, unless it has started. Throws if ranks or servers are missing.
  void connect();
  c10::intrusive_ptr<BpsWork> allReduce(const AllReduce& call);
  // Makes another communicator of the same ranks, for the caller to free. All ranks call it together, while no work is
  // in flight.
  bpsComm_t split();
  // Ends the works in flight and all later calls; `reason` is in their errors. Does not wait for other ranks.
  void revoke(const std::string& reason);
  // Waits for the works in flight, leaves the other ranks and ends the threads. Call it before the last reference is
  // dropped.
  void shutdown();

  int rank() const { return options_.rank; }
  uint64_t calls() const;
  void setTimeout(std::chrono::milliseconds timeout);
  std::chrono::milliseconds timeout() const;
  // bpsCommDescribe's text.
  std::string facts();
  // Throws if a function of bps has failed in this thread.
  void check(bpsResult_t result, const char* what) const;

  // For BpsWork.
  std::string describe(const BpsWork& work) const;
  std::exception_ptr errorOf(const BpsWork& work, bpsResult_t outcome) const;
  bpsResult_t asyncError() const;
  void completeLater(c10::intrusive_ptr<BpsWork> work) { completion_->add(std::move(work)); }

 private:
  explicit Communicator(GroupOptions options);
  std::string name() const;
  void requireOwnProcess() const;
  bpsComm_t connectLocked();
  void startLocked();
  std::vector<bpsRedOp_t> makeOps(const AllReduce& call);
  void issue(const AllReduce& call, cudaStream_t stream);
  void issueOnHost(const AllReduce& call, BpsWork& work);
  void issueOnDevice(const AllReduce& call, BpsWork& work);
  std::string reason() const;
  bool hasWorks() const;
  void dropSettled();
  void endIfLate();
  void runTimer();

  GroupOptions options_;
  const int pid_;  // a forked child must not touch the threads and connections of its parent

  std::mutex calls_;                   // held while a call is made, because bps allows one thread at a time
  bpsHostStream_t stream_ = nullptr;   // of the calls on host memory
  std::optional<c10::Stream> device_;  // of the calls on device memory

  // Guards the members below. The last reference to a work must not be dropped under it: with its tensors go Python
  // objects, so the thread waits for Python's lock, and a thread that has Python's lock may wait for this mutex.
  mutable std::mutex state_;
  std::condition_variable changed_;
  bpsComm_t comm_ = nullptr;  // null before the start and after the end
  uint64_t sequence_ = 0;
  bool stopping_ = false;
  std::string reason_;                                // why this process ended the communicator; "" if it did not
  std::deque<c10::intrusive_ptr<BpsWork>> inFlight_;  // in the order of the calls

  std::thread timer_;  // runs runTimer()
  const std::shared_ptr<CompletionThreads> completion_ = std::make_shared<CompletionThreads>();
};

}  // namespace bps_torch
