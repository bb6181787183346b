#include "topo/synthetic.h"

#include "src/base/env.h"
#include "src/base/format.h"
#include "topo/rates.h"

namespace bps {
namespace {

constexpr size_t kMaxTextChars = 4096;
constexpr double kMostCount = 1024, kMaxGigabytesPerSecond = 1e5, kMaxCores = 1024;
// No machine has this PCI domain: Linux numbers domains from 0, and those of Intel VMD from 0x10000.
constexpr uint32_t kSyntheticDomain = 0xffff0000;
constexpr double kDefaultPcie = 13.1, kDefaultNicGbps = 100;

struct MachineDefaults {
  double pci = kDefaultPcie, nvlink = 0, peer = 0, interconnect = 0, memory = 0, cores = 8;
};

class SyntheticReader {
 public:
  explicit SyntheticReader(std::string_view text) : text_(text) {}

  Result<TopologyBuilder> read() {
    if (text_.size() > kMaxTextChars) return failure(Code::kInvalidArgument, "more than {} characters", kMaxTextChars);
    BPS_TRY(readSettings());
    while (skipSpaces(), at_ < end_) BPS_TRY(readCpu());
    if (cpus_ == 0) return invalid("expected cpu");
    return std::move(builder_);
  }

 private:
  Status invalid(const std::string& why) const {
    return failure(Code::kInvalidArgument, "at \"{}\": {}", text_.substr(at_, 20), why);
  }
  void skipSpaces() {
    while (at_ < end_ && text_[at_] == ' ') ++at_;
  }
  bool take(std::string_view word) {
    if (text_.substr(at_, word.size()) != word) return false;
    at_ += word.size();
    return true;
  }

  // Settings come last in the text but apply to all devices, so this function reads the settings
  // before the devices.
  Status readSettings() {
    end_ = text_.find('=');
    if (end_ == std::string_view::npos) {
      end_ = text_.size();
      return {};
    }
    const size_t start = text_.rfind(' ', end_);
    end_ = start == std::string_view::npos ? 0 : start;
    const size_t devices = end_;
    at_ = devices;
    for (end_ = text_.size(); skipSpaces(), at_ < end_;) BPS_TRY(readSetting());
    at_ = 0;
    end_ = devices;
    return {};
  }

  Status readSetting() {
    struct Name {
      const char* word;
      double MachineDefaults::*value;
      double most;
    };
    static constexpr Name kNames[] = {{"pci=", &MachineDefaults::pci, kMaxGigabytesPerSecond},
                                      {"nvlink=", &MachineDefaults::nvlink, kMaxGigabytesPerSecond},
                                      {"peer=", &MachineDefaults::peer, kMaxGigabytesPerSecond},
                                      {"interconnect=", &MachineDefaults::interconnect, kMaxGigabytesPerSecond},
                                      {"memory=", &MachineDefaults::memory, kMaxGigabytesPerSecond},
                                      {"cores=", &MachineDefaults::cores, kMaxCores}};
    for (const Name& name : kNames) {
      if (!take(name.word)) continue;
      settings_.*name.value = BPS_TRY(readNumber(name.most));
      return {};
    }
    return invalid("expected pci=, nvlink=, peer=, interconnect=, memory= or cores=");
  }

  Result<double> readNumber(double most) {
    const size_t end = text_.find_first_not_of("0123456789.", at_);
    auto parsed = parseNumber(text_.substr(at_, end == std::string_view::npos ? end : end - at_));
    if (!parsed.ok()) return invalid("expected a number");
    const double value = std::move(parsed).value();
    if (value <= 0 || value > most) return invalid(fmt::format("expected a number above 0, at most {:g}", most));
    at_ = end == std::string_view::npos ? text_.size() : end;
    return value;
  }
  Result<size_t> readCount() {
    if (!take("*")) return size_t{1};
    const double count = BPS_TRY(readNumber(kMostCount));
    if (count != static_cast<double>(static_cast<size_t>(count))) return invalid("expected a whole number before this");
    return static_cast<size_t>(count);
  }

