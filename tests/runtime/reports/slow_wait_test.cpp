// SPDX-License-Identifier: Apache-2.0
// Reports of slow shutdowns. The threshold is zero here, and each wait ends once the test has read
// the report.
#include "runtime/reports/slow_wait.hpp"

#include "tests/support/devices.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>

namespace sluice::test {
namespace {

/// Redirects standard error to a pipe.
class report_pipe {
 public:
  report_pipe() : before_(::dup(STDERR_FILENO)) {
    int ends[2] = {};
    if (::pipe(ends) != 0) std::abort();
    (void)::dup2(ends[1], STDERR_FILENO);
    (void)::close(ends[1]);
    in_ = ends[0];
    detail::slow_wait::set_patience(std::chrono::milliseconds(0));
  }
  report_pipe(const report_pipe&) = delete;
  report_pipe& operator=(const report_pipe&) = delete;
  ~report_pipe() {
    detail::slow_wait::set_patience(std::chrono::milliseconds(3000));
    restore();
    (void)::close(in_);
  }

  /// Waits for one line.
  [[nodiscard]] std::string line() const {
    std::string text;
    for (char c = 0; ::read(in_, &c, 1) == 1 && c != '\n';) text += c;
    return text;
  }
  void restore() noexcept {
    if (before_ < 0) return;
    (void)::dup2(before_, STDERR_FILENO);
    (void)::close(std::exchange(before_, -1));
  }

 private:
  int before_;
  int in_ = -1;
};

bool says(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

TEST(slow_shutdown, of_a_runtime_says_what_it_waits_for) {
  const auto device = open_host_device();
  const report_pipe reports;
  gate closed;
  std::string said;
  std::thread opener;
  {
    device_runtime runtime(device);
    const auto s = runtime.create_stream();
    closed.hold(s);
    (void)runtime.record_use(runtime.allocate_bytes(16, s), s, access_kind::write);
    opener = std::thread([&] {
      said = reports.line();
      closed.open();
    });
  }
  opener.join();
  EXPECT_TRUE(says(said, "the runtime of host:0: waiting for unfinished launches on 1 stream"))
      << said;
  EXPECT_FALSE(device->lost());
}

TEST(slow_shutdown, of_a_host_device_says_what_it_waits_for) {
  auto device = open_host_device();
  const report_pipe reports;
  std::atomic<bool> open{false};
  device->notify(device->create_stream(), [&] { await([&] { return open.load(); }); });
  std::string said;
  std::thread opener([&] {
    said = reports.line();
    open.store(true);
  });
  device.reset();
  opener.join();
  EXPECT_TRUE(says(said, "closing host:0: waiting for tasks on 1 stream")) << said;
}

/// Exits the process while a task runs. The task ends when the exit has been reported.
[[noreturn]] void exit_in_a_task() {
  static auto* const runtime = new device_runtime(open_host_device());
  static auto* const stream = new sluice::stream(runtime->create_stream());
  static auto* const reports = new report_pipe;
  std::atomic<bool> runs{false};
  submit_host_task(*stream, [&runs] {
    runs.store(true);
    await([] { return runtime->device().lost(); });
    const auto said = reports->line();
    reports->restore();
    std::fprintf(stderr, "%s\n", said.c_str());
  });
  submit_host_task(*stream, [] { std::fputs("a task began after the exit\n", stderr); });
  await([&] { return runs.load(); });
  std::exit(0);
}

TEST(exit_of_the_host, waits_for_the_running_task_and_says_so) {
  EXPECT_EXIT(exit_in_a_task(), ::testing::ExitedWithCode(0),
              "^sluice: exiting the process: waiting for a task on host:0\n$");
}

[[noreturn]] void exit_on_a_stream() {
  static auto* const runtime = new device_runtime(open_host_device());
  static auto* const stream = new sluice::stream(runtime->create_stream());
  submit_host_task(*stream, [] { std::exit(0); });
  for (;;) ::pause();
}

TEST(exit_of_the_host, on_a_thread_of_its_own_waits_for_no_task) {
  EXPECT_EXIT(exit_on_a_stream(), ::testing::ExitedWithCode(0), "^$");
}

}  // namespace
}  // namespace sluice::test
