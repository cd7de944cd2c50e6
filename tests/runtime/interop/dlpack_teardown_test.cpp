// SPDX-License-Identifier: Apache-2.0
// Imports and exports during and after the end of a runtime.
#include "tests/runtime/interop/dlpack_test.hpp"
#include "tests/support/collected_reports.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/small_launches.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {
namespace {

using namespace std::chrono_literals;

TEST_P(dlpack_on, an_export_outlives_its_block_and_its_runtime) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("the consumer goes by what the host has learnt by asking");
  using make_resource = std::unique_ptr<memory_resource> (*)();
  for (const make_resource make :
       {make_resource([] { return make_async_resource(); }),
        make_resource([] { return make_direct_resource({.tracked = true}); }),
        make_resource([] { return make_pool_resource(make_async_resource()); })}) {
    for (const bool with_stream : {false, true}) {
      const auto value = random_word();
      auto owned = std::make_unique<device_runtime>(open_device(GetParam()),
                                                    runtime_options{.resource = make()});
      const std::weak_ptr<detail::runtime_core> core = detail::runtime_core::of(*owned);
      auto own_stream = owned->create_stream();
      auto a = owned->allocate<std::uint32_t>(100, own_stream);
      launch_fill(a, value, own_stream);
      dlpack_export as{};
      if (with_stream) as.stream = named(other_stream());
      auto* out = export_dlpack(*owned, a, as);
      auto* twice = export_dlpack(*owned, a, as);
      owned->deallocate(a.block());
      EXPECT_EQ(owned->statistics().blocks, 0u);
      EXPECT_EQ(owned->statistics().bytes_outstanding, 400u);
      EXPECT_TRUE(throws(errc::stale_ref, "", [&] { (void)export_dlpack(*owned, a); }));
      a = {};
      own_stream = {};
      twice->deleter(twice);
      const collected_reports reports;
      owned.reset();
      EXPECT_EQ(reports.text(), "");
      EXPECT_FALSE(core.expired());
      const auto seen = words(100);
      other().device().copy(seen.data(), out->tensor.data, seen.bytes(),
                            copy_direction::device_to_device, other_stream().native());
      EXPECT_EQ(download(seen, other_stream()), std::vector(100, value));
      std::thread([out] { out->deleter(out); }).join();
      EXPECT_TRUE(core.expired());
    }
  }
}

TEST_P(dlpack_on, the_deleter_of_an_export_that_outlives_its_runtime_does_not_wait) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("it ends the last of a runtime behind a gate");
  using make_resource = std::unique_ptr<memory_resource> (*)();
  for (const make_resource make :
       {make_resource([] { return make_default_resource(); }),
        make_resource([] { return make_direct_resource({.tracked = true}); }), make_resource([] {
          return make_pool_resource(make_direct_resource({.tracked = true}));
        })}) {
    const auto value = random_word();
    const auto seen = words(100);
    auto device = open_device(GetParam());
    const std::weak_ptr<sluice::device> ends = device;
    auto owned = std::make_unique<device_runtime>(device, runtime_options{.resource = make()});
    auto own_stream = owned->create_stream();
    auto a = owned->allocate<std::uint32_t>(100, own_stream);
    launch_fill(a, value, own_stream);
    auto* out = export_dlpack(*owned, a, {.stream = named(other_stream())});
    a = {};
    own_stream = {};
    owned.reset();
    device.reset();
    gate closed;
    closed.hold(other_stream());
    other().device().copy(seen.data(), out->tensor.data, seen.bytes(),
                          copy_direction::device_to_device, other_stream().native());
    out->deleter(out);
    closed.open();
    EXPECT_EQ(download(seen, other_stream()), std::vector(100, value));
    await([&] { return ends.expired(); });
  }
}

TEST_P(dlpack_on, a_producer_may_end_the_runtime_that_gives_it_back) {
  new_tensor tensor(words(10));
  new_tensor waiting(words(10));
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()),
                                                runtime_options{.drain_timeout = 60s});
  const std::weak_ptr<detail::runtime_core> core = detail::runtime_core::of(*owned);
  struct owner {
    std::unique_ptr<device_runtime>& runtime;
    returned& back;
  } kept{owned, tensor.back};
  tensor.get()->manager_ctx = &kept;
  tensor.get()->deleter = [](dlpack::versioned_tensor* self) {
    auto* last = static_cast<owner*>(self->manager_ctx);
    last->runtime.reset();
    last->back.note();
  };
  auto other_import = import_dlpack(*owned, waiting.get(), {.ready = true});
  const collected_reports reports;
  (void)import_dlpack(*owned, tensor.get(), {.ready = true});
  tensor.back.wait();
  // The end of the runtime frees it after the import whose producer ended the runtime.
  waiting.back.wait();
  EXPECT_TRUE(other_import.block().stale());
  other_import = {};
  await([&] { return core.expired(); });
  EXPECT_EQ(reports.text(), "") << "it waited for itself";
}

