// SPDX-License-Identifier: Apache-2.0
// The hazard proof: random DAGs of integer operations over many streams and threads give the
// results of a serial run, bit for bit.
//
// In gated runs the whole DAG is submitted before any of it runs, and ThreadSanitizer judges. In
// free runs work overtakes its submission, and the results judge.
#include "runtime/host/annotations.hpp"
#include "tests/runtime/hazards/hazard_run.hpp"
#include "tests/support/compute_sanitizer.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/seed.hpp"

#include <sluice/runtime/host_device.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

namespace {

using namespace sluice;
using namespace sluice::test;
using memory = hazard_session::memory;

/// Stacks that add no new kind of reuse get fewer DAGs.
bool adds_to_the_default(memory resource) {
  return resource >= memory::pool_over_direct;
}

/// Whether memory is reused only after its uses are known to have completed, or on the only stream
/// that used it.
///
/// Under compute-sanitizer completed points do not count. Most allocations of such stacks then take
/// new memory.
bool waits_for_completion(memory resource) {
  return resource == memory::pool || adds_to_the_default(resource);
}

/// What judges the DAGs of a test on the host device.
enum class judge : std::uint8_t {
  sanitizer,  ///< ThreadSanitizer, which reports a missing wait whatever the order of the work
  results     ///< the results, which a missing wait changes only in some orders of the work
};

/// The number of DAGs in each test. Over all resources there are 10,000 where their judge is, and a
/// quarter of that elsewhere: behind gates with ThreadSanitizer, with jitter without it. There are
/// 10,000 on a GPU.
///
/// The environment variable SLUICE_DAGS sets another number.
std::size_t number_of_dags(memory resource, judge judged_by) {
  if (const char* setting = std::getenv("SLUICE_DAGS"); setting != nullptr && *setting != '\0') {
    return std::strtoull(setting, nullptr, 0);
  }
  const std::size_t usual = adds_to_the_default(resource) ? 300 : 2200;
  if (under_compute_sanitizer()) return waits_for_completion(resource) ? 60 : usual / 5;
  return host::thread_sanitizer_on == (judged_by == judge::sanitizer) ? usual : usual / 4;
}

/// Whether memory freed behind a closed gate can be reused behind it. `direct` and `guard` keep it
/// until its uses have completed.
bool reuses_unfinished(memory resource) {
  return resource != memory::direct && resource != memory::guard;
}
/// Whether reused memory comes with its earlier uses. The pool of the device below `async` orders
/// them itself.
bool grants_with_uses(memory resource) {
  return reuses_unfinished(resource) && resource != memory::async;
}

void expect_nothing_left(hazard_session& session) {
  auto& runtime = session.runtime();
  EXPECT_EQ(runtime.bytes_outstanding(), 0u);
  const auto left = runtime.statistics();
  EXPECT_EQ(left.blocks, 0u);
  EXPECT_EQ(left.references, 0u);
  EXPECT_EQ(left.points, 0u);
  EXPECT_EQ(left.leases, 0u);
  EXPECT_EQ(left.releases_pending, 0u);
  EXPECT_EQ(left.recorders_abandoned, 0u);
  EXPECT_EQ(session.findings(), 0u) << "of the guard";
}

void run_dags(hazard_session& session, std::size_t count, const dag_limits& limits, bool gated) {
  auto random = make_generator();
  for (std::size_t i = 0; i < count; ++i) {
    const auto dag = make_dag(random, limits);
    const auto expected = run_serially(dag);
    EXPECT_EQ(difference(session.run(dag, gated), expected), "")
        << "DAG " << i << ": " << dag.steps.size() << " steps, " << dag.streams << " streams, "
        << dag.threads << " threads";
    if (testing::Test::HasFailure()) return;
  }
  expect_nothing_left(session);
}

class hazards : public testing::TestWithParam<memory> {};

TEST_P(hazards, submitted_behind_a_gate_equal_a_serial_run) {
  hazard_session session(open_host_device(), GetParam(), 16);
  run_dags(session, number_of_dags(GetParam(), judge::sanitizer), {}, true);
  const auto& reused = session.reused();
  if (GetParam() != memory::direct) {
    EXPECT_LT(reused.distinct_addresses, reused.allocations);
  }
  // Without reuse the test would prove nothing about it. Memory used on one stream is reused there
  // while the uses are queued; a pool that prefers unfinished blocks also reuses it elsewhere.
  EXPECT_EQ(reused.within_a_dag > 0, reuses_unfinished(GetParam()));
  if (grants_with_uses(GetParam())) {
    EXPECT_GT(reused.unfinished, 0u);
  }
  EXPECT_EQ(reused.unfinished_elsewhere > 0, GetParam() == memory::pool_of_unfinished);
}

TEST_P(hazards, running_freely_with_jitter_equal_a_serial_run) {
  host_device_options options;
  options.jitter = host_jitter{process_seed(), std::chrono::microseconds(100)};
  hazard_session session(open_host_device(options), GetParam(), 16);
  run_dags(session, number_of_dags(GetParam(), judge::results), {}, false);
  if (reuses_unfinished(GetParam())) {
    EXPECT_GT(session.reused().within_a_dag, 0u);
  }
}

TEST_P(hazards, running_freely_without_delay_equal_a_serial_run) {
  hazard_session session(open_host_device(), GetParam(), 16);
  run_dags(session, number_of_dags(GetParam(), judge::results) / 2, {}, false);
}

TEST_P(hazards, on_cuda_equal_a_serial_run) {
  if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
  hazard_session session(open_device("cuda"), GetParam(), 16);
  dag_limits limits;
  limits.longest_delay = 100'000;  // about 50 µs, much longer than enqueueing takes
  run_dags(session, number_of_dags(GetParam(), judge::results), limits, false);
  const auto& reused = session.reused();
  if (!under_compute_sanitizer() || !waits_for_completion(GetParam())) {
    // A run of few DAGs still adds addresses.
    const bool few = number_of_dags(GetParam(), judge::results) < 300;
    EXPECT_LT(reused.distinct_addresses, few ? reused.allocations : reused.allocations / 2);
  }
  if (reuses_unfinished(GetParam())) {
    EXPECT_GT(reused.within_a_dag, 0u);
  }
  if (grants_with_uses(GetParam())) {
    EXPECT_GT(reused.unfinished, 0u);
  }
}

// The part that compute-sanitizer's initcheck can judge: see tests/run-sanitized.
TEST(hazards_of_one_thread, on_cuda_equal_a_serial_run) {
  if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
  hazard_session session(open_device("cuda"), memory::direct, 16);
  dag_limits limits;
  limits.max_threads = 1;
  run_dags(session, number_of_dags(memory::pool_over_direct, judge::results), limits, false);
}

INSTANTIATE_TEST_SUITE_P(resources, hazards,
                         testing::Values(memory::async, memory::direct, memory::pool,
                                         memory::pool_of_unfinished, memory::pool_over_direct,
                                         memory::guard, memory::logging, memory::statistics),
                         [](const testing::TestParamInfo<memory>& parameter) {
                           return std::string(name_of(parameter.param));
                         });

}  // namespace
