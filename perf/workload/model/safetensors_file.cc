#include <filesystem>
#include <fstream>

#include "perf/workload/model/safetensors.h"
#include "src/base/format.h"

namespace bps::perf {
namespace {

Result<TensorFile> readFrom(std::ifstream& stream, uint64_t fileBytes) {
  auto read = [&](void* target, uint64_t bytes) {
    return static_cast<bool>(stream.read(static_cast<char*>(target), static_cast<std::streamsize>(bytes)));
  };
  const Status torn(Code::kSystem, "cannot be read, or has become shorter");
  std::array<uint8_t, kLengthBytes> start{};
  if (fileBytes >= kLengthBytes && !read(start.data(), start.size())) return torn.clone();
  const uint64_t length = BPS_TRY(headerLength(start, fileBytes));
  std::string header(length, '\0');
  if (!read(header.data(), length)) return torn.clone();
  TensorFile file;
  file.dataBytes = fileBytes - kLengthBytes - length;
  file.tensors = BPS_TRY(parseHeader(header, file.dataBytes));
  file.data = std::make_unique_for_overwrite<uint8_t[]>(file.dataBytes);
  if (!read(file.data.get(), file.dataBytes)) return torn.clone();
  return file;
}

}  // namespace

Result<TensorFile> readTensors(const std::string& path) {
  std::error_code error;
  const uint64_t fileBytes = std::filesystem::file_size(path, error);
  if (error) return Status(Code::kSystem, path + ": " + error.message());
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return systemFailure(path, errno);
  Result<TensorFile> file = readFrom(stream, fileBytes);
  if (!file.ok()) return std::move(file).status().within(path);
  return file;
}

Status writeTensors(const std::string& path, std::vector<TensorInfo> tensors, std::span<const uint8_t> data) {
  std::ofstream stream(path, std::ios::binary | std::ios::trunc);
  if (!stream) return systemFailure(path, errno);
  const std::string header = makeHeader(tensors);
  stream.write(header.data(), static_cast<std::streamsize>(header.size()));
  stream.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  stream.close();
  if (!stream) return systemFailure(path + ": cannot be written", errno);
  return {};
}

}  // namespace bps::perf