  // Reads the text in brackets again for each copy of the CPU. The builder's limits stop the loop
  // if there are too many devices.
  Status readCpu() {
    if (!take("cpu")) return invalid("expected cpu or a setting");
    const size_t start = at_;
    size_t count = 1;
    for (size_t made = 0; made < count; ++made) {
      at_ = start;
      const NodeId cpu = BPS_TRY(addCpu());
      if (take("[")) BPS_TRY(readDevices(cpu));
      count = BPS_TRY(readCount());
    }
    return {};
  }

  Result<NodeId> addCpu() {
    Node node{.kind = NodeKind::kNuma, .parent = kRoot};
    const auto cores = static_cast<unsigned>(settings_.cores);
    node.cpu.numaId = static_cast<int>(cpus_);
    node.cpu.cpus = CpuSet::range(cpus_ * cores, cores);
    if (++cpus_ * cores > CpuSet::kMost) return invalid("too many cores");
    node.cpu.peerRate = settings_.peer * kGiga;
    node.cpu.interconnectRate = settings_.interconnect * kGiga;
    node.cpu.memoryRate = settings_.memory * kGiga;
    return add(std::move(node));
  }

  // Reads up to and including the closing bracket. The builder limits the nesting of switches,
  // which also limits this recursion.
  Status readDevices(NodeId parent) {
    while (true) {
      skipSpaces();
      if (take("]")) return {};
      if (at_ >= end_) return invalid("expected ]");
      if (take("sw[")) {
        BPS_TRY(readSwitches(parent));
      } else if (take("gpu")) {
        BPS_TRY(readGpusOrNics(parent, NodeKind::kGpu));
      } else if (take("nic")) {
        BPS_TRY(readGpusOrNics(parent, NodeKind::kNic));
      } else {
        return invalid("expected sw[, gpu, nic or ]");
      }
    }
  }

  Status readSwitches(NodeId parent) {
    const size_t start = at_;
    size_t count = 1;
    for (size_t made = 0; made < count; ++made) {
      at_ = start;
      const NodeId id = BPS_TRY(add({.kind = NodeKind::kSwitch, .parent = parent, .pcie = pcie()}));
      BPS_TRY(readDevices(id));
      count = BPS_TRY(readCount());
      if (take(":")) builder_.node(id).pcie.measured = BPS_TRY(readNumber(kMaxGigabytesPerSecond)) * kGiga;
    }
    return {};
  }

  Status readGpusOrNics(NodeId parent, NodeKind kind) {
    const size_t count = BPS_TRY(readCount());
    const bool nic = kind == NodeKind::kNic;
    double rate = nic ? kDefaultNicGbps : settings_.pci;
    if (take(":")) rate = BPS_TRY(readNumber(kMaxGigabytesPerSecond));
    for (size_t i = 0; i < count; ++i) {
      Node node{.kind = kind, .parent = parent, .pcie = pcie()};
      if (nic) node.name = fmt::format("nic{}", nics_++);
      if (nic) node.mbps = rate * 1000;
      if (!nic) node.pcie.measured = rate * kGiga;
      const NodeId id = BPS_TRY(add(std::move(node)));
      if (!nic && settings_.nvlink > 0)
        builder_.add({.gpu = id, .target = {}, .toSwitch = true, .measured = settings_.nvlink * kGiga});
    }
    return {};
  }

  // Every PCI function gets a different bus id, because the XML dump of a topology names devices by
  // bus id. The PCI domain of these ids exists on no real machine, so a real device is never
  // mistaken for a synthetic one.
  Pcie pcie() {
    const unsigned n = functions_++;
    return {.busId = fmt::format("{:08x}:{:02x}:00.0", kSyntheticDomain + (n >> 8), n & 0xff),
            .measured = settings_.pci * kGiga};
  }
  Result<NodeId> add(Node node) {
    auto added = builder_.add(std::move(node));
    if (!added.ok()) return invalid(added.error().message());
    return added;
  }

  std::string_view text_;
  size_t at_ = 0, end_ = 0;
  MachineDefaults settings_;
  TopologyBuilder builder_;
  unsigned cpus_ = 0, nics_ = 0, functions_ = 0;
};

}  // namespace

bool isSyntheticText(std::string_view text) {
  return text == "cpu" || text.substr(0, 4) == "cpu[" || text.substr(0, 4) == "cpu*" || text.substr(0, 4) == "cpu ";
}

Result<TopologyBuilder> readSynthetic(std::string_view text) { return SyntheticReader(text).read(); }

}  // namespace bps
