// SPDX-License-Identifier: Apache-2.0
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"

#include <sluice/envelope/operands.hpp>
#include <sluice/runtime/dlpack.hpp>
#include <sluice/runtime/host_device.hpp>
#include <sluice/runtime/memory_guard.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace {

using namespace sluice;
using namespace sluice::test;

class access_check : public device_test {
 protected:
  [[nodiscard]] gpu_ref<float> allocate(std::size_t count) const {
    return runtime().allocate<float>(count, stream(), "test");
  }
  /// Expects that nothing was queued and no lease is held.
  void expect_untouched(std::uint64_t launches) const {
    EXPECT_EQ(runtime().statistics().launches, launches);
    EXPECT_EQ(runtime().statistics().leases, 0u);
  }
};

TEST_P(access_check, makes_owners_in_order) {
  const auto a = allocate(4);
  const auto b = allocate(8);
  const auto uses = access_all(runtime(), read(a, "a"), write(b, "b", 8), read_write(a, "a"));
  ASSERT_EQ(uses.size(), 3u);
  EXPECT_EQ(uses[0].block, a.block());
  EXPECT_EQ(uses[0].access, access_kind::read);
  EXPECT_EQ(uses[1].block, b.block());
  EXPECT_EQ(uses[1].access, access_kind::write);
  EXPECT_EQ(uses[2].access, access_kind::read_write);
}

TEST_P(access_check, a_write_of_part_of_a_block_is_not_whole) {
  const auto a = allocate(8);
  const auto uses =
      access_all(runtime(), write(a, "all"), write(a, "needed", 8), write(a, "less", 4),
                 write(a.subspan(0, 4), "view"), write(a.subspan(4, 4), "view", 4));
  EXPECT_TRUE(uses[0].whole);
  EXPECT_TRUE(uses[1].whole);
  EXPECT_FALSE(uses[2].whole);
  EXPECT_FALSE(uses[3].whole);
  EXPECT_FALSE(uses[4].whole);
}

TEST_P(access_check, keeps_more_owners_than_fit_inline) {
  std::vector<gpu_ref<float>> refs;
  operands uses;
  for (std::size_t i = 0; i < 3 * operands::inline_owners; ++i) {
    refs.push_back(allocate(1));
    uses.add({refs.back().block(), access_kind::read, true});
  }
  const auto bytes = runtime().bytes_outstanding();
  std::vector<block_id> ids;
  for (const auto& ref : refs) ids.push_back(ref.block().id());
  refs.clear();
  EXPECT_EQ(runtime().bytes_outstanding(), bytes);
  const operands moved = std::move(uses);
  ASSERT_EQ(moved.size(), ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) EXPECT_EQ(moved[i].block.id(), ids[i]);
}

TEST_P(access_check, keeps_what_is_no_operand) {
  auto plan = std::make_shared<int>(1);
  const std::weak_ptr<int> alive = plan;
  {
    auto uses = access_all(runtime());
    uses.keep(std::move(plan));
    const auto moved = std::move(uses);
    EXPECT_FALSE(alive.expired());
  }
  EXPECT_TRUE(alive.expired());
}

TEST_P(access_check, an_empty_reference_is_named) {
  const auto a = allocate(4);
  const auto launches = runtime().statistics().launches;
  EXPECT_TRUE(throws(errc::invalid_argument, "bias: ", [&] {
    (void)access_all(runtime(), read(a, "a"), read(gpu_ref<float>(), "bias"));
  }));
  expect_untouched(launches);
}

TEST_P(access_check, a_stale_reference_is_named) {
  const auto a = allocate(4);
  const auto b = allocate(4);
  runtime().deallocate(b.block());
  const auto launches = runtime().statistics().launches;
  EXPECT_TRUE(throws(errc::stale_ref,
                     "b: ", [&] { (void)access_all(runtime(), read(a, "a"), write(b, "b")); }));
  expect_untouched(launches);
}

TEST_P(access_check, the_resource_is_told_of_a_stale_reference) {
  std::vector<guard_report> reports;
  device_runtime guarded(open_device(GetParam()),
                         {.resource = make_guard_resource(
                              make_async_resource(), {.on_report = [&](const guard_report& found) {
                                reports.push_back(found);
                              }})});
  const auto stream = guarded.create_stream();
  const auto a = guarded.allocate<float>(4, stream, "gone");
  guarded.deallocate(a.block());
  EXPECT_TRUE(throws(errc::stale_ref, "a:", [&] { (void)access_all(guarded, read(a, "a")); }));
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_EQ(reports[0].finding, guard_finding::stale_use);
  EXPECT_EQ(reports[0].block.tag.name(), "gone");
}

