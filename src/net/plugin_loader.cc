// Searches for the file of a net plugin. See Plugin::load().
#include <dlfcn.h>
#include <link.h>
#include <unistd.h>

#include <array>
#include <climits>
#include <string_view>
#include <vector>

#include "src/base/format.h"
#include "src/base/log.h"
#include "src/base/mutex.h"
#include "src/net/plugin_adapter.h"

namespace bps::net {
namespace {

constexpr std::string_view kBpsPluginFile = "libnccl-net-bps.so";

std::string programPath() {
  std::array<char, PATH_MAX> path{};
  const ssize_t length = ::readlink("/proc/self/exe", path.data(), path.size() - 1);
  return length > 0 ? std::string(path.data(), static_cast<size_t>(length)) : std::string();
}

// Returns the directory of libbps.so, or the directory of the program if bps is linked statically.
std::string libraryDirectory() {
  Dl_info info{};
  link_map* map = nullptr;
  std::string path;
  const bool found = ::dladdr1(reinterpret_cast<const void*>(&programPath), &info, reinterpret_cast<void**>(&map),
                               RTLD_DL_LINKMAP) != 0;
  if (found && map != nullptr) path = map->l_name;
  if (path.empty()) path = programPath();
  const size_t slash = path.rfind('/');
  return slash == std::string::npos ? "." : path.substr(0, slash);
}

bool looksLikeFile(std::string_view name) {
  return name.find('/') != std::string_view::npos ||
         (name.substr(0, 3) == "lib" && name.size() > 6 && name.substr(name.size() - 3) == ".so");
}

void addBpsPluginPaths(std::vector<std::string>& files) {
  const std::string directory = libraryDirectory();
  files.push_back(fmt::format("{}/{}", directory, kBpsPluginFile));
  files.push_back(fmt::format("{}/../lib/{}", directory, kBpsPluginFile));
  files.emplace_back(kBpsPluginFile);
}

// Returns the files to try for each name in the list `names`. As in NCCL, a name is a file name or the NAME in
// libnccl-net-NAME.so. If a name is "none", bps uses its own plugin.
std::vector<std::vector<std::string>> candidates(std::string_view names) {
  std::vector<std::vector<std::string>> all;
  while (!names.empty()) {
    const size_t comma = names.find(',');
    const std::string name(names.substr(0, comma));
    names = comma == std::string_view::npos ? std::string_view() : names.substr(comma + 1);
    if (name.empty()) continue;
    std::vector<std::string>& files = all.emplace_back();
    if (name == "bps" || name == "none") addBpsPluginPaths(files);
    else if (looksLikeFile(name)) files.push_back(name);
    else files = {fmt::format("libnccl-net-{}.so", name), name};
  }
  if (all.empty()) addBpsPluginPaths(all.emplace_back());
  return all;
}

Result<std::shared_ptr<PluginAdapter>> tryFile(const std::string& file, uint64_t commId) {
  void* library = ::dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    const char* why = ::dlerror();
    return failure(Code::kSystem, "{}", why != nullptr ? why : "dlopen failed");
  }
  link_map* map = nullptr;
  const bool known = ::dlinfo(library, RTLD_DI_LINKMAP, &map) == 0 && map != nullptr && *map->l_name != '\0';
  std::shared_ptr<PluginAdapter> adapter = BPS_TRY(createPluginAdapter(library, known ? map->l_name : file));
  BPS_TRY(adapter->init(commId));
  return adapter;
}

}  // namespace

Result<std::shared_ptr<PluginAdapter>> loadPluginAdapter(const std::string& name, uint64_t commId) {
  static Mutex loadMutex;  // before version 11, a plugin's init affects the whole process
  const MutexLock lock(loadMutex);
  std::string reasons, earlierReasons;
  for (const std::vector<std::string>& files : candidates(name)) {
    for (const std::string& file : files) {
      Result<std::shared_ptr<PluginAdapter>> adapter = tryFile(file, commId);
      if (adapter.ok() && !earlierReasons.empty())
        logWarn(Subsystem::kNet, "using net plugin {}; tried before it: {}", file, earlierReasons);
      if (adapter.ok()) return adapter;
      reasons += fmt::format("{}{}: {}", reasons.empty() ? "" : "; ", file, adapter.error().message());
    }
    earlierReasons = reasons;
  }
  return failure(Code::kSystem, "found no usable net plugin{}{}; tried: {}",
                 name.empty() ? "" : " for BPS_NET_PLUGIN=", name, reasons);
}

}  // namespace bps::net
