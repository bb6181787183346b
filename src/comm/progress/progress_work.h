// ProgressWork: the interface through which the ProgressEngine moves the calls of one communicator on this rank. The
// engine calls every function with the progress lock held.
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
  // Makes one step without blocking and returns whether anything moved. A failure of step() ends
  // the communicator.
  virtual Result<bool> step() = 0;
  // Fails if a call waits for a rank or server that has left. Called before a thread sleeps.
  virtual Status checkStalls() = 0;
  // True if no call is pending and the transport has accepted all data that peers wait for.
  virtual bool quiescent() const = 0;
  // True if peers may need this rank while it has no call.
  virtual bool servesPeers() const { return false; }
  bool idle() const { return quiescent() && !servesPeers(); }
  // True if a stream has reached a call that has not ended yet.
  virtual bool hasCallsInFlight() const = 0;
  virtual uint64_t completed() const = 0;

  // Makes connections and local peers wake a sleeping thread. Returns false if an event has already
  // occurred; the thread must not sleep then.
  virtual bool arm() = 0;
  virtual void disarm() = 0;
  // Sleeps until a connection has an event, the doorbell rings or `maxSleep` has passed. Then finds
  // the connections that have events.
  virtual Status collectEvents(std::chrono::microseconds maxSleep) = 0;
  // Called by a polling thread before its next step. That step then tests only connections whose
  // data is needed now.
  virtual void selectNeeded() = 0;
  // maxSleep() returns how long a thread may sleep. needsPolling() is true if the work
  // waits for an event that wakes no thread.
  virtual std::chrono::microseconds maxSleep() = 0;
  virtual bool needsPolling() const = 0;
  // Returns a descriptor. After arm() has returned true, this descriptor is readable if a
  // connection has an event.
  virtual int fd() const = 0;

  // Closes the connections. Afterwards nothing accesses the buffers of the calls.
  virtual void close() = 0;
  // Called after close(). Ends all calls.
  virtual void failAll(const Status& failure) = 0;
};

}  // namespace bps
