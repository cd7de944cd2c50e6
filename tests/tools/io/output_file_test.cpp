// SPDX-License-Identifier: Apache-2.0
#include "tools/io/output_file.hpp"

#include "tests/tools/io/files.hpp"

#include <sluice/runtime/error.hpp>

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <array>
#include <fcntl.h>
#include <optional>
#include <signal.h>
#include <stdlib.h>
#include <string>
#include <thread>
#include <unistd.h>

namespace sluice::io {
namespace {

namespace fs = std::filesystem;
using test::as_bytes;
using test::expect_error;
using test::read_text;
using test::temporary_folder;
using test::write_text;

void write_file(const fs::path& path, std::string_view text) {
  output_file file(path);
  file.write(as_bytes(text));
  file.commit();
}

mode_t mode_of(const fs::path& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & static_cast<mode_t>(0777);
}

/// Until the end of the test the process cannot make a file longer than this.
class file_size_limit {
 public:
  explicit file_size_limit(rlim_t bytes) {
    ::getrlimit(RLIMIT_FSIZE, &previous_);
    rlimit limit = previous_;
    limit.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &limit);
  }
  file_size_limit(const file_size_limit&) = delete;
  file_size_limit& operator=(const file_size_limit&) = delete;
  ~file_size_limit() { ::setrlimit(RLIMIT_FSIZE, &previous_); }

