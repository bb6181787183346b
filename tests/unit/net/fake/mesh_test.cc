// Tests Mesh. The endpoints of a communicator (machines and servers) each have a mesh, and connect over a fake net
// plugin in memory.
#include "src/net/mesh.h"

#include <vector>

#include "tests/unit/net/fake/fake_net.h"

namespace bps::test {
namespace {

using net::Comm;
using net::Mesh;
using net::PeerConnections;

constexpr size_t kMachines = 3;
const std::vector<bool> kOwners{true, false, true, true, false};  // owners are machines 0 and 2, and server 3

class MeshTest : public testing::Test {
 protected:
  // Creates all endpoints. If reverses[e] is true, the plugin of endpoint e can reverse connections.
  void make(const std::vector<bool>& reverses) {
    for (size_t e = 0; e < kOwners.size(); ++e) {
      plugins_.push_back(std::make_unique<net::Plugin>(
          std::make_shared<FakeNet>(wire_, FakeNet::Options{.reverses = static_cast<bool>(reverses[e])})));
      meshes_.push_back(std::move(Mesh::createListening(*plugins_[e], 0, {e, kMachines, kOwners})).value());
    }
  }
  void make(bool reverses) { make(std::vector<bool>(kOwners.size(), reverses)); }
  // Returns the handles that all endpoints have made for `endpoint`.
  std::vector<Blob> handlesFor(size_t endpoint) {
    std::vector<Blob> handles;
    for (const Mesh& mesh : meshes_) handles.push_back(mesh.handles()[endpoint]);
    return handles;
  }
  void exchange() {
    for (size_t e = 0; e < meshes_.size(); ++e) ASSERT_TRUE(meshes_[e].setPeerHandles(handlesFor(e)).ok());
  }
  void stepAll(size_t except = kOwners.size()) {
    for (int turn = 0; turn < 10; ++turn)
      for (size_t e = 0; e < meshes_.size(); ++e) {
        if (e == except) continue;
        ASSERT_TRUE(meshes_[e].step().ok());
      }
  }
  static bool pushes(size_t machine, size_t owner) { return machine != owner && machine < kMachines && kOwners[owner]; }

