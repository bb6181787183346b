// ExchangeMachines: the exchange paths of n machines in one process, which connect over a fake net plugin in memory.
#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

#include "src/comm/lanes/exchange_path.h"
#include "tests/unit/comm/lanes/fake_buffers.h"
#include "tests/unit/net/fake/fake_net.h"

namespace bps::test {

class ExchangeMachines {
 public:
  using Bytes = FakeBuffers::Bytes;
  struct Machine {
    FakeBuffers buffers;
    std::unique_ptr<ExchangePath> path;
    Status failure;  // the first failure of step()
  };

  // With `sumHolders`, the paths take the place of lanes to a lost server.
  explicit ExchangeMachines(size_t machines, bool checksum = false, const std::vector<size_t>& sumHolders = {})
      : machines_(machines), all_(machines) {
    const auto wire = std::make_shared<FakeWire>();
    for (size_t m = 0; m < machines; ++m) {
      plugins_.push_back(std::make_unique<net::Plugin>(std::make_shared<FakeNet>(wire, FakeNet::Options{})));
      net::MeshShape shape{m, machines, std::vector<bool>(machines, false), true};
      meshes_.push_back(std::move(net::Mesh::createListening(*plugins_[m], 0, shape)).value());
    }
    connect();
    for (size_t m = 0; m < machines; ++m) {
      ExchangeSpec spec;
      spec.machines = spec.ranks = machines;
      spec.self = m;
      spec.maxChunkBytes = 64U << 10;
      spec.checksum = checksum;
      spec.sumHolders = sumHolders;
      spec.replacesLane = !sumHolders.empty();
      spec.summed.resize(machines);
      spec.nameOf = [](size_t machine) { return "machine " + std::to_string(machine); };
      std::vector<net::PeerConnections> connections;
      for (size_t peer = 0; peer < machines; ++peer) connections.push_back(meshes_[m].take(peer));
      all_[m].path = std::move(ExchangePath::create(all_[m].buffers, std::move(spec), connections)).value();
    }
  }

  Machine& operator[](size_t machine) { return all_[machine]; }
  size_t size() const { return machines_; }

  // Adds the same call on a machine, with a contribution of its own, and does not submit it.
  Collective& add(size_t machine, size_t chunks, size_t chunkBytes, bool inPlace = false) {
    Collective& call = all_[machine].buffers.add(chunks, chunkBytes, {.inPlace = inPlace, .exchangePath = true});
    call.call.type = 1;  // uint8
    for (size_t i = 0; i < call.call.count; ++i) const_cast<uint8_t*>(call.send)[i] = valueOf(machine, i);
    return call;
  }
  static uint8_t valueOf(size_t machine, size_t i) { return static_cast<uint8_t>(machine * 3 + i); }
  // Returns the sum of the contributions of all machines to a call of `bytes` bytes.
  Bytes sum(size_t bytes) const {
    Bytes total(bytes);
    for (size_t m = 0; m < machines_; ++m)
      for (size_t i = 0; i < bytes; ++i) total[i] = static_cast<uint8_t>(total[i] + valueOf(m, i));
    return total;
  }
  static Bytes result(const Collective& call) { return Bytes(call.recv, call.recv + call.call.count); }

  void step(size_t machine) {
    Machine& m = all_[machine];
    if (m.path == nullptr || !m.failure.ok()) return;
    const Result<bool> moved = m.path->step(oldestRound);
    if (!moved.ok()) m.failure = moved.error().clone();
  }
  void stepAll(int turns = 20) {
    for (; turns > 0; --turns)
      for (size_t m = 0; m < machines_; ++m) step(m);
  }
  // Returns the failures of all machines that have failed.
  std::vector<std::string> failures() const {
    std::vector<std::string> texts;
    for (const Machine& machine : all_)
      if (!machine.failure.ok()) texts.emplace_back(machine.failure.message());
    return texts;
  }

  uint64_t oldestRound = 0;  // the argument of step()

 private:
  void connect() {
    for (size_t m = 0; m < machines_; ++m) {
      std::vector<Blob> handles;
      for (const net::Mesh& mesh : meshes_) handles.push_back(mesh.handles()[m]);
      ASSERT_TRUE(meshes_[m].setPeerHandles(handles).ok());
    }
    for (int turn = 0; turn < 5; ++turn)
      for (net::Mesh& mesh : meshes_) ASSERT_TRUE(mesh.step().ok());
  }

  const size_t machines_;
  std::vector<std::unique_ptr<net::Plugin>> plugins_;
  std::vector<net::Mesh> meshes_;
  std::vector<Machine> all_;
};

}  // namespace bps::test
