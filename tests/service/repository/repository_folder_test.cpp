// SPDX-License-Identifier: Apache-2.0
#include "service/repository/repository_folder.hpp"

#include "tests/service/repository/repository_files.hpp"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

using test::repository_files;

/// The errno of the refusal; -1 if the file is opened.
int refusal_of(const repository_folder& folder, const std::string& path) {
  try {
    (void)folder.open(path);
  } catch (const repository_error& e) {
    return e.number();
  }
  return -1;
}

TEST(file_descriptor, closes_what_it_owns) {
  const auto is_open = [](int descriptor) {
    return ::fcntl(descriptor, F_GETFD) >= 0;
  };
  const int a = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  const int b = ::open("/dev/null", O_RDONLY | O_CLOEXEC);
  {
    file_descriptor first(a);
    file_descriptor second(b);
    first = std::move(second);
    EXPECT_FALSE(is_open(a));
    EXPECT_EQ(first.get(), b);
    EXPECT_FALSE(second);  // NOLINT(bugprone-use-after-move): a moved-from owner is empty
    auto& same = first;
    first = std::move(same);
    EXPECT_TRUE(is_open(b));
    EXPECT_EQ(first.get(), b);
  }
  EXPECT_FALSE(is_open(b));
  file_descriptor released(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const int c = released.release();
  EXPECT_TRUE(is_open(c));
  EXPECT_FALSE(released);
  (void)::close(c);
}

TEST(repository_folder, opens_files_beneath_it) {
  const repository_files files;
  files.write("m/1/model.onnx", "12345");
  const repository_folder folder(files.path());
  const auto file = folder.open("m/1/model.onnx");
  EXPECT_EQ(file.status.identity.size, 5u);
  EXPECT_EQ(file.status, status_of(file.descriptor));
  char text[8] = {};
  EXPECT_EQ(::read(file.descriptor.get(), text, sizeof(text)), 5);
  EXPECT_EQ(std::string(text), "12345");
  EXPECT_NE(::fcntl(file.descriptor.get(), F_GETFD) & FD_CLOEXEC, 0);
}

TEST(repository_folder, follows_links_that_stay_beneath_it) {
  const repository_files files;
  files.write("..2026_01/m/1/model.onnx", "first");
  files.link("..2026_01", "..data");
  files.link("..data/m", "m");
  files.write("blobs/b", "other");
  files.link("../../blobs/b", "..2026_01/m/file");
  const repository_folder folder(files.path());
  EXPECT_EQ(folder.open("m/1/model.onnx").status.identity.size, 5u);
  EXPECT_EQ(folder.open("m/file").status.identity.size, 5u);
}

TEST(repository_folder, refuses_what_is_not_beneath_it) {
  const repository_files files;
  files.write("outside/secret", "secret");
  files.write("inside/file", "file");
  files.link("../outside/secret", "inside/up");
  files.link((files / "outside/secret").string(), "inside/absolute");
  files.link((files / "inside/file").string(), "inside/absolute_inside");
  files.link("../outside", "inside/folder");
  files.link("up", "inside/chain");
  files.link("loop", "inside/loop");
  files.link("/proc/self/fd/0", "inside/proc");
  files.link("nothing", "inside/dangling");
  const repository_folder folder(files / "inside");
  EXPECT_EQ(refusal_of(folder, "file"), -1);
  EXPECT_EQ(refusal_of(folder, "up"), EXDEV);
  EXPECT_EQ(refusal_of(folder, "absolute"), EXDEV);
  EXPECT_EQ(refusal_of(folder, "absolute_inside"), EXDEV);
  EXPECT_EQ(refusal_of(folder, "folder/secret"), EXDEV);
  EXPECT_EQ(refusal_of(folder, "chain"), EXDEV);
  EXPECT_EQ(refusal_of(folder, "../outside/secret"), EXDEV);
  EXPECT_EQ(refusal_of(folder, "/etc/passwd"), EXDEV);
  EXPECT_EQ(refusal_of(folder, "loop"), ELOOP);
  EXPECT_EQ(refusal_of(folder, "proc"), EXDEV);
  EXPECT_EQ(refusal_of(folder, "dangling"), ENOENT);
  EXPECT_EQ(refusal_of(folder, "nothing"), ENOENT);
  EXPECT_THROW((void)folder.folder("folder"), repository_error);
  EXPECT_THROW((void)folder.folder(".."), repository_error);
}

TEST(repository_folder, refuses_links_of_proc) {
  const repository_folder proc("/proc/self");
  EXPECT_EQ(refusal_of(proc, "exe"), ELOOP);
}

// Nobody writes into the FIFO: an open that waited would never return.
TEST(repository_folder, opens_only_regular_files) {
  const repository_files files;
  ASSERT_EQ(::mkfifo((files / "fifo").c_str(), 0600), 0);
  std::filesystem::create_directory(files / "folder");
  const file_descriptor listener(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string path = (files / "socket").string();
  ASSERT_LT(path.size(), sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  ASSERT_EQ(::bind(listener.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)),
            0);
  const repository_folder folder(files.path());
  for (const char* name : {"fifo", "folder", "socket"}) {
    try {
      (void)folder.open(name);
      ADD_FAILURE() << name << " was opened";
    } catch (const repository_error& e) {
      EXPECT_STREQ(e.what(), "it is not a regular file") << name;
    }
  }
  EXPECT_THROW((void)open_regular_file(files / "fifo"), repository_error);
  EXPECT_THROW((void)open_regular_file("/dev/zero"), repository_error);
  EXPECT_THROW((void)repository_folder(files / "fifo"), repository_error);
  EXPECT_THROW((void)repository_folder(files / "nothing"), repository_error);
}

TEST(repository_folder, lists_names_without_dots) {
  const repository_files files;
  for (const char* name : {"a", "b", ".hidden", "..data", "..2026"}) files.write(name, "");
  const repository_folder folder(files.path());
  auto names = folder.names(2);
  std::sort(names.begin(), names.end());
  EXPECT_EQ(names, (std::vector<std::string>{"a", "b"}));
  EXPECT_THROW((void)folder.names(1), repository_error);
}

TEST(repository_folder, knows_whether_a_file_precedes_its_inode) {
  const repository_files files;
  files.write("file", "text");
  EXPECT_FALSE(open_regular_file(files / "file").status.precedes_its_inode);
  files.set_back("file", 1);
  EXPECT_FALSE(open_regular_file(files / "file").status.precedes_its_inode);
  files.set_back("file", 1);
  EXPECT_TRUE(open_regular_file(files / "file").status.precedes_its_inode);
  files.write("file", "text");
  EXPECT_FALSE(open_regular_file(files / "file").status.precedes_its_inode);
}

TEST(repository_folder, stays_the_folder_that_was_opened) {
  const repository_files files;
  files.write("a/file", "first");
  const repository_folder folder(files.path());
  const auto a = folder.folder("a");
  files.rename("a", "b");
  files.write("a/file", "another");
  EXPECT_EQ(a.open("file").status.identity.size, 5u);
  EXPECT_EQ(a.names(9), std::vector<std::string>{"file"});
  EXPECT_EQ(folder.open("a/file").status.identity.size, 7u);
  EXPECT_THROW((void)a.open("../a/file"), repository_error);
}

}  // namespace
}  // namespace sluice::service