TEST_P(access_check, memory_of_another_runtime_is_named) {
  device_runtime other(open_device(GetParam()));
  const auto foreign_stream = other.create_stream();
  const auto foreign = other.allocate<float>(4, foreign_stream);
  EXPECT_TRUE(throws(errc::invalid_argument, "x: the memory belongs to another device runtime",
                     [&] { (void)access_all(runtime(), read(foreign, "x")); }));
}

TEST_P(access_check, memory_of_another_device_is_named) {
  host_device_options options;
  options.ordinal = 7;
  device_runtime other(open_host_device(options));
  const auto foreign_stream = other.create_stream();
  const auto foreign = other.allocate<float>(4, foreign_stream);
  EXPECT_TRUE(throws(errc::invalid_argument, "x: the memory is on host:7",
                     [&] { (void)access_all(runtime(), read(foreign, "x")); }));
}

TEST_P(access_check, memory_of_a_runtime_that_is_gone_is_refused) {
  gpu_ref<float> orphan;
  {
    device_runtime other(open_device(GetParam()));
    const auto stream = other.create_stream();
    orphan = other.allocate<float>(4, stream);
  }
  EXPECT_TRUE(
      throws(errc::stale_ref, "x: ", [&] { (void)access_all(runtime(), read(orphan, "x")); }));
}

TEST_P(access_check, memory_that_is_too_small_is_named) {
  const auto a = allocate(4);
  EXPECT_TRUE(throws(errc::invalid_argument, "a: has 16 bytes, but the operation needs 20",
                     [&] { (void)access_all(runtime(), read(a, "a", 5)); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "a: has 8 bytes",
                     [&] { (void)access_all(runtime(), read(a.subspan(2, 2), "a", 3)); }));
  // A number of elements whose size in bytes overflows.
  EXPECT_TRUE(throws(errc::invalid_argument, "a: ", [&] {
    (void)access_all(runtime(), read(a, "a", static_cast<std::size_t>(-1)));
  }));
}

TEST_P(access_check, memory_that_is_read_only_is_read) {
  const auto owned = allocate(4);
  float elements[4] = {};
  std::int64_t shape = 4;
  dlpack::versioned_tensor tensor{
      .version = {1, 0},
      .manager_ctx = nullptr,
      .deleter = nullptr,
      .flags = dlpack::read_only_flag,
      .tensor = {.data = on_host() ? static_cast<void*>(elements) : owned.data(),
                 .device = {on_host() ? dlpack::cpu : dlpack::cuda, 0},
                 .ndim = 1,
                 .dtype = {dlpack::real, 32, 1},
                 .shape = &shape,
                 .strides = nullptr,
                 .byte_offset = 0}};
  const auto a = import_dlpack(runtime(), &tensor, {.ready = true}).as<float>();
  EXPECT_EQ(access_all(runtime(), read(a, "a")).size(), 1u);
  EXPECT_TRUE(throws(errc::invalid_argument, "a: the memory is read-only",
                     [&] { (void)access_all(runtime(), write(a, "a")); }));
  EXPECT_TRUE(throws(errc::invalid_argument, "a: the memory is read-only",
                     [&] { (void)access_all(runtime(), read_write(a, "a", 1)); }));
}

TEST_P(access_check, memory_without_bytes_is_an_operand) {
  const auto none = allocate(0);
  EXPECT_EQ(access_all(runtime(), write(none, "none")).size(), 1u);
}

TEST_P(access_check, is_refused_while_shutting_down) {
  const auto a = allocate(4);
  EXPECT_TRUE(runtime().shut_down(std::chrono::seconds(10)));
  EXPECT_TRUE(throws(errc::shutting_down, "", [&] { (void)access_all(runtime(), read(a, "a")); }));
}

INSTANTIATE_TEST_SUITE_P(devices, access_check, every_device(), parameter_name);

TEST(access_check_on_loss, is_refused) {
  device_runtime runtime(open_host_device());
  const auto stream = runtime.create_stream();
  const auto a = runtime.allocate<float>(4, stream);
  runtime.device().lose(error(errc::library_failure, "the cause"));
  EXPECT_TRUE(
      throws(errc::device_lost, "the cause", [&] { (void)access_all(runtime, read(a, "a")); }));
}

}  // namespace
