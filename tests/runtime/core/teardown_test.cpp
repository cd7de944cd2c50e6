// SPDX-License-Identifier: Apache-2.0
// The end of a process: each test runs one to its end, as a child. The sanitizers also check it,
// because a leak or a race changes its exit code.
#include "runtime/core/runtime_core.hpp"
#include "runtime/core/shared_runtimes.hpp"
#include "runtime/devices/open_devices.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/forwarding_device.hpp"
#include "tests/support/gate.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/copy.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::test {
namespace {

class process_exit : public named_device_test {};
INSTANTIATE_TEST_SUITE_P(devices, process_exit, every_device(), parameter_name);

/// Objects that a program may keep in static storage.
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
  (void)launch_fill(*k.ref, 1, *k.stream);
}

// Static objects are destroyed in reverse order of construction.

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
  older.blocks.clear();  // the reclaim thread now has work
  std::exit(0);
}

[[noreturn]] void end_with_work_in_flight(const std::string& device) {
  static kept older;
  auto& runtime = device_runtime::get(device);
  use(runtime, older);
  for (int i = 0; i < 2000; ++i) {
    (void)launch_fill(*older.ref, static_cast<float>(i), *older.stream);
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
  runtime.device().notify(older.stream->ref().native(), [device = &runtime.device()] {
    // Ends only when the device has been declared lost.
    await([&] { return device->lost(); });
  });
  std::exit(0);
}

// A GPU stream that waits for ever, as if behind an endless kernel.
[[noreturn]] void end_with_a_stream_that_does_not_get_on() {
  device_runtime::configure(parse_device_id("cuda"), [] {
    return runtime_options{.drain_timeout = std::chrono::milliseconds(1)};
  });
  static kept older;
  use(device_runtime::get("cuda"), older);
  static auto* const closed = new gate;  // the gate stays closed
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
  static tensor older_import;
  auto& runtime = device_runtime::get(device);
  static kept younger;
  static tensor younger_import;
  use(runtime, younger);
  older.tensor = export_dlpack(runtime, *younger.ref);
  for (auto* import : {&older_import, &younger_import}) {
    *import = import_dlpack(runtime, export_dlpack(runtime, *younger.ref), {.ready = true});
  }
  std::exit(0);
}

/// Two devices with shared runtimes: `first` is created before `second`.
struct two_shared {
  std::string first;
  std::string second;
  bool copy_to_first;
};

std::string name_of(const two_shared& devices) {
  auto name = devices.first + "_then_" + devices.second +
              (devices.copy_to_first ? "_from_the_second" : "_from_the_first");
  std::ranges::replace(name, ':', '_');
  return name;
}

/// Opens a device. A host device with an ordinal that `list_devices` does not return works, too.
std::shared_ptr<device> open_any(device_id id) {
  if (id.kind == device_kind::host) return open_host_device({.ordinal = id.ordinal});
  return open_device(to_string(id));
}

/// Objects that outlive the shared runtimes. Their destructor reports lost devices.
struct kept_of_a_copy {
  kept source;
  kept target;
  std::vector<std::shared_ptr<device>> devices;
  ~kept_of_a_copy() {
    for (const auto& d : devices) {
      if (d->lost()) std::fputs("a device was lost\n", stderr);
    }
  }
};

[[noreturn]] void end_with_a_copy_in_flight(const two_shared& devices) {
  static kept_of_a_copy older;
  static detail::shared_runtimes all(open_any);
  auto& first = all.get(parse_device_id(devices.first));
  auto& second = all.get(parse_device_id(devices.second));
  auto& source = devices.copy_to_first ? second : first;
  auto& target = devices.copy_to_first ? first : second;
  use(source, older.source);
  use(target, older.target);
  older.devices = {source.shared_device(), target.shared_device()};
  for (const auto* k : {&older.source, &older.target}) k->stream->synchronize();
  // The host device's part of the copy does not run before the runtimes end.
  const bool from_host = source.device().id().kind == device_kind::host;
  const auto held = (from_host ? older.source : older.target).stream->ref();
  held.device().notify(held.native(), [] {
    await([] {
      try {
        (void)all.get({device_kind::host, 0});
        return false;
      } catch (const error& e) {
        return e.code() == errc::shutting_down;
      }
    });
  });
  const auto copied = enqueue_copy(*older.target.ref, *older.target.stream, *older.source.ref,
                                   *older.source.stream);
  if (detail::runtime_core::of(target)->find(copied.stream)->advance() >= copied.ticket)
    std::exit(3);
  std::exit(0);
}

/// Uses the shared runtimes after their destruction.
struct asks_in_its_destructor {
  std::string device;
  ~asks_in_its_destructor() {
    const auto ask = [](const auto& call) {
      try {
        call();
        std::fputs("not refused\n", stderr);
      } catch (const error& e) {
        std::fprintf(stderr, "%s\n", std::string(to_string(e.code())).c_str());
      }
    };
    ask([this] { (void)device_runtime::get(device); });
    ask([] { (void)device_runtime::get("cuda:99"); });  // it was never created
    ask([] { device_runtime::configure({device_kind::host, 0}, {}); });
  }
};

[[noreturn]] void end_with_a_question_after_the_end(const std::string& device) {
  static asks_in_its_destructor older{device};
  static kept held;
  use(device_runtime::get(device), held);
  std::exit(0);
}

/// A device in whose constructor the process begins to exit, as another thread could make it.
class half_built final : public forwarding_device {
 public:
  half_built() : forwarding_device({device_kind::host, 7}, open_host_device()) {
    detail::open_devices::instance().end();
    built_ = true;
  }

 protected:
  void on_loss() noexcept override {
    if (!built_) std::fputs("the exit reached a device before its construction\n", stderr);
  }

 private:
  bool built_ = false;
};

[[noreturn]] void end_during_the_construction_of_a_device() {
  half_built late;
  const bool reached_early = late.lost();
  detail::open_devices::instance().add(late);
  const bool lost = late.lost() && open_host_device()->lost();
  detail::open_devices::instance().remove(late);
  std::exit(lost && !reached_early ? 0 : 1);
}

// "^$" matches an empty standard error.

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
              "^sluice: [^\n]*waiting for a launch between preflight and commit[^\n]*\n"
              "sluice: [^\n]*still uses memory[^\n]*\n"
              "sluice: [^\n]*destroyed between preflight and commit[^\n]*\n");
}

