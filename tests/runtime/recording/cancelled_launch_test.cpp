// SPDX-License-Identifier: Apache-2.0
// Cancelled launches, and recorders that do not wait for others.
#include "tests/support/devices.hpp"
#include "tests/support/expect_error.hpp"
#include "tests/support/small_launches.hpp"
#include "tests/support/use_state.hpp"

#include <sluice/runtime/launch_recorder.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <thread>

namespace sluice::test {
namespace {

class cancelled_launch_on : public device_test {
 protected:
  [[nodiscard]] gpu_ref<std::uint32_t> fresh() {
    return runtime().allocate<std::uint32_t>(64, stream(), "test");
  }
  [[nodiscard]] runtime_statistics now() const { return runtime().statistics(); }
};
INSTANTIATE_TEST_SUITE_P(devices, cancelled_launch_on, every_device(), parameter_name);

TEST_P(cancelled_launch_on, holds_nothing_and_publishes_nothing) {
  const auto a = fresh();
  const auto before = uses_of(a);
  const auto launches = now().launches;
  {
    auto recorder = begin_write(a, stream());
    EXPECT_EQ(now().leases, 1u);
    recorder.cancel();
    EXPECT_EQ(now().leases, 0u);
  }
  EXPECT_EQ(now().recorders_abandoned, 0u);
  EXPECT_EQ(now().launches, launches);
  EXPECT_EQ(uses_of(a).version, before.version);
}

TEST_P(cancelled_launch_on, may_be_made_later_with_more_uses) {
  const auto a = fresh();
  const auto b = fresh();
  auto recorder = begin_write(a, stream());
  recorder.cancel();
  recorder.read(b);
  recorder.preflight();
  EXPECT_EQ(now().leases, 2u);
  const auto point = recorder.commit();
  EXPECT_EQ(uses_of(a).last_write, point);
  EXPECT_TRUE(uses_of(b).holds(point));
}

TEST_P(cancelled_launch_on, may_be_given_up_before_preflight) {
  const auto a = fresh();
  {
    auto recorder = launch_recorder::strict(stream());
    recorder.write(a);
    recorder.cancel();
    recorder.cancel();
  }
  EXPECT_EQ(now().recorders_abandoned, 0u);
}

TEST_P(cancelled_launch_on, stays_cancelled_when_it_cannot_be_tried_again) {
  const auto a = fresh();
  auto other = begin_write(a, stream());
  {
    auto recorder = launch_recorder::strict(stream());
    recorder.write(a);
    recorder.cancel();
    EXPECT_FALSE(recorder.try_preflight());
  }
  EXPECT_EQ(now().recorders_abandoned, 0u);
  other.commit();
}

TEST_P(cancelled_launch_on, is_none_after_commit_or_a_refusal) {
  const auto a = fresh();
  auto recorder = begin_write(a, stream());
  const auto point = recorder.commit();
  recorder.cancel();
  EXPECT_EQ(uses_of(a).last_write, point);
  EXPECT_TRUE(throws(errc::stream_misuse, "already called", [&] { (void)recorder.commit(); }));
  auto refused = launch_recorder::strict(stream());
  refused.read(column::external(runtime().device().id(), nullptr, 0, element_type::u8));
  EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { refused.preflight(); }));
  refused.cancel();
  EXPECT_TRUE(throws(errc::stream_misuse, "identity", [&] { refused.preflight(); }));
}

TEST_P(cancelled_launch_on, a_try_answers_false_where_preflight_would_wait) {
  const auto a = fresh();
  const auto b = fresh();
  auto holding = begin_write(a, stream());
  const auto other = runtime().create_stream();
  std::thread elsewhere([&] {
    auto recorder = launch_recorder::strict(other);
    recorder.read(a).write(b);
    EXPECT_FALSE(recorder.try_preflight());
    EXPECT_EQ(now().leases, 1u) << "all or nothing";
    auto alone = launch_recorder::strict(other);
    alone.write(b);
    EXPECT_TRUE(alone.try_preflight());
    (void)alone.commit();
    recorder.cancel();
  });
  elsewhere.join();
  // A thread that holds a lease may not wait; `try_preflight` returns false and reports no misuse.
  auto same_thread = launch_recorder::strict(other);
  same_thread.read(a);
  EXPECT_FALSE(same_thread.try_preflight());
  (void)holding.commit();
  EXPECT_TRUE(same_thread.try_preflight());
  (void)same_thread.commit();
  EXPECT_EQ(now().recorders_abandoned, 0u);
}

}  // namespace
}  // namespace sluice::test
