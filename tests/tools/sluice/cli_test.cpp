// SPDX-License-Identifier: Apache-2.0
#include "tests/tools/sluice/program.hpp"

#include <sluice/version.hpp>

#include <nlohmann/json.hpp>
#include <sys/resource.h>

#include <algorithm>
#include <csignal>
#include <cstddef>
#include <fcntl.h>
#include <filesystem>
#include <string>
#include <system_error>
#include <unistd.h>
#include <vector>

namespace sluice::test {
namespace {

namespace fs = std::filesystem;

const std::vector<std::string> commands{"devices", "gemm", "conv2d", "fft",
                                        "random",  "mel",  "demo",   "bench"};

/// A command that always succeeds and writes out.npy, with more options.
std::vector<std::string> draw(std::vector<std::string> more) {
  more.insert(more.begin(), {"random", "-o", "out.npy", "--shape", "3", "--device", "host"});
  return more;
}

class cli : public program_test {};

TEST_F(cli, tells_its_version) {
  const auto outcome = run({"--version"});
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(outcome.output, "sluice " + std::string(version) + "\n");
  for (const std::string& command : commands) {
    const auto other = run({command, "--version"});
    EXPECT_EQ(other.status, 0) << command;
    EXPECT_EQ(other.output, outcome.output) << command;
    EXPECT_EQ(other.errors, "") << command;
  }
}

TEST_F(cli, helps) {
  const auto outcome = run({"--help"});
  EXPECT_EQ(outcome.status, 0);
  for (const std::string& command : commands) {
    EXPECT_NE(outcome.output.find(command), std::string::npos) << command;
    const auto help = run({command, "--help"});
    EXPECT_EQ(help.status, 0) << command;
    EXPECT_EQ(help.errors, "") << command;
    for (const char* option : {"--device", "--trace", "--quiet", "--help", "--version"})
      EXPECT_NE(help.output.find(option), std::string::npos) << command << ' ' << option;
  }
}

TEST_F(cli, help_is_a_command) {
  EXPECT_EQ(run({"help"}).output, run({"--help"}).output);
  for (const std::string& command : commands) {
    const auto outcome = run({"help", command});
    EXPECT_EQ(outcome.status, 0) << command;
    EXPECT_EQ(outcome.output, run({command, "--help"}).output) << command;
  }
  expect_refused({"nonsense", "no such command"}, {"help", "nonsense"});
}

TEST_F(cli, common_options_may_stand_before_the_command) {
  const auto outcome = run({"--device", "host", "devices", "--json"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, run({"devices", "--json", "--device=host"}).output);
  expect_success(
      {"--quiet", "--device=host", "--trace", "t.json", "random", "-o", "new.npy", "--shape", "3"});
  EXPECT_TRUE(fs::exists(folder() / "t.json"));
  expect_refused({"--device"}, {"--device", "host"});
  expect_refused({"--device"}, {"--device"});
}

TEST_F(cli, refuses_what_it_does_not_know) {
  expect_refused({"--help"}, {});
  expect_refused({"nonsense"}, {"nonsense"});
  expect_refused({"--nonsense"}, {"--nonsense"});
  for (const std::string& command : commands)
    expect_refused({command, "--nonsense"}, {command, "--nonsense"});
  expect_refused({"--quiet"}, draw({"--quiet=perhaps"}));
  // What would break the line does not.
  expect_refused({"a?b"}, draw({"a\nb"}));
  expect_refused({"a?b.npy"}, {"fft", "a\nb.npy", "-o", "out.npy"});
}

TEST_F(cli, file_names_are_taken_as_they_are) {
  for (const char* name : {"[a,b].npy", "{}", "gemm", "a b.npy", "%s%n.npy", "ä.npy", "--x.npy"}) {
    expect_success({"random", "--shape", "4", std::string("--output=") + name});
    ASSERT_TRUE(fs::exists(folder() / name)) << name;
    expect_success({"fft", "-o", "out.npy", "--", name});
  }
}

TEST_F(cli, prints_one_summary_line_unless_quiet) {
  const auto outcome = run(draw({}));
  EXPECT_EQ(std::count(outcome.output.begin(), outcome.output.end(), '\n'), 1) << outcome.output;
  for (const char* word : {"random 3 f32", "host:0", "Random123", " ms", "-> out.npy"})
    EXPECT_NE(outcome.output.find(word), std::string::npos) << outcome.output;
  const auto quiet = run(draw({"--quiet"}));
  EXPECT_EQ(quiet.status, 0);
  EXPECT_EQ(quiet.output, "");
  EXPECT_EQ(quiet.errors, "");
}

TEST_F(cli, an_array_on_standard_output_stands_alone) {
  expect_success(draw({}));
  const auto outcome = run({"random", "-o", "/dev/stdout", "--shape", "3", "--device", "host"});
  EXPECT_EQ(outcome.status, 0) << outcome.errors;
  EXPECT_EQ(outcome.output, read_text(folder() / "out.npy"));
}

TEST_F(cli, works_with_closed_standard_descriptors) {
  const auto outcome = run(draw({"--quiet"}), [] {
    for (int descriptor = 0; descriptor < 3; ++descriptor) ::close(descriptor);
  });
  EXPECT_EQ(outcome.status, 0);
  EXPECT_EQ(load("out.npy").shape, std::vector<std::int64_t>{3});
}

TEST_F(cli, fails_if_it_uses_a_closed_standard_descriptor) {
  const auto fails = [&](const std::vector<std::string>& arguments, int descriptor) {
    const auto outcome = run(arguments, [=] { ::close(descriptor); });
    EXPECT_NE(outcome.status, 0) << arguments.front();
    EXPECT_NE(outcome.errors.find("Bad file descriptor"), std::string::npos) << outcome.errors;
  };
  save<float>("a.npy", {2, 2}, {1, 2, 3, 4});
  fails({"random", "-o", "-", "--shape", "3", "--device", "host"}, STDOUT_FILENO);
  fails({"devices"}, STDOUT_FILENO);
  fails(draw({}), STDOUT_FILENO);
  fails({"gemm", "-", "a.npy", "-o", "out.npy", "--device", "host"}, STDIN_FILENO);
}

TEST_F(cli, writes_a_trace) {
  save<float>("a.npy", {2, 2}, {1, 2, 3, 4});
  for (const std::string& device : program_devices()) {
    expect_success(
        {"gemm", "a.npy", "a.npy", "-o", "out.npy", "--trace", "t.json", "--device", device});
    const auto trace = nlohmann::json::parse(read_text(folder() / "t.json"));
    bool gemm = false;
    for (const auto& event : trace.at("traceEvents"))
      gemm = gemm || event.value("name", "").find("gemm") != std::string::npos;
    EXPECT_TRUE(gemm) << trace;
  }
  expect_success({"devices", "--trace", "t.json"});
  EXPECT_TRUE(nlohmann::json::parse(read_text(folder() / "t.json")).contains("traceEvents"));
}

TEST_F(cli, refuses_devices_that_do_not_exist) {
  for (const char* device : {"tpu", "", "cuda:", "cuda:-1", "cuda:9999", "cuda:x", "host:1", "CUDA",
                             "cuda:99999999999999999999", "auto:0"}) {
    expect_refused({"--device"}, draw({"--device", device}));
    std::vector<std::string> once{"random", "-o", "out.npy", "--shape", "3", "--device", device};
    expect_refused({"--device"}, once);
    expect_refused({"--device"}, {"devices", "--device", device});
  }
  // "host:N" is no advice where there is one host device.
  EXPECT_EQ(run({"devices", "--device", "tpu"}).errors.find("host:N"), std::string::npos);
  if (program_devices().size() == 1) {
    expect_refused({"--device cuda"}, {"devices", "--device", "cuda"});
    const auto errors = run({"devices", "--device", "cuda"}).errors;
    EXPECT_EQ(errors.find("insufficient"), std::string::npos) << errors;
  }
}

TEST_F(cli, a_bad_file_is_found_before_the_device_is_opened) {
  expect_refused({"missing.npy"}, {"fft", "missing.npy", "-o", "out.npy", "--device", "cuda:9999"});
}

TEST_F(cli, refuses_outputs_that_cannot_be_written) {
  fs::create_directory(folder() / "folder");
  write_text(folder() / "file", "");
  fs::create_symlink("loop", folder() / "loop");
  for (const char* path : {"", "folder", "folder/", "missing/x", "file/x", "loop"}) {
    expect_refused({"-o", path}, {"random", "--shape", "3", "-o", path});
    expect_refused({"--trace", path}, draw({"--trace", path}));
    expect_refused({"--trace", path}, {"devices", "--trace", path});
  }
  expect_refused({"-o", "folder"},
                 {"random", "--shape", "3", "-o", std::string(5000, 'x') + "/folder"});
  expect_refused({"--trace", "-o"}, draw({"--trace", "out.npy"}));
  expect_refused({"--trace", "-o"}, draw({"--trace", "folder/../out.npy"}));
}

TEST_F(cli, refuses_a_folder_without_permission) {
  // For a user other than root, as whom permissions mean nothing.
  constexpr uid_t nobody = 65534;
  const bool root = ::geteuid() == 0;
  const auto as_a_user = [root] {
    if (root && (::setgid(nobody) != 0 || ::setuid(nobody) != 0)) ::_exit(126);
  };
  fs::permissions(folder().path(), fs::perms(0555));
  if (const auto trial = run({"--version"}, as_a_user); trial.status != 0) {
    fs::permissions(folder().path(), fs::perms(0755));
    GTEST_SKIP() << "the program cannot be run by another user here";
  }
  const auto outcome =
      run({"random", "-o", "new.npy", "--shape", "3", "--device", "host"}, as_a_user);
  fs::permissions(folder().path(), fs::perms(0755));
  EXPECT_EQ(outcome.status, 2) << outcome.errors;
  EXPECT_NE(outcome.errors.find("-o: new.npy"), std::string::npos) << outcome.errors;
  EXPECT_FALSE(fs::exists(folder() / "new.npy"));
}

TEST_F(cli, a_full_disk_is_a_failure) {
  const auto limited = [] {
    const rlimit limit{100, 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
  };
  // The folder of the test stands for the disk; standard error is short enough.
  expect_error(1, {"out.npy"}, draw({"--quiet"}), limited);
  expect_error(1, {"/dev/full"}, {"random", "-o", "/dev/full", "--shape", "3", "--quiet"});
  // The array fits, the trace does not.
  const auto outcome = run({"random", "-o", "new.npy", "--shape", "3", "--trace", "/dev/full"});
  EXPECT_EQ(outcome.status, 1);
  EXPECT_NE(outcome.errors.find("/dev/full"), std::string::npos) << outcome.errors;
}

TEST_F(cli, ends_quietly_after_its_reader) {
  const auto unread = [](int descriptor) {
    return [descriptor] {
      int ends[2];
      if (::pipe(ends) != 0) ::_exit(126);
      ::dup2(ends[1], descriptor);
      ::close(ends[0]);
      ::close(ends[1]);
    };
  };
  const std::vector<std::string> array = {"random", "-o",       "-",   "--shape",
                                          "100000", "--device", "host"};
  for (const auto& arguments :
       {std::vector<std::string>{"operations"}, {"operations", "--json"}, {"--help"}, array}) {
    const auto outcome = run(arguments, unread(STDOUT_FILENO));
    EXPECT_EQ(outcome.status, 1) << ::testing::PrintToString(arguments);
    EXPECT_EQ(outcome.errors, "") << ::testing::PrintToString(arguments);
  }
  // The reader of another file is one that the program names.
  auto other = array;
  other[2] = "/dev/fd/9";
  expect_error(1, {"/dev/fd/9", "Broken pipe"}, other, unread(9));
}

TEST_F(cli, respects_a_limit_on_memory) {
  const auto limited = [] {
    const rlimit limit{rlim_t{6} << 30, rlim_t{6} << 30};
    ::setrlimit(RLIMIT_AS, &limit);
    // The memory of a thread for each of many cores would exceed the limit by itself.
    ::setenv("OPENBLAS_NUM_THREADS", "1", 1);
  };
  // 8 GB, which many machines have.
  expect_error(2, {"--shape", "memory"},
               {"random", "-o", "out.npy", "--shape", "2000000000", "--device", "host"}, limited);
}

TEST_F(cli, refuses_a_file_larger_than_memory) {
  const std::string header = npy_file("<f4", false, "(2000000000000,)", "");
  write_text(folder() / "x.npy", header);
  std::error_code unsupported;
  fs::resize_file(folder() / "x.npy", header.size() + 8'000'000'000'000, unsupported);
  if (unsupported) GTEST_SKIP() << "the file system has no files of this size";
  expect_refused({"x.npy", "memory"}, {"fft", "x.npy", "-o", "out.npy"});
}

TEST_F(cli, an_existing_output_is_replaced_and_keeps_its_permissions) {
  write_text(folder() / "out.npy", "an earlier result");
  fs::permissions(folder() / "out.npy", fs::perms(0640));
  expect_success(draw({}));
  EXPECT_EQ(load("out.npy").shape, std::vector<std::int64_t>{3});
  EXPECT_EQ(fs::status(folder() / "out.npy").permissions(), fs::perms(0640));
  EXPECT_EQ(folder().entries(), 1);
}

}  // namespace
}  // namespace sluice::test
