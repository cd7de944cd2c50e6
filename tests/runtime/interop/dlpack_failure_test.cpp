// SPDX-License-Identifier: Apache-2.0
// Host memory runs short, and failures that the host device can script.
#include "tests/runtime/interop/dlpack_test.hpp"
#include "tests/support/small_launches.hpp"

#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/host_task.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace sluice::test {
namespace {

TEST_P(dlpack_on, a_busy_adoption_stream_serves_where_there_can_be_no_other) {
  if (!on_host()) GTEST_SKIP() << "the driver does not take failed allocations";
  new_tensor tensor(words(10));
  tensor.ends_when_back = true;
  gate closed;
  closed.hold(other_stream());
  const auto imported = import_dlpack(runtime(), tensor.get(), {.stream = named(other_stream())});
  auto& core = *detail::runtime_core::of(runtime());
  int refusals = 0;
  const auto failures = with_each_allocation_failing(
      [&] {
        const auto streams = runtime().statistics().streams;
        const auto& timeline = core.adoption_timeline();
        if (runtime().statistics().streams == streams) {
          EXPECT_GT(timeline.newest().ticket, 0u) << "the one that there is";
        }
      },
      [&] { ++refusals; });
  EXPECT_GE(failures, 3);
  EXPECT_EQ(refusals, 0);
  closed.open();
}

TEST_P(dlpack_on, survives_a_lack_of_host_memory) {
  if (!on_host()) GTEST_SKIP() << "the driver does not take failed allocations";
  // Objects that are created once exist afterwards, and a record is free.
  new_tensor first(words(10));
  (void)import_dlpack(runtime(), first.get(), {.stream = named(other_stream())});
  first.back.wait();
  expect_nothing_is_out();
  for (const import_options& options :
       {import_options{.ready = true}, import_options{.stream = named(other_stream())}}) {
    new_tensor tensor(words(10));
    const auto failures =
        with_each_allocation_failing([&] { (void)import_dlpack(runtime(), tensor.get(), options); },
                                     [&] {
                                       EXPECT_EQ(tensor.back.times.load(), 0);
                                       expect_nothing_is_out();
                                       EXPECT_EQ(runtime().statistics().blocks, 0u);
                                     });
    EXPECT_GE(failures, 1);
    tensor.back.wait();
  }
  const auto a = runtime().allocate<std::uint32_t>(10, stream());
  launch_fill(a, 3, stream());
  for (const dlpack_export& as :
       {dlpack_export{}, dlpack_export{.stream = named(other_stream())}}) {
    // The last export succeeds. Earlier ones also succeed where a lack of memory is made up for.
    std::vector<dlpack::versioned_tensor*> out;
    out.reserve(1000);
    const auto failures =
        with_each_allocation_failing([&] { out.push_back(export_dlpack(runtime(), a, as)); },
                                     [&] {
                                       EXPECT_EQ(runtime().statistics().exports, out.size());
                                       EXPECT_EQ(runtime().statistics().leases, 0u);
                                     });
    EXPECT_GE(failures, 2);
    for (auto* each : out) each->deleter(each);
  }
  expect_nothing_is_out();
}

TEST(dlpack_on_a_failing_host, refuses_to_export_what_a_failed_launch_wrote) {
  const auto faults = std::make_shared<fault_script>();
  device_runtime runtime(open_host_device({.faults = faults}));
  device_runtime consumer(open_host_device());
  const auto s = runtime.create_stream();
  const auto theirs = consumer.create_stream();
  for (const bool with_stream : {false, true}) {
    const auto a = runtime.allocate<std::uint32_t>(10, s);
    faults->fail_nth(fault_target::launch, 1);
    auto recorder = begin_write(a, s);
    submit_host_task(s, [] {});
    const auto point = recorder.commit();
    dlpack_export as{};
    if (with_stream) {
      detail::runtime_core::of(runtime)->wait_until_complete(point);
      as.stream = foreign_stream(theirs.ref().native());
    }
    EXPECT_TRUE(throws(errc::upstream_failed, "", [&] { (void)export_dlpack(runtime, a, as); }));
  }
  EXPECT_EQ(runtime.statistics().exports, 0u);
}

TEST(dlpack_on_a_failing_host, what_a_lost_producer_wrote_has_failed) {
  device_runtime runtime(open_host_device());
  const auto s = runtime.create_stream();
  auto lost = std::make_unique<device_runtime>(open_host_device());
  auto theirs = lost->create_stream();
  new_tensor tensor(lost->allocate<std::uint32_t>(10, theirs));
  gate closed;
  closed.hold(theirs);
  {
    const auto imported =
        import_dlpack(runtime, tensor.get(), {.stream = foreign_stream(theirs.ref().native())});
    auto recorder = begin_read(imported, s);
    const auto point = recorder.commit();
    lost->device().lose(error(errc::device_lost, "smoke"));
    closed.open();
    auto* line = detail::runtime_core::of(runtime)->find(point.stream);
    line->wait_until(point.ticket);
    ASSERT_TRUE(line->failure_of(point.ticket).has_value());
    EXPECT_EQ(line->failure_of(point.ticket)->code(), errc::upstream_failed);
  }
  tensor.back.wait();
}

TEST(dlpack_on_a_failing_host, a_lost_runtime_gives_back_once_nothing_runs) {
  device_runtime producer(open_host_device());
  const auto theirs = producer.create_stream();
  new_tensor tensor(producer.allocate<std::uint32_t>(10, theirs));
  auto runtime = std::make_unique<device_runtime>(open_host_device());
  auto s = runtime->create_stream();
  auto imported = import_dlpack(*runtime, tensor.get(), {.ready = true});
  std::atomic<bool> end{false};
  auto recorder = begin_read(imported, s);
  submit_host_task(s, [&] {
    tensor.back.in_use.store(true);
    await([&] { return end.load(); });
    tensor.back.in_use.store(false);
  });
  await([&] { return tensor.back.in_use.load(); });
  runtime->device().lose(error(errc::device_lost, "smoke"));
  EXPECT_TRUE(throws(errc::device_lost, "smoke", [&] { (void)recorder.commit(); }));
  imported = {};
  EXPECT_EQ(runtime->statistics().imports, 1u);
  end.store(true);
  tensor.back.wait();
  EXPECT_FALSE(tensor.back.too_early.load());
  runtime.reset();
}

TEST(dlpack_on_a_failing_host, a_loss_that_a_deleter_is_the_first_to_see_gives_back) {
  device_runtime producer(open_host_device());
  const auto theirs = producer.create_stream();
  new_tensor tensor(producer.allocate<std::uint32_t>(10, theirs));
  device_runtime runtime(open_host_device());
  auto imported = import_dlpack(runtime, tensor.get(), {.ready = true});
  auto* out = export_dlpack(runtime, imported, {.stream = foreign_stream(theirs.ref().native())});
  imported = {};
  // The deleter's first allocation then follows the consumer's stream, and no lock is held there.
  await([&] {
    bool idle = true;
    detail::runtime_core::of(runtime)->for_each_timeline(
        [&](detail::timeline& t) { idle = t.advance() >= t.newest().ticket && idle; });
    return idle;
  });
  const std::function<void()> lose = [&] {
    runtime.device().lose(error(errc::device_lost, "smoke"));
  };
  fail_allocation(1, &lose);
  out->deleter(out);
  EXPECT_FALSE(allocation_is_to_fail());
  fail_allocation(0);
  ASSERT_TRUE(runtime.device().lost());
  EXPECT_EQ(runtime.statistics().exports, 0u);
  tensor.back.wait();
}

TEST(dlpack_on_a_failing_host, a_lost_runtime_waits_for_no_producer) {
  device_runtime producer(open_host_device());
  const auto theirs = producer.create_stream();
  new_tensor tensor(producer.allocate<std::uint32_t>(10, theirs));
  gate closed;
  closed.hold(theirs);
  auto runtime = std::make_unique<device_runtime>(open_host_device());
  const auto imported =
      import_dlpack(*runtime, tensor.get(), {.stream = foreign_stream(theirs.ref().native())});
  runtime->device().lose(error(errc::device_lost, "smoke"));
  runtime.reset();
  EXPECT_EQ(tensor.back.times.load(), 1);
  closed.open();
}

}  // namespace
}  // namespace sluice::test
