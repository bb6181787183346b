// Tests the reader and the writer of safetensors files. The reader must reject every invalid file with an error that
// gives the file's name and the reason. Written files must read back unchanged.
#include "perf/workload/model/safetensors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <limits>

#include "src/base/io/wire_io.h"

namespace bps::perf {
namespace {

using testing::HasSubstr;

std::string reasonFor(const std::string& header, uint64_t dataBytes) {
  auto parsed = parseHeader(header, dataBytes);
  return parsed.ok() ? "accepted" : parsed.error().message();
}

std::string tensor(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"a":{"dtype":")" + dtype + R"(","shape":)" + shape + R"(,"data_offsets":)" + offsets + "}}";
}

std::string path(const std::string& name) {
  return testing::TempDir() + "bps_safetensors_" + std::to_string(::getpid()) + "_" + name;
}

void writeBytes(const std::string& file, const std::string& bytes) { std::ofstream(file, std::ios::binary) << bytes; }

std::string withLength(uint64_t length, const std::string& rest) {
  WireWriter writer;
  writer.put(length);
  return std::string(writer.bytes().begin(), writer.bytes().end()) + rest;
}

TEST(SafetensorsHeader, TensorsComeInTheOrderOfTheirData) {
  auto parsed =
      parseHeader(R"({"__metadata__":{"format":"np"},"b":{"dtype":"F32","shape":[2,3],"data_offsets":[4,28]},)"
                  R"("none":{"dtype":"F32","shape":[7,0],"data_offsets":[28,28]},)"
                  R"("scalar":{"dtype":"I32","shape":[],"data_offsets":[0,4]}}   )",
                  28);
  ASSERT_TRUE(parsed.ok()) << parsed.error().message();
  const std::vector<TensorInfo> tensors = std::move(parsed).value();
  ASSERT_EQ(tensors.size(), 3U);
  EXPECT_EQ(tensors[0].name, "scalar");
  EXPECT_EQ(tensors[0].type, bpsInt32);
  EXPECT_EQ(tensors[1].shape, (std::vector<uint64_t>{2, 3}));
  EXPECT_EQ(tensors[1].bytes(), 24U);
  EXPECT_EQ(tensors[2].bytes(), 0U);
}

TEST(SafetensorsHeader, EveryTypeOfTheLibraryHasItsName) {
  for (int i = 0; i < bpsNumTypes; ++i) {
    const auto type = static_cast<bpsDataType_t>(i);
    std::vector<TensorInfo> tensors(1);
    tensors[0].name = "a";
    tensors[0].type = type;
    tensors[0].shape = {5};
    const std::string header = makeHeader(tensors);
    EXPECT_EQ(header.size() % 8, 0U);
    auto again = parseHeader(header.substr(kLengthBytes), tensors[0].end);
    ASSERT_TRUE(again.ok()) << again.error().message();
    EXPECT_EQ(std::move(again).value()[0].type, type) << formatName(type);
  }
}

TEST(SafetensorsHeader, RejectsInvalidJson) {
  EXPECT_THAT(reasonFor("", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(reasonFor(" {}", 0), HasSubstr("does not begin with '{'"));
  EXPECT_THAT(reasonFor("{", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(reasonFor("{} x", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(reasonFor("{\"\xff\":1}", 0), HasSubstr("not valid JSON"));
  EXPECT_THAT(reasonFor(R"({"a":1})", 0), HasSubstr("\"a\": is not an object"));
  EXPECT_THAT(reasonFor(R"({"__metadata__":{"k":1}})", 0), HasSubstr("\"k\" is not a string"));
  EXPECT_THAT(reasonFor(R"({"__metadata__":[]})", 0), HasSubstr("not an object"));
  EXPECT_EQ(reasonFor("{}", 0), "accepted");
}

TEST(SafetensorsHeader, RejectsDeepNesting) {
  const std::string deep = R"({"a":)" + std::string(100'000, '[') + std::string(100'000, ']') + "}";
  EXPECT_THAT(reasonFor(deep, 0), HasSubstr("too deep"));
}

TEST(SafetensorsHeader, RejectsDuplicateNamesAndKeys) {
  const std::string one = R"("a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]})";
  EXPECT_THAT(reasonFor("{" + one + "," + one + "}", 1), HasSubstr("\"a\" is there twice"));
  EXPECT_THAT(reasonFor(R"({"a":{"dtype":"U8","dtype":"U8","shape":[1],"data_offsets":[0,1]}})", 1),
              HasSubstr("\"dtype\" is there twice"));
}

TEST(SafetensorsHeader, RejectsWrongKeys) {
  EXPECT_THAT(reasonFor(R"({"a":{"shape":[1],"data_offsets":[0,1]}})", 1), HasSubstr("\"a\": has no dtype"));
  EXPECT_THAT(reasonFor(R"({"a":{"dtype":"U8","data_offsets":[0,1]}})", 1), HasSubstr("has no shape"));
  EXPECT_THAT(reasonFor(R"({"a":{"dtype":"U8","shape":[1]}})", 1), HasSubstr("has no data_offsets"));
  EXPECT_THAT(reasonFor(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1],"x":0}})", 1), HasSubstr("other keys"));
  EXPECT_THAT(reasonFor(R"({"a":{"dtype":7,"shape":[1],"data_offsets":[0,1]}})", 1), HasSubstr("not a string"));
  for (const char* dtype : {"BOOL", "I16", "C64", "f32", ""}) {
    EXPECT_THAT(reasonFor(tensor(dtype, "[1]", "[0,1]"), 1), HasSubstr("cannot be all-reduced")) << dtype;
  }
}

TEST(SafetensorsHeader, RejectsWrongShapesAndOffsets) {
  for (const char* number : {"-1", "1.0", "1e2", "\"1\"", "null", "18446744073709551616"}) {
    EXPECT_THAT(reasonFor(tensor("U8", "[" + std::string(number) + "]", "[0,1]"), 1), HasSubstr("whole numbers"))
        << number;
    EXPECT_THAT(reasonFor(tensor("U8", "[1]", "[0," + std::string(number) + "]"), 1), HasSubstr("whole numbers"))
        << number;
  }
  EXPECT_THAT(reasonFor(tensor("U8", "1", "[0,1]"), 1), HasSubstr("shape is not an array"));
  EXPECT_THAT(reasonFor(tensor("U8", "[1]", "[0]"), 1), HasSubstr("holds 1 numbers"));
  EXPECT_THAT(reasonFor(tensor("U8", "[1]", "[1,0]"), 1), HasSubstr("before it begins"));
  EXPECT_THAT(reasonFor(tensor("U8", "[2]", "[0,2]"), 1), HasSubstr("ends at 2 of 1 bytes"));
  EXPECT_THAT(reasonFor(tensor("F32", "[2]", "[0,7]"), 7), HasSubstr("make 8 bytes, data_offsets 7"));
  EXPECT_THAT(reasonFor(tensor("F32", "[4294967296,4294967296]", "[0,0]"), 0), HasSubstr("more than 64 bits"));
  EXPECT_THAT(reasonFor(tensor("F64", "[2305843009213693952]", "[0,0]"), 0), HasSubstr("more than 64 bits"));
}

TEST(SafetensorsHeader, DataBeginsAtAMultipleOfTheElement) {
  EXPECT_THAT(reasonFor(R"({"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},)"
                        R"("b":{"dtype":"F16","shape":[1],"data_offsets":[1,3]}})",
                        3),
              HasSubstr("\"b\": its data begins at 1, no multiple of 2"));
}

