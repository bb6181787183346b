#include "perf/workload/model/safetensors.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>

#include "cpu_reduce/reduce.h"
#include "src/base/format.h"
#include "src/base/io/wire_io.h"

namespace bps::perf {
namespace {

using Json = nlohmann::json;

constexpr const char* kMetadata = "__metadata__";

struct FormatType {
  std::string_view name;
  bpsDataType_t type;
};
constexpr std::array<FormatType, bpsNumTypes> kTypes = {{{"F64", bpsFloat64},
                                                         {"F32", bpsFloat32},
                                                         {"F16", bpsFloat16},
                                                         {"BF16", bpsBfloat16},
                                                         {"I64", bpsInt64},
                                                         {"I32", bpsInt32},
                                                         {"I8", bpsInt8},
                                                         {"U8", bpsUint8},
                                                         {"U64", bpsUint64},
                                                         {"U32", bpsUint32},
                                                         {"F8_E4M3", bpsFloat8e4m3},
                                                         {"F8_E5M2", bpsFloat8e5m2}}};

template <class... Args>
Status bad(fmt::format_string<Args...> text, Args&&... args) {
  return failure(Code::kInvalidArgument, text, std::forward<Args>(args)...);
}

uint64_t elementSize(bpsDataType_t type) { return elementBytes(static_cast<DataType>(type)); }

// Parses the whole header as JSON. The parsed value keeps only one of several equal keys, so equal
// keys are detected while parsing.
Result<Json> parseJson(std::string_view header) {
  std::vector<std::set<std::string>> keys;  // the keys of each object that is still open
  std::string twice;
  bool tooDeep = false;
  auto look = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end && !keys.empty()) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    tooDeep = tooDeep || depth > 3;
    return true;
  };
  if (header.empty() || header.front() != '{') return bad("the header does not begin with '{{'");
  Json json = Json::parse(header.begin(), header.end(), look, /*allow_exceptions=*/false);
  if (json.is_discarded()) return bad("the header is not valid JSON");
  if (!twice.empty() || tooDeep)
    return twice.empty() ? bad("the header is nested too deep") : bad("\"{}\" is there twice", twice);
  return json;
}

Status checkMetadata(const Json& metadata) {
  if (!metadata.is_object()) return bad("{} is not an object", kMetadata);
  for (const auto& entry : metadata.items()) {
    if (!entry.value().is_string()) return bad("{}: \"{}\" is not a string", kMetadata, entry.key());
  }
  return {};
}

Result<std::vector<uint64_t>> numbers(const Json& entry, const char* key) {
  const auto found = entry.find(key);
  if (found == entry.end()) return bad("has no {}", key);
  if (!found->is_array()) return bad("{} is not an array", key);
  std::vector<uint64_t> values;
  for (const Json& number : *found) {
    if (!number.is_number_unsigned()) return bad("{} holds something else than whole numbers from 0 to 2^64 - 1", key);
    values.push_back(number.get<uint64_t>());
  }
  return values;
}

Result<bpsDataType_t> typeOf(const Json& entry) {
  const auto found = entry.find("dtype");
  if (found == entry.end()) return bad("has no dtype");
  if (!found->is_string()) return bad("dtype is not a string");
  const std::string& name = found->get_ref<const std::string&>();
  for (const FormatType& known : kTypes) {
    if (name == known.name) return known.type;
  }
  return bad("dtype \"{}\" cannot be all-reduced", name);
}

Result<uint64_t> sizeOf(const TensorInfo& tensor) {
  uint64_t bytes = elementSize(tensor.type);
  for (uint64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bytes, extent, &bytes)) return bad("its size is more than 64 bits can hold");
  }
  return bytes;
}

