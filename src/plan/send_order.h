// Turns: who begins with whom, so that no NIC has to take from all machines at the same time. Pure.
//
// Think of a round of a call, a chunk for every owner, as a circle on which each owner has an arc as long as its
// share. The machines go round it side by side, spread evenly: machine m of n begins m/n of the way round. So an owner
// hears from the machines one after the other, highest machine number first, at the rate at which its NIC can receive.
// It answers them in the same order, so the machines also continue in the order in which they began.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace bps {

// All owners, in the order in which a machine sends to them. Owners without a weight, if any, are among them.
std::vector<size_t> sendOrder(const std::vector<uint64_t>& weights, const std::vector<bool>& owners, size_t machine,
                              size_t machines);

// All machines, in the order in which an owner answers them: that of their chunks for it.
std::vector<size_t> answerOrder(const std::vector<uint64_t>& weights, size_t owner, size_t machines);

}  // namespace bps