TEST_P(process_exit, refuses_who_asks_for_a_shared_runtime_later) {
  EXPECT_EXIT(end_with_a_question_after_the_end(GetParam()), ::testing::ExitedWithCode(0),
              "^shutting_down\nshutting_down\nshutting_down\n$");
}

class process_exit_with_two : public ::testing::TestWithParam<two_shared> {};
INSTANTIATE_TEST_SUITE_P(
    devices, process_exit_with_two,
    ::testing::Values(two_shared{"host:0", "host:1", false}, two_shared{"host:0", "host:1", true},
                      two_shared{"host", "cuda", false}, two_shared{"host", "cuda", true},
                      two_shared{"cuda", "host", false}, two_shared{"cuda", "host", true}),
    [](const auto& parameter) { return name_of(parameter.param); });

TEST_P(process_exit_with_two, is_quiet_with_a_copy_in_flight) {
  for (const auto& name : {GetParam().first, GetParam().second}) {
    if (!has_device(name)) GTEST_SKIP() << "this machine has no device '" << name << "'";
  }
  EXPECT_EXIT(end_with_a_copy_in_flight(GetParam()), ::testing::ExitedWithCode(0), "^$");
}

TEST(process_exit_of_the_host, reaches_no_device_before_its_construction) {
  EXPECT_EXIT(end_during_the_construction_of_a_device(), ::testing::ExitedWithCode(0), "^$");
}

TEST(process_exit_of_the_host, is_quiet_when_work_does_not_end) {
  EXPECT_EXIT(end_with_work_that_does_not_end("host"), ::testing::ExitedWithCode(0), "^$");
}

TEST(process_exit_of_cuda, is_quiet_when_a_stream_does_not_get_on) {
  if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
  EXPECT_EXIT(end_with_a_stream_that_does_not_get_on(), ::testing::ExitedWithCode(0), "^$");
}

// The control: the pattern of the tests above detects output.
TEST(process_exit_pattern, sees_noise) {
  const auto noisy = [] {
    std::fputs("sluice: something\n", stderr);
    std::exit(0);
  };
  EXPECT_EXIT(noisy(), ::testing::ExitedWithCode(0), "^sluice: something\n$");
}

}  // namespace
}  // namespace sluice::test
