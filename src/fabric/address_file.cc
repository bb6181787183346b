#include "src/fabric/address_file.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <map>
#include <optional>

#include "src/base/format.h"
#include "src/base/io/fd.h"

namespace bps {
namespace {

constexpr const char* kBlanks = " \t\r";
constexpr size_t kMaxShownBytes = 80;

std::vector<std::string> fieldsOf(std::string_view line) {
  line = line.substr(0, line.find('#'));
  std::vector<std::string> fields;
  while (true) {
    const size_t begin = line.find_first_not_of(kBlanks);
    if (begin == std::string_view::npos) return fields;
    const size_t end = std::min(line.find_first_of(kBlanks, begin), line.size());
    fields.emplace_back(line.substr(begin, end - begin));
    line.remove_prefix(end);
  }
}

std::optional<Address> parseIp(const std::string& text) {
  std::array<uint8_t, sizeof(in6_addr)> ip{};
  if (::inet_pton(AF_INET, text.c_str(), ip.data()) == 1) return Address::of(std::span(ip).first<sizeof(in_addr)>(), 0);
  if (::inet_pton(AF_INET6, text.c_str(), ip.data()) == 1) return Address::of(ip, 0);
  return {};
}

// Adds the lines of a file one by one.
class Parser {
 public:
  Parser(const std::string& path, const Bcube& shape) : shape_(shape) {
    file_.path = path;
    file_.machines.resize(shape.machines());
  }

  Status add(std::string_view line) {
    ++line_;
    const std::vector<std::string> fields = fieldsOf(line);
    if (fields.empty()) return {};
    if (fields.size() != 1 + shape_.k())
      return bad(fmt::format("{} fields instead of {}: the address of a machine, and its IP addresses of the {} levels",
                             fields.size(), 1 + shape_.k(), shape_.k()));
    Result<size_t> address = shape_.parseAddress(shown(fields[0]));
    if (!address.ok()) return bad(address.error().message());
    AddressFile::Machine& machine = file_.machines[std::move(address).value()];
    if (machine.line != 0) return bad(fmt::format("machine {} is also in line {}", fields[0], machine.line));
    machine.line = line_;
    for (size_t level = 0; level < shape_.k(); ++level) machine.levels.push_back(BPS_TRY(ipOf(fields[1 + level])));
    return {};
  }

  Result<AddressFile> finish() && {
    size_t absent = 0, first = 0;
    for (size_t machine = file_.machines.size(); machine-- > 0;) {
      if (file_.machines[machine].line != 0) continue;
      ++absent;
      first = machine;
    }
    if (absent > 0)
      return failure(Code::kInvalidArgument, "{}: {} machines, but {} has {}: machine {} is missing", file_.path,
                     shape_.machines() - absent, shape_.text(), shape_.machines(), shape_.addressText(first));
    return std::move(file_);
  }

 private:
  static std::string shown(const std::string& field) { return field.substr(0, kMaxShownBytes); }
  Status bad(const std::string& why) const {
    return failure(Code::kInvalidArgument, "{}:{}: {}", file_.path, line_, why);
  }
  Result<Address> ipOf(const std::string& text) {
    const std::optional<Address> ip = parseIp(text);
    if (!ip || ip->isAny()) return bad("\"" + shown(text) + "\" is not an IP address of a machine");
    if (ip->isLoopback()) return *ip;  // for tests on one machine
    const auto [seen, fresh] = lineOf_.try_emplace(ip->host(), line_);
    if (!fresh) return bad(fmt::format("{} is also in line {}", text, seen->second));
    return *ip;
  }

  const Bcube& shape_;
  AddressFile file_;
  size_t line_ = 0;
  std::map<std::string, size_t> lineOf_;  // by IP address
};

}  // namespace

std::string AddressFile::at(size_t machine) const { return fmt::format("{}:{}", path, machines[machine].line); }

Result<AddressFile> parseAddressFile(const std::string& path, std::string_view text, const Bcube& shape) {
  Parser parser(path, shape);
  while (!text.empty()) {
    const size_t end = std::min(text.find('\n'), text.size());
    BPS_TRY(parser.add(text.substr(0, end)));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return std::move(parser).finish();
}

Result<AddressFile> readAddressFile(const std::string& path, const Bcube& shape) {
  const auto bad = [&](const std::string& why) {
    return failure(Code::kInvalidArgument, "BPS_FABRIC: addresses={}: {}", path, why);
  };
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file) return bad(std::strerror(errno));
  struct stat info {};
  if (::fstat(file.get(), &info) != 0 || !S_ISREG(info.st_mode)) return bad("not a regular file");
  std::string text;
  std::array<char, 16384> part{};
  while (true) {
    const ssize_t count = ::read(file.get(), part.data(), part.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return bad(std::strerror(errno));
    if (count == 0) break;
    text.append(part.data(), static_cast<size_t>(count));
    if (text.size() > AddressFile::kMaxBytes) return bad(fmt::format("larger than {} bytes", AddressFile::kMaxBytes));
  }
  return parseAddressFile(path, text, shape);
}

}  // namespace bps
