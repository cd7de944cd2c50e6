// How a process ends: every test here runs one to its end, as a child of its own. The sanitizers
// check it, too: a leak or a race is an exit code.
#include "tests/support/devices.hpp"
#include "tests/support/gate.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

class process_exit : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!has_device(GetParam())) {
      GTEST_SKIP() << "this machine has no device '" << GetParam() << "'";
    }
  }
};
INSTANTIATE_TEST_SUITE_P(devices, process_exit, every_device(), parameter_name);

/// What a program keeps in static objects.
struct kept {
  std::optional<gpu_ref<float>> ref;
  std::vector<block_ref> blocks;
  std::optional<sluice::stream> stream;
  std::optional<launch_recorder> recorder;
};

void use(device_runtime& runtime, kept& k) {
  k.stream = runtime.create_stream();
  k.ref = runtime.allocate<float>(1000, *k.stream, "kept");
  for (int i = 0; i < 100; ++i) k.blocks.push_back(runtime.allocate_bytes(100, *k.stream));
  const float one = 1;
  auto recorder = launch_recorder::strict(*k.stream);
  recorder.write(*k.ref);
  recorder.preflight();
  runtime.device().fill(k.ref->data(), &one, sizeof one, k.ref->size(), k.stream->ref().native());
  (void)recorder.commit();
}

// Static objects end in the opposite order of their making.

[[noreturn]] void end_with_objects_older_than_the_shared_runtime(const std::string& device) {
  static kept older;
  use(device_runtime::get(device), older);
  std::exit(0);
}

[[noreturn]] void end_with_objects_younger_than_the_shared_runtime(const std::string& device) {
  auto& runtime = device_runtime::get(device);
  static kept younger;
  use(runtime, younger);
  std::exit(0);
}

[[noreturn]] void end_with_an_owned_static_runtime(const std::string& device) {
  static kept older;
  static device_runtime runtime(open_device(device));
  static kept younger;
  use(runtime, older);
  use(runtime, younger);
  std::exit(0);
}

[[noreturn]] void end_with_a_tracked_direct_resource(const std::string& device) {
  static kept older;
  static device_runtime runtime(open_device(device),
                                {.resource = make_direct_resource({.tracked = true})});
  use(runtime, older);
  older.blocks.clear();  // the reclaim thread is at work
  std::exit(0);
}

[[noreturn]] void end_with_work_in_flight(const std::string& device) {
  static kept older;
  auto& runtime = device_runtime::get(device);
  use(runtime, older);
  for (int i = 0; i < 2000; ++i) {
    const auto value = static_cast<float>(i);
    auto recorder = launch_recorder::strict(*older.stream);
    recorder.write(*older.ref);
    recorder.preflight();
    runtime.device().fill(older.ref->data(), &value, sizeof value, older.ref->size(),
                          older.stream->ref().native());
    (void)recorder.commit();
  }
  std::exit(0);
}

[[noreturn]] void end_with_work_that_does_not_end(const std::string& device) {
  device_runtime::configure(parse_device_id(device), [] {
    return runtime_options{.drain_timeout = std::chrono::milliseconds(1)};
  });
  static kept older;
  auto& runtime = device_runtime::get(device);
  use(runtime, older);
  static std::atomic<bool> never{false};
  runtime.device().notify(older.stream->ref().native(), [] {
    // Ends once the device was given up, as nothing else would end it.
    await([] { return never.load() || device_runtime::get().device().lost(); });
  });
  std::exit(0);
}

// A GPU's stream that waits for ever, as behind a kernel that does not end.
[[noreturn]] void end_with_a_stream_that_does_not_get_on() {
  device_runtime::configure(parse_device_id("cuda"), [] {
    return runtime_options{.drain_timeout = std::chrono::milliseconds(1)};
  });
  static kept older;
  use(device_runtime::get("cuda"), older);
  static auto* const closed = new gate;  // nobody opens it
  closed->hold(*older.stream);
  (void)device_runtime::get("cuda").record_use(older.ref->block(), *older.stream,
                                               access_kind::write);
  std::exit(0);
}

