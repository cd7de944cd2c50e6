// SPDX-License-Identifier: Apache-2.0
#include "service/metrics/model_statistics.hpp"

#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <random>
#include <thread>
#include <vector>

namespace sluice::service {
namespace {

using std::chrono::nanoseconds;

TEST(model_statistics, believes_no_worker_that_claims_more_time_than_has_passed) {
  model_statistics statistics;
  statistics.begin();
  statistics.succeed(nanoseconds(1000), {.queue_ns = 400, .compute_ns = 900, .batch = 1}, 1);
  auto counts = statistics.counts();
  EXPECT_EQ(counts.queue_ns, 400U);
  EXPECT_EQ(counts.compute_ns, 600U);
  statistics.begin();
  statistics.succeed(nanoseconds(1000),
                     {.queue_ns = ~std::uint64_t{0}, .compute_ns = 1, .batch = 0}, 1);
  counts = statistics.counts();
  EXPECT_EQ(counts.queue_ns, 1400U);
  EXPECT_EQ(counts.compute_ns, 600U);
  EXPECT_EQ(counts.success_ns, 2000U);
  EXPECT_EQ(counts.executions(), 2U);
  EXPECT_GT(counts.last_success_ms, 1'600'000'000'000);
}

TEST(model_statistics, counts_a_launch_once) {
  model_statistics statistics;
  for (int i = 0; i < 7; ++i) {
    statistics.begin();
    statistics.succeed(nanoseconds(10), {.batch = 3}, 1);
  }
  // Two launches of three, and one of which a request is still to be answered.
  EXPECT_EQ(statistics.counts().executions(3), 3U);
  EXPECT_EQ(statistics.counts().executions(), 3U);
}

TEST(model_statistics, counts_the_requests_of_all_threads) {
  constexpr std::size_t threads = 4, requests = 5'000;
  model_statistics statistics;
  auto generator = sluice::test::make_generator();
  std::vector<std::thread> all;
  std::vector<std::uint64_t> failures(threads);
  for (std::size_t t = 0; t < threads; ++t) {
    all.emplace_back([&, t, seed = generator()] {
      std::mt19937_64 random(seed);
      for (std::size_t i = 0; i < requests; ++i) {
        statistics.begin();
        if (random() % 4 == 0) {
          ++failures[t];
          statistics.fail(nanoseconds(3));
        } else {
          statistics.succeed(nanoseconds(100), {.queue_ns = 20, .compute_ns = 30, .batch = 1}, 2);
        }
        if (i % 1000 == 0) (void)statistics.counts();
      }
    });
  }
  std::uint64_t failed = 0;
  for (std::size_t t = 0; t < threads; ++t) {
    all[t].join();
    failed += failures[t];
  }
  const auto counts = statistics.counts();
  const auto succeeded = threads * requests - failed;
  EXPECT_EQ(counts.in_flight, 0U);
  EXPECT_EQ(counts.failures, failed);
  EXPECT_EQ(counts.successes, succeeded);
  EXPECT_EQ(counts.inferences, 2 * succeeded);
  EXPECT_EQ(counts.queue_ns, 20 * succeeded);
  EXPECT_EQ(counts.compute_ns, 30 * succeeded);
  EXPECT_EQ(counts.batches[1].requests, succeeded);
  EXPECT_EQ(counts.request_seconds.sample_count, threads * requests);
}

}  // namespace
}  // namespace sluice::service
