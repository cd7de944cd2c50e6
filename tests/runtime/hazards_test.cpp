// The hazard proof: random DAGs of integer operations over many streams and threads give, bit for
// bit, what a serial run gives. Gated, the whole DAG is submitted before anything runs, and
// ThreadSanitizer judges; free-running, work overtakes its submission, and the results judge.
#include "runtime/host/announce.hpp"
#include "tests/runtime/hazard_run.hpp"
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

/// DAGs per test, of which there are four resources each: 10,000 behind gates and with jitter under
/// ThreadSanitizer, and as many on a GPU. The environment variable SLUICE_DAGS sets another number.
std::size_t number_of_dags(std::size_t usual) {
  if (const char* given = std::getenv("SLUICE_DAGS"); given != nullptr && *given != '\0') {
    return std::strtoull(given, nullptr, 0);
  }
  if (under_compute_sanitizer()) return usual / 5;
  return host::thread_sanitizer_on ? usual / 2 : usual;
}

void expect_nothing_left(device_runtime& runtime) {
  EXPECT_EQ(runtime.bytes_outstanding(), 0u);
  const auto left = runtime.statistics();
  EXPECT_EQ(left.blocks, 0u);
  EXPECT_EQ(left.leases, 0u);
  EXPECT_EQ(left.recorders_abandoned, 0u);
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
  expect_nothing_left(session.runtime());
}

class hazards : public testing::TestWithParam<memory> {};

TEST_P(hazards, submitted_behind_a_gate_equal_a_serial_run) {
  hazard_session session(open_host_device(), GetParam(), 16);
  run_dags(session, number_of_dags(2500), {}, true);
  if (GetParam() != memory::direct) {
    // A block that was used on its own stream only is handed out again while all of that is queued.
    EXPECT_LT(session.distinct_addresses(), session.allocations());
  }
}

TEST_P(hazards, running_freely_with_jitter_equal_a_serial_run) {
  host_device_options options;
  options.jitter = host_jitter{process_seed(), std::chrono::microseconds(100)};
  hazard_session session(open_host_device(options), GetParam(), 16);
  run_dags(session, number_of_dags(2500), {}, false);
  if (GetParam() != memory::direct) {
    EXPECT_LT(session.distinct_addresses(), session.allocations());
  }
}

TEST_P(hazards, running_freely_without_delay_equal_a_serial_run) {
  hazard_session session(open_host_device(), GetParam(), 16);
  run_dags(session, number_of_dags(1500), {}, false);
}

TEST_P(hazards, on_cuda_equal_a_serial_run) {
  if (!has_device("cuda")) GTEST_SKIP() << "this machine has no GPU";
  if (GetParam() == memory::pool) {
    SLUICE_SKIP_UNDER_COMPUTE_SANITIZER(
        "for its sake no completed point counts, and this pool waits for that");
  }
  hazard_session session(open_device("cuda"), GetParam(), 16);
  dag_limits limits;
  limits.longest_delay = 100'000;  // some 50 µs: much longer than enqueueing takes
  run_dags(session, number_of_dags(2500), limits, false);
  // The test proves nothing about reuse where there was none.
  EXPECT_LT(session.distinct_addresses(), session.allocations() / 2);
}

INSTANTIATE_TEST_SUITE_P(resources, hazards,
                         testing::Values(memory::async, memory::direct, memory::pool,
                                         memory::pool_of_unfinished),
                         [](const testing::TestParamInfo<memory>& parameter) {
                           switch (parameter.param) {
                             case memory::async:
                               return "async";
                             case memory::direct:
                               return "direct";
                             case memory::pool:
                               return "pool";
                             case memory::pool_of_unfinished:
                               return "pool_of_unfinished";
                           }
                           return "";
                         });

}  // namespace