  std::shared_ptr<FakeWire> wire_ = std::make_shared<FakeWire>();
  std::vector<std::unique_ptr<net::Plugin>> plugins_;
  std::vector<Mesh> meshes_;
};

// Expects that a byte from `sender` arrives at `receiver`.
void expectJoined(Comm* sender, Comm* receiver) {
  ASSERT_TRUE(sender != nullptr && receiver != nullptr);
  static uint8_t next = 0;
  uint8_t sent = ++next, received = 0;
  void* sendMemory = std::move(sender->registerMemory(&sent, 1)).value();
  void* receiveMemory = std::move(receiver->registerMemory(&received, 1)).value();
  const net::Request receive = std::move(receiver->irecv(&received, 1, receiveMemory)).value();
  const net::Request send = std::move(sender->isend(&sent, 1, sendMemory)).value();
  EXPECT_TRUE(std::move(receiver->test(receive)).value().done);
  EXPECT_TRUE(std::move(sender->test(send)).value().done);
  EXPECT_EQ(received, sent);
}

TEST_F(MeshTest, ConnectsEveryMachineWithEveryOwnerWhateverThePluginsCanReverse) {
  for (const std::vector<bool>& reverses : std::vector<std::vector<bool>>{
           std::vector<bool>(5, false), std::vector<bool>(5, true), {true, false, true, false, true}}) {
    meshes_.clear();
    plugins_.clear();
    make(reverses);
    exchange();
    stepAll();
    std::vector<std::vector<PeerConnections>> connections(kOwners.size());
    for (size_t e = 0; e < kOwners.size(); ++e) {
      EXPECT_TRUE(meshes_[e].connected()) << e;
      for (size_t peer = 0; peer < kOwners.size(); ++peer) connections[e].push_back(meshes_[e].take(peer));
    }
    for (size_t machine = 0; machine < kOwners.size(); ++machine)
      for (size_t owner = 0; owner < kOwners.size(); ++owner) {
        const PeerConnections &atMachine = connections[machine][owner], &atOwner = connections[owner][machine];
        if (pushes(machine, owner)) {
          expectJoined(atMachine.pushOut.get(), atOwner.pushIn.get());
          expectJoined(atOwner.answerOut.get(), atMachine.answerIn.get());
        } else {
          EXPECT_EQ(atMachine.pushOut, nullptr);
          EXPECT_EQ(atMachine.answerIn, nullptr);
        }
      }
  }
}

TEST_F(MeshTest, UsesBothDirectionsOfAConnectionOnlyIfBothPluginsCan) {
  make(true);
  exchange();
  stepAll();
  // Machines 0 and 2 are both owners, so they need two connections between them. Each of the pairs (1, 0), (1, 2), (0,
  // 3), (1, 3) and (2, 3) needs only one connection.
  EXPECT_EQ(wire_->connections.size(), 7U);
  meshes_.clear();
  plugins_.clear();
  wire_->connections.clear();
  make(false);
  exchange();
  stepAll();
  EXPECT_EQ(wire_->connections.size(), 14U);
}

TEST_F(MeshTest, NamesTheEndpointThatDoesNotConnect) {
  make(false);
  exchange();
  stepAll(2);
  for (const size_t e : {0U, 1U, 3U}) {
    EXPECT_FALSE(meshes_[e].connected());
    EXPECT_EQ(meshes_[e].current(), 2U) << "on endpoint " << e;
  }
  EXPECT_TRUE(meshes_[4].connected()) << "endpoint 4 owns nothing and needs no connection";
  stepAll();
  for (const Mesh& mesh : meshes_) EXPECT_TRUE(mesh.connected());
}

TEST_F(MeshTest, NamesTheEndpointThatRefusesTheConnection) {
  make(false);
  exchange();
  {
    const Mesh gone = std::move(meshes_[2]);  // the listeners of this mesh close
  }
  const Result<Progress> step = meshes_[0].step();
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(step.error().message(), std::string("connection refused"));
  EXPECT_EQ(meshes_[0].current(), 2U) << "an earlier endpoint is not connected either, but has not failed";
}

TEST_F(MeshTest, RefusesHandlesOfAWrongSizeNamingTheirEndpoint) {
  make(false);
  std::vector<Blob> handles = handlesFor(0);
  handles[3].pop_back();
  const Status failure = meshes_[0].setPeerHandles(handles);
  EXPECT_EQ(failure.code(), Code::kRemote);
  EXPECT_EQ(failure.message(), std::string("endpoint 3 sent 128 bytes of handles, expected 129"));
}

TEST_F(MeshTest, RefusesHandlesOfAnEndpointThatHasNoConnectionWithThisOne) {
  make(false);
  std::vector<Blob> handles = handlesFor(0);
  handles[4] = Blob(129);
  EXPECT_EQ(meshes_[0].setPeerHandles(handles).message(),
            std::string("endpoint 4 sent 129 bytes of handles, expected 0"));
}

TEST_F(MeshTest, RefusesHandlesOfAnotherNumberOfEndpoints) {
  make(false);
  std::vector<Blob> handles = handlesFor(0);
  handles.pop_back();
  EXPECT_EQ(meshes_[0].setPeerHandles(handles).message(),
            std::string("received handles of 4 endpoints, the roster has 5"));
}

TEST_F(MeshTest, ListensForNoMoreEndpointsThanItIsTold) {
  net::Plugin plugin(std::make_shared<FakeNet>(wire_, FakeNet::Options{}));
  Mesh mesh(plugin, 0, {0, kMachines, kOwners});
  EXPECT_EQ(std::move(mesh.listen(2)).value(), Progress::kPending);
  EXPECT_EQ(wire_->listening.size(), 1U) << "pushes of machine 1";
  EXPECT_EQ(std::move(mesh.listen(2)).value(), Progress::kPending);
  EXPECT_EQ(wire_->listening.size(), 4U) << "pushes and answers of machine 2, answers of server 3";
  EXPECT_EQ(std::move(mesh.listen(2)).value(), Progress::kDone);
}

TEST_F(MeshTest, ConnectsMachinesForTheExchangePathAtDistancesThatArePowersOfTwo) {
  for (size_t machines = 1; machines <= 9; ++machines)
    for (const bool reverses : {false, true}) {
      meshes_.clear();
      plugins_.clear();
      std::vector<bool> owners(machines + 1, false);
      for (size_t e = 0; e < owners.size(); ++e) {
        plugins_.push_back(
            std::make_unique<net::Plugin>(std::make_shared<FakeNet>(wire_, FakeNet::Options{.reverses = reverses})));
        meshes_.push_back(std::move(Mesh::createListening(*plugins_[e], 0, {e, machines, owners, true})).value());
      }
      exchange();
      for (int turn = 0; turn < 5; ++turn)
        for (Mesh& mesh : meshes_) ASSERT_TRUE(mesh.step().ok());
      std::vector<std::vector<PeerConnections>> connections(owners.size());
      for (size_t e = 0; e < owners.size(); ++e) {
        EXPECT_TRUE(meshes_[e].connected());
        for (size_t peer = 0; peer < owners.size(); ++peer) connections[e].push_back(meshes_[e].take(peer));
      }
      for (size_t from = 0; from < owners.size(); ++from)
        for (size_t to = 0; to < owners.size(); ++to) {
          bool expected = false;
          for (size_t distance = 1; distance < machines; distance *= 2)
            expected = expected || (from < machines && to < machines && (to + distance) % machines == from);
          Comm *out = connections[from][to].exchangeOut.get(), *in = connections[to][from].exchangeIn.get();
          EXPECT_EQ(out != nullptr, expected) << from << " to " << to << " of " << machines;
          EXPECT_EQ(in != nullptr, expected);
          if (expected) expectJoined(out, in);
        }
    }
}

TEST_F(MeshTest, StepsTheEndpointsInTurn) {
  make(false);
  exchange();
  for (int turn = 0; turn < 20; ++turn)
    for (Mesh& mesh : meshes_) ASSERT_TRUE(mesh.step(1).ok());
  for (const Mesh& mesh : meshes_) EXPECT_TRUE(mesh.connected());
}

}  // namespace
}  // namespace bps::test
