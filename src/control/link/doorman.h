// Doorman: a listener that lets nobody in who has not proved the key, and keeps strangers from costing anything.
//
// At most kMostStrangers handshakes are under way, each with a deadline; while all places are taken by young ones the
// others wait in the kernel's queue. Refused peers are told why and then given a moment to read it. Belongs to one
// thread; the owner's loop calls watch() and step().
#pragma once
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "src/base/deadline.h"
#include "src/base/socket.h"
#include "src/control/link/handshake.h"
#include "src/control/link/poll_set.h"

namespace bps {

class Doorman {
 public:
  static constexpr size_t kMostStrangers = 64;

  // `job` as AcceptingHandshake.
  Doorman(UniqueFd listener, Credentials credentials, Purpose purpose, uint64_t job);
  // Listens on `address`.
  static Result<Doorman> create(const Address& address, const Credentials& credentials, Purpose purpose, uint64_t job);

  Result<Address> address() const { return localAddress(listener_.get()); }
  void watch(PollSet& set) const;
  // Everybody who has come in.
  std::vector<Peer> step(const PollSet& set);
  // Takes an authenticated peer that the owner does not want, tells it why and closes.
  void dismiss(std::unique_ptr<ControlSocket> socket, const Refusal& refusal);
  // Takes a peer that has got its last frame, sends what is queued and closes.
  void seeOff(std::unique_ptr<ControlSocket> socket);
  // Stops listening and forgets the strangers; dismissed peers still get their words.
  void close();
  bool idle() const { return leaving_.empty(); }

 private:
  struct Stranger {
    AcceptingHandshake handshake;
    Deadline since, deadline;
    bool fresh = true;
  };
  struct Leaving {
    std::unique_ptr<ControlSocket> socket;
    Deadline deadline;
    bool said = false;
  };
  bool hasRoom() const;
  void accept(const PollSet& set);
  void admit(UniqueFd fd);
  void refused(Stranger& stranger, const Status& why);
  void sayFarewells();

  UniqueFd listener_;
  Credentials credentials_;
  Purpose purpose_;
  uint64_t job_;
  std::list<Stranger> strangers_;  // oldest first
  std::list<Leaving> leaving_;
  Deadline pause_ = Deadline::in({});  // no accept before: descriptors are short
};

}  // namespace bps