TEST(SafetensorsHeader, RejectsHolesOverlapsAndTrailingBytes) {
  auto two = [](const std::string& first, const std::string& second) {
    return R"({"a":{"dtype":"U8","shape":[4],"data_offsets":)" + first +
           R"(},"b":{"dtype":"U8","shape":[4],"data_offsets":)" + second + "}}";
  };
  EXPECT_EQ(reasonFor(two("[0,4]", "[4,8]"), 8), "accepted");
  EXPECT_THAT(reasonFor(two("[0,4]", "[3,7]"), 8), HasSubstr("\"b\": its data overlaps"));
  EXPECT_THAT(reasonFor(two("[0,4]", "[0,4]"), 4), HasSubstr("overlaps"));
  EXPECT_THAT(reasonFor(two("[0,4]", "[5,9]"), 9), HasSubstr("a hole of 1 bytes"));
  EXPECT_THAT(reasonFor(two("[1,5]", "[5,9]"), 9), HasSubstr("\"a\": there is a hole"));
  EXPECT_THAT(reasonFor(two("[0,4]", "[4,8]"), 10), HasSubstr("last 2 bytes"));
  EXPECT_THAT(reasonFor("{}", 1), HasSubstr("last 1 bytes"));
}

TEST(SafetensorsFile, RejectsHostileLengths) {
  const std::string file = path("hostile");
  for (const std::string& bytes : {std::string(), std::string("1234567"), withLength(3, "{}"),
                                   withLength(std::numeric_limits<uint64_t>::max(), "{}"),
                                   withLength(uint64_t{1} << 63, "{}"), withLength(0, "")}) {
    writeBytes(file, bytes);
    auto read = readTensors(file);
    ASSERT_FALSE(read.ok());
    EXPECT_THAT(read.error().message(), HasSubstr(file + ": "));
    EXPECT_THAT(read.error().message(), HasSubstr("header"));
  }
  std::array<uint8_t, kLengthBytes> large{0, 0, 0, 0, 1};
  EXPECT_THAT(headerLength(large, uint64_t{1} << 40).error().message(), HasSubstr("more than 100000000"));
  std::filesystem::remove(file);
}

TEST(SafetensorsFile, RejectsMissingAndSpecialFiles) {
  EXPECT_THAT(readTensors(path("missing")).error().message(), HasSubstr("No such file"));
  EXPECT_FALSE(readTensors(testing::TempDir()).ok());
}

TEST(SafetensorsFile, RoundTrips) {
  const std::string file = path("again");
  std::vector<TensorInfo> tensors(2);
  tensors[0] = {"quote\" and ü", bpsFloat64, {3}, 0, 24};
  tensors[1] = {"b", bpsUint8, {2, 2}, 24, 28};
  std::vector<uint8_t> data(28);
  for (size_t i = 0; i < data.size(); ++i) data[i] = static_cast<uint8_t>(i * 37);
  ASSERT_TRUE(writeTensors(file, tensors, data).ok());
  auto read = readTensors(file);
  ASSERT_TRUE(read.ok()) << read.error().message();
  TensorFile again = std::move(read).value();
  ASSERT_EQ(again.tensors.size(), 2U);
  EXPECT_EQ(again.tensors[0].name, tensors[0].name);
  EXPECT_EQ(again.tensors[1].shape, tensors[1].shape);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), again.data.get(), again.data.get() + again.dataBytes));
  std::filesystem::resize_file(file, std::filesystem::file_size(file) - 1);
  EXPECT_THAT(readTensors(file).error().message(), HasSubstr("tensor \"b\": its data ends at 28 of 27 bytes"));
  EXPECT_THAT(writeTensors("/nowhere/x", tensors, data).message(), HasSubstr("/nowhere/x"));
  std::filesystem::remove(file);
}

}  // namespace
}  // namespace bps::perf
