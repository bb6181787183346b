#include "tests/no_gpu/symbols.h"

#include <elf.h>

#include <cerrno>
#include <fstream>
#include <vector>

#include "src/base/format.h"

namespace bps::no_gpu {
namespace {

// Reads `count` objects at `offset`. Returns no objects if the file is too short.
template <class T>
std::vector<T> readAt(std::ifstream& file, uint64_t offset, uint64_t count) {
  std::vector<T> objects(count);
  file.seekg(static_cast<std::streamoff>(offset));
  file.read(reinterpret_cast<char*>(objects.data()), static_cast<std::streamsize>(count * sizeof(T)));
  if (!file) objects.clear();
  return objects;
}

}  // namespace

Status forEachFunction(const std::string& path, const std::function<void(const char*, uint64_t, uint64_t)>& use) {
  std::ifstream file(path, std::ios::binary);
  const std::vector<Elf64_Ehdr> header = readAt<Elf64_Ehdr>(file, 0, 1);
  if (header.empty()) return failure(Code::kSystem, "{}: cannot be read", path);
  const auto sections = readAt<Elf64_Shdr>(file, header[0].e_shoff, header[0].e_shnum);
  for (const Elf64_Shdr& section : sections) {
    if (section.sh_type != SHT_SYMTAB || section.sh_link >= sections.size()) continue;
    const Elf64_Shdr& texts = sections[section.sh_link];
    std::vector<char> names = readAt<char>(file, texts.sh_offset, texts.sh_size);
    if (names.empty()) break;
    names.back() = '\0';
    for (const Elf64_Sym& symbol : readAt<Elf64_Sym>(file, section.sh_offset, section.sh_size / sizeof(Elf64_Sym)))
      if (ELF64_ST_TYPE(symbol.st_info) == STT_FUNC && symbol.st_name < names.size())
        use(&names[symbol.st_name], symbol.st_value, symbol.st_size);
    return {};
  }
  return failure(Code::kSystem, "{}: stripped, has no symbol table of its own", path);
}

}  // namespace bps::no_gpu
