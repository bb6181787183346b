// ProgressWork: the calls of one communicator on this rank, as the ProgressEngine sees them. The engine calls every
// function with the progress lock held.
#pragma once
#include <chrono>
#include <cstdint>
#include <memory>

#include "src/base/status.h"
#include "src/comm/call/collective.h"

namespace bps {

class ProgressWork {
 public:
  virtual ~ProgressWork() = default;

  virtual void add(std::unique_ptr<Collective> call) = 0;
  // Moves what can move; true if anything moved. Fails only with an error that ends the communicator.
  virtual Result<bool> step() = 0;
  // Fails if a call waits for a member that has left. Called before the progress thread sleeps.
  virtual Status checkStalls() = 0;
  // No call is pending, and everything that peers wait for has been handed to the transport.
  virtual bool quiescent() const = 0;
  // Some call has come to its place in its stream and has not ended.
  virtual bool hasCallsInFlight() const = 0;
  virtual uint64_t completed() const = 0;

  // Tells connections and local peers to wake the progress thread. False: something has come meanwhile, do not sleep.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  // After a sleep: finds out which connections have something.
  virtual Status collectEvents() = 0;
  // Before the next step of a thread that polls: tests only connections whose data is needed now.
  virtual void selectNeeded() = 0;
  // Something goes on whose end wakes nobody: the progress thread has to poll for it, at this interval.
  virtual std::chrono::microseconds maxSleep() = 0;
  virtual bool needsPolling() const = 0;
  // Readable if a connection has something, once arm() has returned true.
  virtual int fd() const = 0;

  // Closes the connections: afterwards nothing touches the buffers of the calls.
  virtual void close() = 0;
  // After close(): ends all calls.
  virtual void failAll(const Status& failure) = 0;
};

}  // namespace bps
