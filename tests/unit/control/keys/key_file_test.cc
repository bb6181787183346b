// Tests which key files hold a key, which files hold a pass-phrase, and which files are refused.
#include "src/control/keys/key_file.h"

#include <gmock/gmock.h>
#include <sys/stat.h>

#include <fstream>

#include "src/control/keys/crypto.h"
#include "tests/support/temp_path.h"

namespace bps::test {
namespace {

using testing::HasSubstr;

class KeyFile : public testing::Test {
 protected:
  void SetUp() override { path_ = tempPath("key_file"); }
  void TearDown() override { ::unlink(path_.c_str()); }

  void write(const std::string& bytes, mode_t mode = 0600) const {
    std::ofstream(path_, std::ios::binary) << bytes;
    ::chmod(path_.c_str(), mode);
  }
  Key keyOf(const std::string& bytes) const {
    write(bytes);
    Result<Key> key = readKeyFile(path_, false);
    EXPECT_TRUE(key.ok()) << key.error().message();
    return key.ok() ? std::move(key).value() : Key{};
  }
  std::string refusal(bool shared = false) const {
    Result<Key> key = readKeyFile(path_, shared);
    return key.ok() ? "" : key.error().message();
  }

  std::string path_;
};

TEST_F(KeyFile, HexDigitsAreTheKeyItself) {
  const Key key = keyOf(std::string(62, '0') + "aF\n");
  Key expected{};
  expected.back() = 0xaf;
  EXPECT_EQ(key, expected);
}

TEST_F(KeyFile, PassPhraseIsStretched) {
  const std::string phrase = "correct horse battery staple";
  const auto bytes = std::span(reinterpret_cast<const uint8_t*>(phrase.data()), phrase.size());
  const Key key = keyOf(phrase);
  EXPECT_NE(key, deriveKey("key file", bytes)) << "not a hash that is quick to guess";
  EXPECT_EQ(key, keyOf(phrase + "\r\n")) << "an editor's end of line makes no difference";
  EXPECT_NE(key, keyOf(phrase + "!"));
  EXPECT_EQ(key, keyOf(phrase)) << "after another one";
}

TEST_F(KeyFile, OtherBytesAreKeyMaterial) {
  std::string bytes(16, 'x');
  bytes[3] = '\0';
  const Key key = keyOf(bytes);
  EXPECT_NE(key, keyOf(bytes + "\n")) << "nothing is cut off";
}

TEST_F(KeyFile, TextIsUtf8) {
  const auto isStretched = [&](const std::string& bytes) {
    const auto raw = std::span(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
    return keyOf(bytes) != deriveKey("key file", raw);
  };
  EXPECT_TRUE(isStretched("schl\xc3\xbcssel \xe2\x82\xac \xf0\x9f\x94\x91 lang genug"));
  EXPECT_FALSE(isStretched(std::string(20, 'x') + "\xfc")) << "random bytes may have no control character either";
  EXPECT_FALSE(isStretched(std::string(20, 'x') + "\xc3")) << "a character that does not end";
  EXPECT_FALSE(isStretched(std::string(20, 'x') + "\xc3\xc3\xbc"));
}

TEST_F(KeyFile, ShortOrLongIsRefused) {
  for (const size_t size : {size_t{0}, kMinKeyFileBytes - 1, kMaxKeyFileBytes + 1}) {
    write(std::string(size, 'k'));
    EXPECT_THAT(refusal(), HasSubstr("must have 16 to 65536 bytes"));
    EXPECT_THAT(refusal(), HasSubstr(path_));
  }
  write("123456789012345\n");
  EXPECT_THAT(refusal(), HasSubstr("has 15;")) << "the end of line does not count";
}

TEST_F(KeyFile, FileReadableByOthersIsRefused) {
  for (const mode_t mode : {0640U, 0604U, 0660U, 0444U}) {
    write("correct horse battery staple", mode);
    EXPECT_THAT(refusal(), HasSubstr("chmod 600 " + path_));
    EXPECT_EQ(refusal(true), "") << "BPS_KEY_FILE_SHARED=1";
  }
  write("correct horse battery staple", 0400);
  EXPECT_EQ(refusal(), "");
}

TEST_F(KeyFile, MissingFileAndDirectoryAreNamed) {
  EXPECT_EQ(refusal(), "key file " + path_ + ": No such file or directory");
  Result<Key> key = readKeyFile(testing::TempDir(), true);
  ASSERT_FALSE(key.ok());
  EXPECT_THAT(key.error().message(), HasSubstr("Is a directory"));
}

TEST_F(KeyFile, MakeWritesAValidFileOnce) {
  ASSERT_TRUE(makeKeyFile(path_).ok());
  struct stat info {};
  ASSERT_EQ(::stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_mode & 07777U, 0600U);
  EXPECT_EQ(info.st_size, 65);
  Result<Key> first = readKeyFile(path_, false);
  ASSERT_TRUE(first.ok());
  const Status again = makeKeyFile(path_);
  EXPECT_THAT(again.message(), HasSubstr("exists already"));
  Result<Key> kept = readKeyFile(path_, false);
  ASSERT_TRUE(kept.ok());
  const Key key = std::move(first).value();
  EXPECT_EQ(key, std::move(kept).value());
  ::unlink(path_.c_str());
  ASSERT_TRUE(makeKeyFile(path_).ok());
  EXPECT_NE(key, std::move(readKeyFile(path_, false)).value());
}

}  // namespace
}  // namespace bps::test
