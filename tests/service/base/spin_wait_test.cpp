// SPDX-License-Identifier: Apache-2.0
#include "service/base/spin_wait.hpp"

#include <gtest/gtest.h>

#include <chrono>
#include <stdexcept>

namespace sluice::service {
namespace {

constexpr auto short_wait = wait_forecast::short_wait;
constexpr auto long_wait = wait_forecast::short_wait + std::chrono::nanoseconds(1);

TEST(wait_forecast, expects_what_most_of_the_last_waits_were) {
  wait_forecast forecast;
  for (int i = 0; i < 4; ++i) {
    EXPECT_FALSE(forecast.is_short()) << i;
    forecast.note(short_wait);
  }
  EXPECT_TRUE(forecast.is_short());
  forecast.note(long_wait);
  EXPECT_FALSE(forecast.is_short());

  for (int i = 0; i < 100; ++i) forecast.note(short_wait);
  forecast.note(long_wait);
  forecast.note(long_wait);
  EXPECT_TRUE(forecast.is_short());
  forecast.note(long_wait);
  EXPECT_FALSE(forecast.is_short());

  // As many short waits as long ones do not suffice.
  for (int i = 0; i < 100; ++i) {
    forecast.note(long_wait);
    forecast.note(short_wait);
    EXPECT_FALSE(forecast.is_short()) << i;
  }
}

TEST(spin_limit, counts_the_threads) {
  spin_limit none(0);
  EXPECT_FALSE(none.try_enter());
  spin_limit two(2);
  EXPECT_TRUE(two.try_enter());
  EXPECT_TRUE(two.try_enter());
  EXPECT_FALSE(two.try_enter());
  EXPECT_FALSE(two.try_enter());
  two.leave();
  EXPECT_TRUE(two.try_enter());
}

/// A wait after many that ended at once.
struct short_waits {
  explicit short_waits(std::size_t threads) : limit(threads) {
    for (int i = 0; i < 1000; ++i) {
      (void)wait.spin([] { return true; });
      wait.end_sleep();
    }
  }
  spin_limit limit;
  spin_wait wait{limit};
};

TEST(spin_wait, sleeps_at_first_and_where_no_thread_may_spin) {
  const auto fail = []() -> bool {
    throw std::logic_error("it spins");
  };
  spin_limit limit(1);
  EXPECT_FALSE(spin_wait(limit).spin(fail));
  EXPECT_FALSE(short_waits(0).wait.spin(fail));
}

TEST(spin_wait, ends_with_the_condition) {
  short_waits waits(1);
  int turns = 0;
  // The time is over before ten turns only if the thread does not run meanwhile.
  for (int i = 0; i < 1000 && turns < 10; ++i) {
    turns = 0;
    if (waits.wait.spin([&] { return ++turns == 10; })) break;
    waits.wait.end_sleep();
  }
  EXPECT_EQ(turns, 10);
  EXPECT_TRUE(waits.limit.try_enter());
}

TEST(spin_wait, takes_no_place_of_another_thread_after_an_exception) {
  short_waits waits(1);
  const auto spin_until_it_throws = [&] {
    for (int i = 0; i < 1000; ++i) {
      (void)waits.wait.spin([]() -> bool { throw std::runtime_error("bad"); });
      waits.wait.end_sleep();
    }
  };
  EXPECT_THROW(spin_until_it_throws(), std::runtime_error);
  EXPECT_TRUE(waits.limit.try_enter());
}

}  // namespace
}  // namespace sluice::service
