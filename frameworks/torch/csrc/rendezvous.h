// Rendezvous: the ranks of a process group meet in its store and agree on the id of a bps communicator.
#pragma once
#include <bps/bps.h>

#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace bps_torch {

struct Rendezvous {
  c10d::Store& store;  // only one rendezvous uses it
  int rank;
  int size;
  std::string name;                   // of this rank, for errors
  std::chrono::milliseconds timeout;  // until all ranks must have arrived
  // Returns why this rank gives up, or "". Any thread may change the answer.
  std::function<std::string()> givenUp;

  // Waits for all ranks. bps itself waits only BPS_TIMEOUT for them, but a rank may load its data for minutes before
  // its first call. Rank 0 then puts bps's id into the store, or the reason why there is none. Throws a
  // DistBackendError.
  bpsUniqueId meet() const;

 private:
  void waitForKey(const std::string& key) const;
};

}  // namespace bps_torch
