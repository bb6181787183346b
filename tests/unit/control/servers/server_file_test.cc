// Tests how the hub reads the file of BPS_SERVERS=@FILE again.
#include "src/control/servers/server_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <fstream>
#include <thread>

namespace bps::test {
namespace {

using namespace std::chrono_literals;

class ServerFileTest : public testing::Test {
 protected:
  ServerFileTest() {
    std::string folder = testing::TempDir() + "server_file_XXXXXX";
    EXPECT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    write("a:1,b\n");
    file_.emplace("@" + path(), 5ms);
    EXPECT_EQ(read(), "a:1 b ") << "the file may have changed since the start of the communicator";
  }
  ~ServerFileTest() override {
    for (const char* name : {"list", "new", "link"}) ::unlink((folder_ + "/" + name).c_str());
    ::rmdir(folder_.c_str());
  }
  std::string path() const { return folder_ + "/list"; }
  void write(const std::string& text, const char* name = "list") const { std::ofstream(folder_ + "/" + name) << text; }
  void replace(const std::string& text) const {
    write(text, "new");
    ASSERT_EQ(std::rename((folder_ + "/new").c_str(), path().c_str()), 0);
  }
  // Waits until the file may be read again. Returns the names in the file, or "none" if the list stays as it is.
  std::string read() {
    std::this_thread::sleep_until(file_->nextLook().at() + 1ms);
    const auto targets = file_->readIfChanged();
    if (!targets) return "none";
    std::string names;
    for (const ServerTarget& target : *targets) names += target.name + " ";
    return names;
  }
  // Like read(). Returns the warning.
  std::string warning() {
    testing::internal::CaptureStderr();
    EXPECT_EQ(read(), "none");
    return testing::internal::GetCapturedStderr();
  }

  std::string folder_;
  std::optional<ServerFile> file_;
};

TEST_F(ServerFileTest, AListInTheVariableIsNoFile) {
  ServerFile list("a:1,b:2");
  EXPECT_FALSE(list.exists());
  EXPECT_FALSE(list.readIfChanged());
  EXPECT_EQ(list.nextLook().at(), Deadline::never().at());
}

TEST_F(ServerFileTest, IsReadOnlyAfterAChange) {
  EXPECT_TRUE(file_->exists());
  EXPECT_EQ(read(), "none");
  write("c # a comment\nd:4,e\n");
  EXPECT_EQ(read(), "c d:4 e ");
  EXPECT_EQ(read(), "none");
}

TEST_F(ServerFileTest, IsLookedAtOncePerSecondAtMost) {
  file_.emplace("@" + path());
  EXPECT_TRUE(file_->readIfChanged());
  write("c:1\n");
  EXPECT_FALSE(file_->readIfChanged());
  EXPECT_GT(file_->nextLook().at(), Deadline::Clock::now() + 800ms);
  EXPECT_EQ(read(), "c:1 ");
}

TEST_F(ServerFileTest, AReplacedFileIsReadEvenIfItsSizeIsTheSame) {
  replace("b:1,a\n");
  EXPECT_EQ(read(), "b:1 a ");
}

TEST_F(ServerFileTest, AnEmptyFileListsNoServers) {
  write("# none\n");
  EXPECT_EQ(read(), "");
}

TEST_F(ServerFileTest, AWrongEntryKeepsTheListAndIsNamedOnce) {
  write("a:1,b:notaport\n");
  const std::string text = warning();
  EXPECT_NE(text.find("the list of servers stays as it is"), std::string::npos) << text;
  EXPECT_NE(text.find("b:notaport"), std::string::npos) << text;
  EXPECT_EQ(warning(), "");
  write("a:1,a:1\n");
  EXPECT_NE(warning().find("a:1 is listed twice"), std::string::npos);
  write("a:1 b:2\n");
  EXPECT_NE(warning().find("\"a:1 b:2\" is not host:port: the host contains a space"), std::string::npos);
  write("a:1,c:3\n");
  EXPECT_EQ(read(), "a:1 c:3 ");
}

TEST_F(ServerFileTest, AMissingFileKeepsTheList) {
  ASSERT_EQ(::unlink(path().c_str()), 0);
  EXPECT_EQ(warning(), "");
  write("c:3\n");
  EXPECT_EQ(read(), "c:3 ");
}

TEST_F(ServerFileTest, AHugeFileKeepsTheList) {
  write("a:1\n#");
  ASSERT_EQ(::truncate(path().c_str(), off_t{1} << 40), 0);
  const auto start = Deadline::Clock::now();
  const std::string text = warning();
  EXPECT_NE(text.find("larger than"), std::string::npos) << text;
  EXPECT_LT(Deadline::Clock::now() - start, 2s);
}

TEST_F(ServerFileTest, AFileThatIsNoRegularFileIsNotReadAgain) {
  ASSERT_EQ(::unlink(path().c_str()), 0);
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_EQ(read(), "none") << "opening a FIFO would block the hub";
  ServerFile fifo("@" + path());
  EXPECT_FALSE(fifo.readIfChanged());
}

}  // namespace
}  // namespace bps::test
