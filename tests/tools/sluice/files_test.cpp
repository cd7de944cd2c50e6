// SPDX-License-Identifier: Apache-2.0
// Which files a command may read and write together, and what a signal leaves of them.
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"
#include "tests/tools/sluice/program.hpp"

#include <sys/wait.h>

#include <csignal>
#include <cstdint>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

class files : public program_test {
 protected:
  /// Makes "in.npy" and other names for it.
  std::vector<std::string> names_of_the_input() const {
    auto generator = make_generator();
    save<float>("in.npy", {2, 2}, random_values<float>(generator, 4));
    fs::create_symlink("in.npy", folder() / "symbolic.npy");
    fs::create_hard_link(folder() / "in.npy", folder() / "hard.npy");
    fs::create_symlink(".", folder() / "folder");
    return {"in.npy", "./in.npy", "symbolic.npy", "hard.npy", "folder/in.npy"};
  }
};

TEST_F(files, no_output_is_an_input) {
  const auto names = names_of_the_input();
  const std::string before = read_text(folder() / "in.npy");
  for (const auto& name : names) {
    expect_refused({"-o", name, "input X"}, {"fft", "in.npy", "-o", name});
    expect_refused({"--trace", name, "input X"},
                   {"fft", "in.npy", "-o", "out.npy", "--trace", name});
    expect_refused({"-o", name, "input A"}, {"gemm", "in.npy", "other.npy", "-o", name});
    expect_refused({"-o", name, "input B"}, {"gemm", "other.npy", "in.npy", "-o", name});
    expect_refused({"--trace", name, "input --c"},
                   {"gemm", "a.npy", "a.npy", "--c", "in.npy", "-o", "out.npy", "--trace", name});
    expect_refused({"-o", name, "input W"}, {"conv2d", "other.npy", "in.npy", "-o", name});
    expect_refused({"-o", name, "input --bias"},
                   {"conv2d", "x.npy", "w.npy", "--bias", "in.npy", "-o", name});
    expect_refused({"--png", name, "input WAV"}, {"mel", "in.npy", "-o", "out.npy", "--png", name});
    EXPECT_EQ(read_text(folder() / "in.npy"), before) << name;
  }
}

TEST_F(files, no_output_is_standard_input_from_a_file) {
  (void)names_of_the_input();
  expect_error(2, {"-o", "hard.npy", "input X"}, {"fft", "-", "-o", "hard.npy"},
               [this] { ::dup2(::open((folder() / "in.npy").c_str(), O_RDONLY), STDIN_FILENO); });
}

TEST_F(files, no_two_outputs_are_one_file) {
  (void)names_of_the_input();
  save<float>("x.npy", {2}, {1, 2});
  for (const auto& [first, second] :
       std::vector<std::pair<std::string, std::string>>{{"in.npy", "symbolic.npy"},
                                                        {"hard.npy", "in.npy"},
                                                        {"new", "./new"},
                                                        {"new", "folder/folder/new"}})
    expect_refused({"--trace", second, "output -o"},
                   {"fft", "x.npy", "-o", first, "--trace", second});
  fs::create_symlink("absent", folder() / "dangling");
  expect_refused({"--trace", "dangling", "output -o"},
                 {"fft", "x.npy", "-o", "absent", "--trace", "dangling"});
  expect_success({"fft", "x.npy", "-o", "/dev/null", "--trace", "/dev/null"});
}

