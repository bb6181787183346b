// Spec: which faults to inject and how often, from FAULT_PLUGIN_SPEC.
//
//   item[:key=value[,key=value...]][;item...]          "delay:p=0.1,us=500;busy:p=0.2;disconnect:bytes=1M"
//
//   delay:p,us             withholds a completion for up to `us` microseconds. Completions of one connection stay in
//                          order, so its later ones wait too; those of other connections overtake.
//   busy:p                 isend or irecv returns a null request now
//   slow:p,polls           a connect or accept takes `polls` more calls
//   refuse:first           the first connections of the process are refused
//   disconnect:bytes,requests,oneside  after so many bytes or requests of the process, the connection that reaches the
//                          number breaks permanently, once; oneside=1: only this end sees it
//   error:p                test fails, and so does the connection from then on; its other end does not see it
//   fail:init,listen,connect,accept,regmr,isend,irecv,test  the n-th such call of the process fails, once
//   corrupt:at,most        flips one bit of the at-th received message of at most `most` bytes
//   short:at,least,most    the at-th received message of `least` to `most` bytes arrives in part only
//   lose:at                the at-th received message of the process never arrives, nor does any later message of its
//                          connection; no call fails, as if the network dropped packets without an error
//   nowait                 there is no way to sleep until a connection is ready: the caller must poll
//   deaf                   a close by the other end is not seen, as with connectionless transports; requests in flight
//                          wait forever; implies nowait
//   gpu:claims,takes,reaches  not a fault: claims=1: the devices, called nic0, accept memory of the fake CUDA driver,
// and
//                          received bytes are visible only after a flush. takes=0: registering such memory fails;
//                          reaches=0: the first flush fails
//   only:rank              injects faults only in the process with this BPS_RANK; -1: in processes without one
// (servers)
#pragma once
#include <array>
#include <cstddef>
#include <string_view>

#include "src/base/status.h"

namespace bps::fault {

enum class Call : size_t { kInit, kListen, kConnect, kAccept, kRegMr, kIsend, kIrecv, kTest };
inline constexpr size_t kCalls = 8;
inline constexpr std::array<std::string_view, kCalls> kCallNames{"init",  "listen", "connect", "accept",
                                                                 "regmr", "isend",  "irecv",   "test"};
inline constexpr double kAnyRank = -2;

// The numbers and probabilities of the spec; 0: never.
struct Spec {
  double delayChance = 0, delayMicroseconds = 500;
  double busyChance = 0;
  double slowChance = 0, slowPolls = 50;
  double refuseFirst = 0;
  double disconnectBytes = 0, disconnectRequests = 0, disconnectOneSide = 0;
  double errorChance = 0;
  double failInit = 0, failListen = 0, failConnect = 0, failAccept = 0;
  double failRegMr = 0, failIsend = 0, failIrecv = 0, failTest = 0;
  double corruptAt = 0, corruptMost = 64;
  double shortAt = 0, shortLeast = 1, shortMost = 1e15;
  double loseAt = 0;
  double noWait = 0, hangupHidden = 0;
  double gpuClaims = 0, gpuTakes = 0, gpuReaches = 1;
  double onlyRank = kAnyRank;

  double failAt(Call call) const;
};

// An error names the item, its value and the accepted values.
Result<Spec> parseSpec(std::string_view text);

}  // namespace bps::fault
