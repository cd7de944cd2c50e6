// SPDX-License-Identifier: Apache-2.0
// Exports: their order with earlier and later work, and their descriptors.
#include "tests/runtime/interop/dlpack_test.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

namespace sluice::test {
namespace {

TEST_P(dlpack_on, an_export_with_a_stream_is_ordered_both_ways) {
  const auto first = random_word();
  const auto second = random_word();
  const auto a = runtime().allocate<std::uint32_t>(100, stream());
  const auto result = runtime().allocate<std::uint32_t>(100, stream());
  const auto seen = words(100);
  gate ours;
  ours.hold(stream());
  launch_fill(a, first, stream());
  auto* out = export_dlpack(runtime(), a, {.stream = named(other_stream())});
  ASSERT_EQ(out->tensor.data, a.data());
  other().device().copy(seen.data(), out->tensor.data, seen.bytes(),
                        copy_direction::device_to_device, other_stream().native());
  ours.open();
  EXPECT_EQ(download(seen, other_stream()), std::vector(100, first));

  gate theirs;
  theirs.hold(other_stream());
  other().device().fill(out->tensor.data, &second, sizeof second, 100, other_stream().native());
  std::thread([out] { out->deleter(out); }).join();
  expect_nothing_is_out();
  const auto point = copy(result, a, stream());
  EXPECT_FALSE(ended(point));
  theirs.open();
  EXPECT_EQ(download(result, stream()), std::vector(100, second));
}

// The use of an export takes no lease, so it can be published between a launch's preflight and
// commit.
TEST_P(dlpack_on, an_export_that_comes_back_during_a_launch_is_waited_for_later) {
  const auto value = random_word();
  const auto a = runtime().allocate<std::uint32_t>(20, stream());
  const auto third = runtime().create_stream();
  const auto seen = words(10);
  launch_fill(a, value, stream());
  auto* out = export_dlpack(runtime(), a.subspan(0, 10),
                            {.stream = named(other_stream()), .read_only = true});
  gate closed;
  closed.hold(other_stream());
  other().device().copy(seen.data(), out->tensor.data, seen.bytes(),
                        copy_direction::device_to_device, other_stream().native());
  const auto rest = a.subspan(10, 10);
  auto recorder = begin_write(rest, stream());
  const auto before = uses_of(a);
  out->deleter(out);
  timeline_point consumed;
  for (const auto& point : uses_of(a).all) {
    if (!before.holds(point)) consumed = point;
  }
  ASSERT_TRUE(consumed);
  enqueue_fill(rest, value + 1, stream());
  (void)recorder.commit();
  EXPECT_TRUE(uses_of(a).holds(consumed));
  const auto point = launch_fill(a, value + 2, third);
  EXPECT_FALSE(
      detail::timeline::of(third.ref())
          ->wait_for(*detail::runtime_core::of(runtime())->find(consumed.stream), consumed.ticket));
  EXPECT_FALSE(ended(point));
  closed.open();
  EXPECT_EQ(download(seen, other_stream()), std::vector(10, value));
  EXPECT_EQ(download(a, third), std::vector(20, value + 2));
}

TEST_P(dlpack_on, memory_that_was_exported_is_freed_after_the_consumers_uses) {
  const auto value = random_word();
  auto a = runtime().allocate<std::uint32_t>(1000, stream());
  launch_fill(a, value, stream());
  const auto seen = words(1000);
  gate closed;
  auto* out = export_dlpack(runtime(), a, {.stream = named(other_stream()), .read_only = true});
  closed.hold(other_stream());
  other().device().copy(seen.data(), out->tensor.data, seen.bytes(),
                        copy_direction::device_to_device, other_stream().native());
  a = {};
  out->deleter(out);
  // New owners of the memory are ordered after the consumer's copy.
  for (int i = 0; i < 4; ++i) {
    launch_fill(runtime().allocate<std::uint32_t>(1000, stream()), value + 1, stream());
  }
  closed.open();
  EXPECT_EQ(download(seen, other_stream()), std::vector(1000, value));
}

TEST_P(dlpack_on, an_export_without_a_stream_waits_here) {
  const auto a = runtime().allocate<std::uint32_t>(100, stream());
  const auto own_stream = runtime().create_stream();
  gate closed;
  closed.hold(own_stream);
  launch_fill(a, random_word(), own_stream);
  const auto launches = runtime().statistics().launches;
  std::atomic<bool> opened{false};
  bool waited = false;
  dlpack::versioned_tensor* out = nullptr;
  std::thread exporting([&] {
    out = export_dlpack(runtime(), a);
    waited = opened.load();
  });
  await([&] { return runtime().statistics().launches > launches; });
  opened.store(true);
  closed.open();
  exporting.join();
  EXPECT_TRUE(waited);
  out->deleter(out);
}

TEST_P(dlpack_on, a_writable_export_comes_after_reads_and_a_read_only_one_does_not) {
  const auto before = random_word();
  const auto a = runtime().allocate<std::uint32_t>(100, stream());
  const auto result = runtime().allocate<std::uint32_t>(100, stream());
  launch_fill(a, before, stream());
  gate closed;
  closed.hold(stream());
  copy(result, a, stream());
  auto* reading = export_dlpack(runtime(), a, {.stream = named(other_stream()), .read_only = true});
  EXPECT_EQ(reading->flags, dlpack::read_only_flag);
  other_stream().synchronize();  // it is behind no gate
  reading->deleter(reading);
  auto* writing = export_dlpack(runtime(), a, {.stream = named(other_stream())});
  EXPECT_EQ(writing->flags, 0u);
  const auto after = before + 1;
  other().device().fill(writing->tensor.data, &after, sizeof after, 100, other_stream().native());
  writing->deleter(writing);
  closed.open();
  EXPECT_EQ(download(result, stream()), std::vector(100, before));
  EXPECT_EQ(download(a, stream()), std::vector(100, after));
}

TEST_P(dlpack_on, a_tensor_goes_out_with_its_shape_and_strides) {
  const auto a = runtime().allocate<std::uint32_t>(10, stream());
  const auto check = [&](const tensor& memory) {
    auto* out = export_dlpack(runtime(), memory);
    const auto rank = static_cast<std::size_t>(out->tensor.ndim);
    EXPECT_EQ(extents(std::span<const std::int64_t>(out->tensor.shape, rank)),
              extents(memory.shape()));
    EXPECT_EQ(extents(std::span<const std::int64_t>(out->tensor.strides, rank)),
              extents(memory.strides()));
    EXPECT_EQ(out->tensor.data, memory.address());
    out->deleter(out);
  };
  const tensor all = a;
  check(all);
  check(all.select(0, 3));
  check(all.reshape({2, 5}));
  check(all.reshape({2, 5}).transposed().slice(0, 1, 4, 2));
  check(all.slice(0, 2, 2).reshape({2, 0, 5}));
  check(all.select(0, 9).broadcast_to({3, 4}));
}

}  // namespace
}  // namespace sluice::test