TEST_F(files, a_dash_is_standard_input_or_output) {
  auto generator = make_generator();
  save<double>("in.npy", {2, 3}, random_values<double>(generator, 6));
  expect_success({"fft", "in.npy", "-o", "out.npy", "--device", "host"});
  const auto piped = [this] {
    // Through a pipe, which has no position and no size.
    int ends[2];
    const std::string content = read_text(folder() / "in.npy");
    if (::pipe(ends) != 0 || ::write(ends[1], content.data(), content.size()) < 0) ::_exit(126);
    ::dup2(ends[0], STDIN_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
  };
  const auto outcome = run({"fft", "-", "-o", "-", "--device", "host"}, piped);
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.errors, "");
  EXPECT_EQ(outcome.output, read_text(folder() / "out.npy"));
  EXPECT_FALSE(fs::exists(folder() / "-"));

  expect_error(2, {"B", "already used by A"}, {"gemm", "-", "-", "-o", "out.npy"}, piped);
  expect_error(2, {"W", "already used by X"}, {"conv2d", "-", "-", "-o", "out.npy"}, piped);
  expect_error(2, {"--bias", "already used by X"},
               {"conv2d", "-", "w.npy", "--bias", "-", "-o", "out.npy"}, piped);
  expect_error(2, {"--trace", "-o"}, {"conv2d", "x.npy", "w.npy", "-o", "-", "--trace", "-"});
  expect_error(2, {"--trace", "-o"}, {"fft", "in.npy", "-o", "-", "--trace", "-"});
}

TEST_F(files, standard_input_is_read_from_where_it_stands) {
  save<float>("in.npy", {3}, {1, 2, 3});
  const std::string array = read_text(folder() / "in.npy");
  write_text(folder() / "prefixed", "prefix" + array);
  const auto outcome = run({"fft", "-", "-o", "out.npy", "--device", "host"}, [this] {
    const int file = ::open((folder() / "prefixed").c_str(), O_RDONLY);
    ::lseek(file, 6, SEEK_SET);
    ::dup2(file, STDIN_FILENO);
  });
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(load("out.npy").shape, std::vector<std::int64_t>{2});
}

/// The letter of its state that the system has for the process: 'T' when it is stopped, 'Z' when it
/// has ended; 0 when there is none.
char state_of(pid_t process) {
  std::ifstream file("/proc/" + std::to_string(process) + "/stat");
  std::string line;
  std::getline(file, line);
  const auto name_end = line.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= line.size() ? '\0' : line[name_end + 2];
}

/// Stops the process. Returns whether it was still running.
bool stop(pid_t process) {
  ::kill(process, SIGSTOP);
  for (;;) {
    const char state = state_of(process);
    if (state == 'T') return true;
    if (state == '\0' || state == 'Z' || state == 'X') return false;
    std::this_thread::yield();
  }
}

TEST_F(files, a_signal_leaves_no_partial_file) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    bool struck = false;
    while (!struck) {
      int ends[2];
      ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
      program_outcome outcome;
      std::thread running([&] {
        outcome = run({"random", "-o", "out.npy", "--shape", "10000000", "--device", "host"},
                      [&ends, signal] {
                        // Shells make background jobs ignore some.
                        ::signal(signal, SIG_DFL);
                        const pid_t self = ::getpid();
                        (void)!::write(ends[1], &self, sizeof self);
                      });
        ::close(ends[1]);
      });
      pid_t process = 0;
      ASSERT_EQ(::read(ends[0], &process, sizeof process), static_cast<ssize_t>(sizeof process));
      const auto partial = [this] {
        for (const auto& entry : fs::directory_iterator(folder().path()))
          if (entry.path().extension() == ".partial") return true;
        return false;
      };
      // A round counts in which the file exists while the program stands still.
      while (!struck && !fs::exists(folder() / "out.npy")) {
        if (!partial()) continue;
        if (!stop(process)) break;
        struck = partial();
        if (struck) ::kill(process, signal);
        ::kill(process, SIGCONT);
      }
      running.join();
      ::close(ends[0]);
      if (struck) {
        EXPECT_EQ(outcome.status, 128 + signal);
        EXPECT_FALSE(fs::exists(folder() / "out.npy"));
      }
      EXPECT_FALSE(partial());
      fs::remove(folder() / "out.npy");
    }
  }
}

}  // namespace
}  // namespace sluice::test