Result<TensorInfo> parseTensor(const std::string& name, const Json& entry, uint64_t dataBytes) {
  if (!entry.is_object()) return bad("is not an object");
  TensorInfo tensor;
  tensor.name = name;
  tensor.type = BPS_TRY(typeOf(entry));
  tensor.shape = BPS_TRY(numbers(entry, "shape"));
  const std::vector<uint64_t> offsets = BPS_TRY(numbers(entry, "data_offsets"));
  if (entry.size() != 3) return bad("has other keys than dtype, shape and data_offsets");
  if (offsets.size() != 2) return bad("data_offsets holds {} numbers and not 2", offsets.size());
  tensor.begin = offsets[0];
  tensor.end = offsets[1];
  if (tensor.begin > tensor.end) return bad("its data ends at {}, before it begins at {}", tensor.end, tensor.begin);
  if (tensor.end > dataBytes) return bad("its data ends at {} of {} bytes", tensor.end, dataBytes);
  const uint64_t size = BPS_TRY(sizeOf(tensor));
  if (tensor.bytes() != size) return bad("shape and dtype make {} bytes, data_offsets {}", size, tensor.bytes());
  if (tensor.begin % elementSize(tensor.type) != 0) {
    return bad("its data begins at {}, no multiple of {}", tensor.begin, elementSize(tensor.type));
  }
  return tensor;
}

// Checks that the data has no holes and no overlaps and ends with the file.
Status checkCover(const std::vector<TensorInfo>& tensors, uint64_t dataBytes) {
  uint64_t end = 0;
  for (const TensorInfo& tensor : tensors) {
    if (tensor.begin < end) return bad("tensor \"{}\": its data overlaps the one before", tensor.name);
    if (tensor.begin > end)
      return bad("tensor \"{}\": there is a hole of {} bytes before it", tensor.name, tensor.begin - end);
    end = tensor.end;
  }
  if (end != dataBytes) return bad("the last {} bytes belong to no tensor", dataBytes - end);
  return {};
}

}  // namespace

std::string_view formatName(bpsDataType_t type) {
  const auto known = std::find_if(kTypes.begin(), kTypes.end(), [&](const FormatType& t) { return t.type == type; });
  return known == kTypes.end() ? "?" : known->name;
}

Result<uint64_t> headerLength(std::span<const uint8_t, kLengthBytes> start, uint64_t fileBytes) {
  const auto length = WireReader(start).get<uint64_t>();
  if (fileBytes < kLengthBytes) return bad("has {} bytes, which is no header", fileBytes);
  if (length > fileBytes - kLengthBytes) {
    return bad("the header is said to have {} bytes, the file has {}", length, fileBytes);
  }
  if (length > kMaxHeaderBytes) return bad("the header has {} bytes, more than {}", length, kMaxHeaderBytes);
  return length;
}

Result<std::vector<TensorInfo>> parseHeader(std::string_view header, uint64_t dataBytes) {
  const Json json = BPS_TRY(parseJson(header));
  std::vector<TensorInfo> tensors;
  for (const auto& entry : json.items()) {
    if (entry.key() == kMetadata) {
      BPS_TRY(checkMetadata(entry.value()));
      continue;
    }
    Result<TensorInfo> tensor = parseTensor(entry.key(), entry.value(), dataBytes);
    if (!tensor.ok()) return std::move(tensor).status().within(fmt::format("tensor \"{}\"", entry.key()));
    tensors.push_back(std::move(tensor).value());
  }
  std::sort(tensors.begin(), tensors.end(), [](const TensorInfo& a, const TensorInfo& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  BPS_TRY(checkCover(tensors, dataBytes));
  return tensors;
}

std::string makeHeader(std::vector<TensorInfo>& tensors) {
  Json json = Json::object();
  uint64_t end = 0;
  for (TensorInfo& tensor : tensors) {
    tensor.begin = end;
    tensor.end = end = tensor.begin + sizeOf(tensor).value();
    json[tensor.name] = {
        {"dtype", formatName(tensor.type)}, {"shape", tensor.shape}, {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  text.resize((text.size() + 7) / 8 * 8, ' ');
  WireWriter length;
  length.put(uint64_t{text.size()});
  return std::string(length.bytes().begin(), length.bytes().end()) + text;
}

}  // namespace bps::perf