TEST_P(dlpack_on, a_tracked_import_has_gone_back_when_the_runtime_has_ended) {
  new_tensor tensor(words(10));
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
  const auto imported = import_dlpack(*owned, tensor.get(), {.stream = named(other_stream())});
  owned.reset();
  EXPECT_EQ(tensor.back.times.load(), 1);
  EXPECT_TRUE(imported.block().stale());
}

/// A launch behind a gate that reads an import. If the runtime ends meanwhile, it gives up its
/// device, which continues with queued work.
class import_in_use {
 public:
  import_in_use(const std::string& device, gpu_ref<std::uint32_t> memory)
      : tensor_(std::move(memory)),
        runtime_(std::make_unique<device_runtime>(open_device(device),
                                                  runtime_options{.drain_timeout = 100ms})),
        stream_(runtime_->create_stream()),
        imported_(import_dlpack(*runtime_, tensor_.get(), {.ready = true})),
        recorder_(launch_recorder::strict(stream_)) {
    closed_.hold(stream_);
    recorder_.read(imported_);
    recorder_.preflight();
    (void)recorder_.commit();
    closed_.wait_until_reached();  // after a loss, the device skips work that has not begun
  }

  void end_stream() { stream_ = {}; }
  /// Ends the runtime. The import is reported and stays.
  void end_runtime() {
    imported_ = {};
    tensor_.back.in_use.store(true);
    const collected_reports reports;
    runtime_.reset();
    const auto said = reports.text();
    EXPECT_NE(said.find("imported memory"), std::string::npos) << said;
    EXPECT_EQ(tensor_.back.times.load(), 0);
    tensor_.back.in_use.store(false);
  }
  /// Ends the launch. The import returns to its producer.
  void end_launch() {
    closed_.open();
    tensor_.back.wait();
    EXPECT_FALSE(tensor_.back.too_early.load());
  }

 private:
  new_tensor tensor_;
  std::unique_ptr<device_runtime> runtime_;
  sluice::stream stream_;
  sluice::tensor imported_;
  gate closed_;
  launch_recorder recorder_;
};

TEST_P(dlpack_on, a_runtime_ends_although_the_use_of_an_import_does_not) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("a lost GPU keeps its memory");
  import_in_use import_use(GetParam(), words(10));
  import_use.end_runtime();
  import_use.end_stream();
  import_use.end_launch();
}

TEST_P(dlpack_on, a_stream_that_is_gone_still_keeps_an_import_on_a_lost_device) {
  SLUICE_SKIP_UNDER_COMPUTE_SANITIZER("a lost GPU keeps its memory");
  import_in_use import_use(GetParam(), words(10));
  import_use.end_stream();  // before the loss: only the stream's last ticket remains
  import_use.end_runtime();
  import_use.end_launch();
}

TEST_P(dlpack_on, a_runtime_may_end_with_imports_of_its_own_exports) {
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()));
  const std::weak_ptr<detail::runtime_core> core = detail::runtime_core::of(*owned);
  auto own_stream = owned->create_stream();
  auto a = owned->allocate<std::uint32_t>(10, own_stream);
  launch_fill(a, 1, own_stream);
  auto imported = import_dlpack(*owned, export_dlpack(*owned, a), {.ready = true});
  own_stream = {};
  a = {};
  owned.reset();
  imported = {};
  await([&] { return core.expired(); });
}

TEST_P(dlpack_on, a_recorder_with_leases_on_an_import_may_outlive_the_runtime) {
  new_tensor tensor(words(10));
  auto owned = std::make_unique<device_runtime>(open_device(GetParam()),
                                                runtime_options{.drain_timeout = 100ms});
  const std::weak_ptr<detail::runtime_core> core = detail::runtime_core::of(*owned);
  auto own_stream = owned->create_stream();
  auto imported = import_dlpack(*owned, tensor.get(), {.ready = true});
  const collected_reports reports;
  {
    auto recorder = begin_read(imported, own_stream);
    owned.reset();
    EXPECT_EQ(tensor.back.times.load(), 0);
  }
  const auto said = reports.text();
  EXPECT_NE(said.find("still uses memory"), std::string::npos) << said;
  tensor.back.wait();
  imported = {};
  own_stream = {};
  await([&] { return core.expired(); });
}

}  // namespace
}  // namespace sluice::test
