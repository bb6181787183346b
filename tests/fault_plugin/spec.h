// Spec: which faults to inject, and how often; from FAULT_PLUGIN_SPEC.
//
//   item[:key=value[,key=value...]][;item...]          "delay:p=0.1,us=500;busy:p=0.2;disconnect:bytes=1M"
//
//   delay:p,us             a completion is withheld for up to `us` microseconds. As those of one connection come in
//                          order, later ones of it wait too, while other connections' overtake.
//   busy:p                 isend or irecv takes nothing now: a null request
//   slow:p,polls           a connect or accept takes `polls` more calls
//   refuse:first           the first connections of the process are refused
//   disconnect:bytes,requests,oneside  after so much, counted over the process, the connection that reached it breaks
//                          for ever; oneside=1: only this end notices. Once.
//   error:p                test fails, and so does the connection from then on; its other end does not notice
//   fail:init,listen,connect,accept,regmr,isend,irecv,test  the n-th such call of the process fails, once
//   corrupt:at,most        one bit of the at-th received message of at most `most` bytes is turned over
//   short:at,least,most    of the at-th received message of so many bytes only a part comes
//   lose:at                the at-th received message of the process never comes, nor does anything behind it on its
//                          connection; no call fails: two who cannot reach each other, over a transport that says
//                          nothing
//   nowait                 no way to sleep until there is something to do: the caller must poll
//   deaf                   nobody hears that the other end has closed: what waits, waits for ever, as with transports
//                          without connections; implies nowait
//   gpu:claims,takes,reaches  no fault: claims=1, the devices take memory of the double of CUDA too, and are called
//   nic0;
//                          what arrives there is seen after its flush only. takes=0: registering such memory fails;
//                          reaches=0: so does the first flush
//   only:rank              faults in the process with this BPS_RANK alone; -1: in those that have none (servers)
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

// Counts and chances as they are written; 0: never.
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

// Fails naming the item, its value and what would be right.
Result<Spec> parseSpec(std::string_view text);

}  // namespace bps::fault
