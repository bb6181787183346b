// Fuzzes the parser of the BPS_ environment variables. The input has a NAME=VALUE pair on each line. The parser must
// refuse the input or return values within the documented bounds.
#include <algorithm>
#include <cstdlib>
#include <map>
#include <string>

#include "src/base/env.h"

namespace {

std::map<std::string, std::string>& settings() {
  static std::map<std::string, std::string> instance;
  return instance;
}

const char* lookup(const char* name) {
  const auto found = settings().find(name);
  return found == settings().end() ? nullptr : found->second.c_str();
}

void require(bool holds) {
  if (!holds) std::abort();
}

void fill(std::string_view text) {
  settings().clear();
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const size_t equals = line.find('=');
    if (equals != std::string_view::npos) settings()[std::string(line.substr(0, equals))] = line.substr(equals + 1);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  fill({reinterpret_cast<const char*>(data), size});
  auto parsed = bps::parseEnv(lookup);
  if (!parsed.ok()) {
    require(parsed.error().message()[0] != '\0');
    return 0;
  }
  const bps::Env env = std::move(parsed).value();
  require(env.partitionBytes.value >= 4096 && env.partitionBytes.value <= uint64_t{1} << 30);
  require(env.timeout.value >= 0.5 && env.timeout.value <= 86400);
  require(env.rails >= 0 && env.rails <= 64);
  require(!bps::envText(lookup, nullptr).text.empty());
  return 0;
}