[[noreturn]] void end_with_a_recorder_before_preflight(const std::string& device) {
  static kept older;
  use(device_runtime::get(device), older);
  older.recorder = launch_recorder::strict(*older.stream);
  older.recorder->read(*older.ref);
  std::exit(0);
}

[[noreturn]] void end_with_a_recorder_after_preflight(const std::string& device) {
  static kept older;
  use(device_runtime::get(device), older);
  older.recorder = launch_recorder::strict(*older.stream);
  older.recorder->write(*older.ref);
  older.recorder->preflight();
  std::exit(0);
}

[[noreturn]] void end_with_memory_that_came_in_and_went_out(const std::string& device) {
  struct consumer {
    dlpack::versioned_tensor* tensor = nullptr;
    ~consumer() { tensor->deleter(tensor); }
  };
  static consumer older;
  static external_tensor tracked;
  auto& runtime = device_runtime::get(device);
  static kept younger;
  static external_tensor external;
  use(runtime, younger);
  older.tensor = export_dlpack(runtime, *younger.ref);
  tracked = import_dlpack(runtime, export_dlpack(runtime, *younger.ref), {.ready = true});
  external = import_dlpack(runtime, export_dlpack(runtime, *younger.ref));
  std::exit(0);
}

// "^$": nothing on standard error.

TEST_P(process_exit, is_quiet_with_objects_older_than_the_shared_runtime) {
  EXPECT_EXIT(end_with_objects_older_than_the_shared_runtime(GetParam()),
              ::testing::ExitedWithCode(0), "^$");
}
TEST_P(process_exit, is_quiet_with_objects_younger_than_the_shared_runtime) {
  EXPECT_EXIT(end_with_objects_younger_than_the_shared_runtime(GetParam()),
              ::testing::ExitedWithCode(0), "^$");
}
TEST_P(process_exit, is_quiet_with_an_owned_static_runtime) {
  EXPECT_EXIT(end_with_an_owned_static_runtime(GetParam()), ::testing::ExitedWithCode(0), "^$");
}
TEST_P(process_exit, is_quiet_with_a_tracked_direct_resource) {
  EXPECT_EXIT(end_with_a_tracked_direct_resource(GetParam()), ::testing::ExitedWithCode(0), "^$");
}
TEST_P(process_exit, is_quiet_with_work_in_flight) {
  EXPECT_EXIT(end_with_work_in_flight(GetParam()), ::testing::ExitedWithCode(0), "^$");
}
TEST_P(process_exit, is_quiet_with_memory_that_came_in_and_went_out) {
  EXPECT_EXIT(end_with_memory_that_came_in_and_went_out(GetParam()), ::testing::ExitedWithCode(0),
              "^$");
}
TEST_P(process_exit, reports_a_recorder_before_preflight) {
  EXPECT_EXIT(end_with_a_recorder_before_preflight(GetParam()), ::testing::ExitedWithCode(0),
              "^sluice: [^\n]*before preflight[^\n]*\n$");
}
TEST_P(process_exit, reports_a_recorder_after_preflight) {
  EXPECT_EXIT(end_with_a_recorder_after_preflight(GetParam()), ::testing::ExitedWithCode(0),
              "^sluice: [^\n]*still holds memory[^\n]*\nsluice: [^\n]*between preflight and "
              "commit[^\n]*\n");
}

TEST(process_exit_of_the_host, is_quiet_when_work_does_not_end) {
  EXPECT_EXIT(end_with_work_that_does_not_end("host"), ::testing::ExitedWithCode(0), "^$");
}

TEST(process_exit_of_cuda, is_quiet_when_a_stream_does_not_get_on) {
  if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
  EXPECT_EXIT(end_with_a_stream_that_does_not_get_on(), ::testing::ExitedWithCode(0), "^$");
}

// The control: the pattern of the tests above does see what is printed.
TEST(process_exit_pattern, sees_noise) {
  const auto noisy = [] {
    std::fputs("sluice: something\n", stderr);
    std::exit(0);
  };
  EXPECT_EXIT(noisy(), ::testing::ExitedWithCode(0), "^sluice: something\n$");
}

}  // namespace
}  // namespace sluice::test