 private:
  rlimit previous_{};
};

TEST(OutputFile, AppearsWhenItIsCommitted) {
  const temporary_folder folder;
  output_file file(folder / "x");
  file.write(as_bytes("one "));
  file.write({});
  file.write(as_bytes("two"));
  EXPECT_FALSE(fs::exists(folder / "x"));
  file.commit();
  EXPECT_EQ(read_text(folder / "x"), "one two");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(OutputFile, ReplacesOnlyWhenItIsCommitted) {
  const temporary_folder folder;
  write_text(folder / "x", "before");
  {
    output_file file(folder / "x");
    file.write(as_bytes("after"));
    EXPECT_EQ(read_text(folder / "x"), "before");
  }
  EXPECT_EQ(read_text(folder / "x"), "before");
  EXPECT_EQ(folder.entries(), 1);
  write_file(folder / "x", "after");
  EXPECT_EQ(read_text(folder / "x"), "after");
  EXPECT_EQ(folder.entries(), 1);
}

TEST(OutputFile, ReadersOfTheOldFileKeepIt) {
  const temporary_folder folder;
  write_text(folder / "x", "before");
  std::ifstream reader(folder / "x");
  write_file(folder / "x", "after");
  std::string text;
  reader >> text;
  EXPECT_EQ(text, "before");
}

TEST(OutputFile, NewFilesFollowTheUmask) {
  const temporary_folder folder;
  const mode_t previous = ::umask(027);
  write_file(folder / "x", "text");
  ::umask(077);
  write_file(folder / "y", "text");
  ::umask(previous);
  EXPECT_EQ(mode_of(folder / "x"), 0640U);
  EXPECT_EQ(mode_of(folder / "y"), 0600U);
}

TEST(OutputFile, ReplacedFilesKeepTheirPermissions) {
  const temporary_folder folder;
  write_text(folder / "x", "before");
  ASSERT_EQ(::chmod((folder / "x").c_str(), 0604), 0);
  write_file(folder / "x", "after");
  EXPECT_EQ(mode_of(folder / "x"), 0604U);
}

TEST(OutputFile, SymbolicLinksAreFollowed) {
  const temporary_folder folder;
  fs::create_directory(folder / "inner");
  write_text(folder / "inner" / "target", "before");
  fs::create_symlink("inner/target", folder / "relative");
  fs::create_symlink(folder / "relative", folder / "absolute");
  fs::create_symlink("inner/new", folder / "dangling");
  fs::create_symlink("circle", folder / "circle");

  write_file(folder / "absolute", "after");
  EXPECT_TRUE(fs::is_symlink(folder / "absolute"));
  EXPECT_TRUE(fs::is_symlink(folder / "relative"));
  EXPECT_EQ(read_text(folder / "inner" / "target"), "after");
  write_file(folder / "dangling", "new");
  EXPECT_TRUE(fs::is_symlink(folder / "dangling"));
  EXPECT_EQ(read_text(folder / "inner" / "new"), "new");
  expect_error(errc::invalid_argument, "circle", "symbolic links",
               [&] { return output_file(folder / "circle"), 0; });
}

TEST(OutputFile, RelativeNamesAndNamesOfTheLargestLength) {
  const temporary_folder folder;
  const fs::path previous = fs::current_path();
  fs::current_path(folder.path());
  write_file("x", "text");
  require_writable_folder("y");
  fs::current_path(previous);
  EXPECT_EQ(read_text(folder / "x"), "text");
  write_file(folder / std::string(255, 'n'), "text");
  EXPECT_EQ(read_text(folder / std::string(255, 'n')), "text");
  EXPECT_EQ(folder.entries(), 2);
}

/// What the check refuses is what the constructor refuses.
void expect_refused(const fs::path& target, std::string_view name, std::string_view text) {
  expect_error(errc::invalid_argument, name, text, [&] {
    require_writable_folder(target);
    return 0;
  });
  expect_error(errc::invalid_argument, name, text, [&] { return output_file(target), 0; });
}

TEST(OutputFile, BadTargetsAreRefusedBeforehand) {
  const temporary_folder folder;
  write_text(folder / "file", "text");
  expect_refused("", "", "is empty");
  expect_refused(folder / "missing" / "x.npy", "missing/x.npy", "folder does not exist");
  expect_refused(folder / "file" / "x.npy", "file/x.npy", "Not a directory");
  expect_refused(folder.path(), folder.path().string(), "is a folder");
  expect_refused(folder / "", folder.path().string(), "is a folder");
  expect_refused(folder / "missing/", "missing/", "is the name of a folder");
  expect_refused(folder / std::string(256, 'n'), "nnn", "File name too long");
  // A file system that nobody can make files in, not even the superuser.
  expect_refused("/proc/x.npy", "/proc/x.npy", "/proc/x.npy: the folder");
  EXPECT_EQ(folder.entries(), 1);
  EXPECT_EQ(read_text(folder / "file"), "text");
}

TEST(OutputFile, PermissionsAreRespected) {
  if (::geteuid() == 0) GTEST_SKIP() << "the superuser may write everywhere";
  const temporary_folder folder;
  fs::create_directory(folder / "closed");
  write_text(folder / "read-only", "text");
  ASSERT_EQ(::chmod((folder / "closed").c_str(), 0555), 0);
  ASSERT_EQ(::chmod((folder / "read-only").c_str(), 0444), 0);
  expect_refused(folder / "closed" / "x", "closed/x", "Permission denied");
  expect_refused(folder / "read-only", "read-only", "Permission denied");
}

TEST(OutputFile, TheCheckLeavesNothing) {
  const temporary_folder folder;
  require_writable_folder(folder / "x");
  EXPECT_EQ(folder.entries(), 0);
  write_text(folder / "x", "text");
  require_writable_folder(folder / "x");
  EXPECT_EQ(read_text(folder / "x"), "text");
  EXPECT_EQ(folder.entries(), 1);
}

/// A pseudo-terminal: the one character device that a wrong `output_file` cannot replace, whoever
/// runs the test, because nobody can make files beside it. `/dev/null` could be lost to the
/// machine.
TEST(OutputFile, CharacterDevicesAreWrittenDirectly) {
  const int terminal = ::posix_openpt(O_RDWR | O_NOCTTY);
  if (terminal < 0 || ::grantpt(terminal) != 0 || ::unlockpt(terminal) != 0)
    GTEST_SKIP() << "no pseudo-terminals";
  std::array<char, 128> name{};
  ASSERT_EQ(::ptsname_r(terminal, name.data(), name.size()), 0);
  // Kept open, so that what is written is not lost when the file is closed.
  const int other_end = ::open(name.data(), O_RDWR | O_NOCTTY);
  ASSERT_GE(other_end, 0);
  require_writable_folder(name.data());
  write_file(name.data(), "text");
  std::array<char, 16> received{};
  ASSERT_EQ(::read(terminal, received.data(), received.size()), 4);
  EXPECT_EQ(std::string(received.data()), "text");
  EXPECT_TRUE(fs::is_character_file(name.data()));
  ::close(other_end);
  ::close(terminal);
}

TEST(OutputFile, PipesAreWrittenDirectly) {
  const temporary_folder folder;
  const fs::path fifo = folder / "fifo";
  ASSERT_EQ(::mkfifo(fifo.c_str(), 0600), 0);
  require_writable_folder(fifo);
  std::string received;
  std::thread reader([&] { received = read_text(fifo); });
  write_file(fifo, "through the pipe");
  reader.join();
  EXPECT_EQ(received, "through the pipe");
  EXPECT_TRUE(fs::is_fifo(fifo));
}

TEST(OutputFile, OpenDescriptorsKeepTheirPosition) {
  const temporary_folder folder;
  const int descriptor = ::open((folder / "x").c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_GE(descriptor, 0);
  ASSERT_EQ(::write(descriptor, "one ", 4), 4);
  const std::string name = "/dev/fd/" + std::to_string(descriptor);
  require_writable_folder(name);
  write_file(name, "two");
  ASSERT_EQ(::write(descriptor, " three", 6), 6);
  ::close(descriptor);
  EXPECT_EQ(read_text(folder / "x"), "one two three");
  expect_refused(name, name, "Bad file descriptor");
}

TEST(OutputFile, StandardOutput) {
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe(pipe.data()), 0);
  const int previous = ::dup(STDOUT_FILENO);
  ::dup2(pipe[1], STDOUT_FILENO);
  write_file("/dev/stdout", "to standard output");
  ::dup2(previous, STDOUT_FILENO);
  ::close(previous);
  ::close(pipe[1]);
  std::array<char, 64> text{};
  const ssize_t received = ::read(pipe[0], text.data(), text.size());
  ::close(pipe[0]);
  EXPECT_EQ(std::string(text.data(), static_cast<std::size_t>(received)), "to standard output");
}

TEST(OutputFile, AFullDeviceIsALibraryFailure) {
  if (!fs::exists("/dev/full")) GTEST_SKIP() << "no /dev/full";
  output_file file("/dev/full");
  expect_error(errc::library_failure, "/dev/full: ", "No space left on device", [&] {
    file.write(as_bytes("text"));
    return 0;
  });
}

TEST(OutputFile, AFullDiskLeavesTheOldFile) {
  const temporary_folder folder;
  write_text(folder / "x", "before");
  const std::string large(100000, 'a');
  {
    const file_size_limit limit(4096);
    // The default action of the signal that goes with the limit would end the process.
    ASSERT_EQ(::signal(SIGXFSZ, SIG_DFL), SIG_DFL);
    output_file file(folder / "x");
    expect_error(errc::library_failure, "/x: ", "File too large", [&] {
      file.write(as_bytes(large));
      return 0;
    });
  }
  EXPECT_EQ(read_text(folder / "x"), "before");
  EXPECT_EQ(folder.entries(), 1);
  // Neither is the signal left pending for whoever allows it next.
  sigset_t pending;
  ASSERT_EQ(::sigpending(&pending), 0);
  EXPECT_EQ(::sigismember(&pending, SIGXFSZ), 0);
  write_file(folder / "x", large);
  EXPECT_EQ(read_text(folder / "x"), large);
}

/// Runs `body` in a child, which is to end by a signal or with the code 0.
template <class Body>
int status_of_child(Body body) {
  const pid_t child = ::fork();
  if (child == 0) {
    const rlimit none{};
    ::setrlimit(RLIMIT_CORE, &none);
    body();
    ::_exit(0);
  }
  int status = -1;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  return status;
}

TEST(OutputFile, SignalsLeaveNoPartialFile) {
  // Not SIGSEGV and SIGBUS, for which the test program has handlers.
  for (const int signal : {SIGHUP, SIGINT, SIGQUIT, SIGABRT, SIGUSR1, SIGALRM, SIGTERM, SIGXCPU,
                           SIGRTMIN + 3, SIGRTMAX}) {
    const temporary_folder folder;
    const int status = status_of_child([&] {
      ::signal(signal, SIG_DFL);  // shells make background jobs ignore some
      remove_partial_files_on_signals();
      output_file committed(folder / "done");
      committed.write(as_bytes("complete"));
      committed.commit();
      output_file one(folder / "x");
      output_file two(folder / "y");
      one.write(as_bytes("text"));
      if (folder.entries() != 3) ::_exit(1);
      ::raise(signal);
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == signal) << signal << ' ' << status;
    EXPECT_EQ(folder.entries(), 1) << signal;
    EXPECT_EQ(read_text(folder / "done"), "complete");
  }
}

TEST(OutputFile, SignalsLeaveNoPartialFileOfAnotherThread) {
  for (int round = 0; round < 50; ++round) {
    const temporary_folder folder;
    const int status = status_of_child([&] {
      remove_partial_files_on_signals();
      std::thread([] { ::kill(::getpid(), SIGTERM); }).detach();
      for (;;) write_file(folder / "x", "text");
    });
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM) << status;
    EXPECT_LE(folder.entries(), 1);
    EXPECT_EQ(fs::exists(folder / "x"), folder.entries() == 1);
  }
}

TEST(OutputFile, IgnoredSignalsStayIgnored) {
  EXPECT_EQ(status_of_child([] {
              ::signal(SIGHUP, SIG_IGN);
              remove_partial_files_on_signals();
              ::raise(SIGHUP);
              ::raise(SIGWINCH);
            }),
            0);
}

TEST(FileIdentity, IsTheFilesAndNotTheNames) {
  const temporary_folder folder;
  write_text(folder / "x", "text");
  write_text(folder / "y", "text");
  fs::create_hard_link(folder / "x", folder / "hard");
  fs::create_symlink("x", folder / "symbolic");
  fs::create_symlink("absent", folder / "dangling");
  const auto x = identity_of(folder / "x");
  ASSERT_TRUE(x);
  EXPECT_EQ(x, identity_of(folder / "hard"));
  EXPECT_EQ(x, identity_of(folder / "symbolic"));
  EXPECT_NE(x, identity_of(folder / "y"));
  const auto absent = identity_of(folder / "absent");
  ASSERT_TRUE(absent);
  EXPECT_EQ(absent, identity_of(folder / "dangling"));
  EXPECT_EQ(absent, identity_of(folder.path() / "." / "absent"));
  EXPECT_NE(absent, identity_of(folder / "other"));
  EXPECT_EQ(identity_of("/dev/null"), std::nullopt);
  EXPECT_EQ(identity_of(folder.path()), std::nullopt);
  EXPECT_EQ(identity_of(folder / "missing" / "x"), std::nullopt);
}

TEST(OutputFile, AVanishedFolderIsALibraryFailure) {
  const temporary_folder folder;
  fs::create_directory(folder / "inner");
  output_file file(folder / "inner" / "x");
  file.write(as_bytes("text"));
  fs::remove_all(folder / "inner");
  expect_error(errc::library_failure, "inner/x: ", "could not be renamed into place", [&] {
    file.commit();
    return 0;
  });
}

}  // namespace
}  // namespace sluice::io
