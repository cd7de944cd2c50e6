// SPDX-License-Identifier: Apache-2.0
// What a backend with scripted worker processes counts.
#include "service/front/worker_backend.hpp"

#include "tests/support/seed.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <future>
#include <memory>
#include <optional>
#include <random>
#include <signal.h>
#include <string>
#include <thread>

namespace sluice::service {
namespace {

class worker_backend_test : public ::testing::Test {
 protected:
  static constexpr std::uint64_t memory = 65536;

  void SetUp() override {
    std::filesystem::create_directories(folder_ / "m/1");
    std::ofstream(folder_ / "m/1/model.onnx") << "no worker here reads it";
    std::ofstream(folder_ / "m/config.toml") << "max_batch_size = 8\n";
    const auto program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "run-scripted-worker";
    backend_ = std::make_unique<worker_backend>(
        worker_options{.models = {.folder = folder_.path()},
                       .workers = {{.path = program.string(), .arguments = {"serve"}}},
                       .request_bytes = memory,
                       .reply_bytes = memory,
                       .poll_interval = std::chrono::milliseconds(10)});
    wait_until([this] { return backend_->is_ready(); });
  }
  /// Waits for what happens for sure; if it does not, the test hangs.
  template <class Predicate>
  static void wait_until(Predicate predicate) {
    while (!predicate()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  std::future<run_result> run(std::int64_t rows, const std::string& input = "x") {
    const std::array<std::uint64_t, 1> sizes{static_cast<std::uint64_t>(rows) * 4};
    auto answer = std::make_shared<std::promise<run_result>>();
    auto result = answer->get_future();
    run_request request{.model = "m"};
    request.inputs.push_back({.name = input, .type = datatype::uint8, .shape = {rows, 4}});
    (void)backend_->submit(std::move(request), backend_->allocate(sizes),
                           [answer](run_result r) { answer->set_value(std::move(r)); });
    return result;
  }
  [[nodiscard]] model_counts counts() const {
    return backend_->status().versions.at(0).statistics->counts();
  }

  sluice::test::temporary_folder folder_;
  std::unique_ptr<worker_backend> backend_;
};

TEST_F(worker_backend_test, counts_requests_by_their_answers) {
  auto random = sluice::test::make_generator();
  std::uint64_t successes = 0, failures = 0, inferences = 0;
  for (int i = 0; i < 200; ++i) {
    const auto rows = static_cast<std::int64_t>(random() % 10);
    const bool is_known = random() % 5 != 0;
    const auto result = run(rows, is_known ? "x" : "y").get();
    ASSERT_EQ(result.error.has_value(), rows > 8 || !is_known);
    if (result.error) {
      ++failures;
      continue;
    }
    ++successes;
    inferences += static_cast<std::uint64_t>(rows);
  }
  const auto counted = counts();
  EXPECT_EQ(counted.successes, successes);
  EXPECT_EQ(counted.failures, failures);
  EXPECT_EQ(counted.inferences, inferences);
  EXPECT_EQ(counted.in_flight, 0U);
  EXPECT_EQ(counted.queue_ns, 100 * successes);
  EXPECT_EQ(counted.compute_ns, 1000 * successes);
  EXPECT_EQ(counted.batches[2].requests, successes);
  EXPECT_EQ(counted.executions(), (successes + 1) / 2);
  EXPECT_GE(counted.success_ns, 1100 * successes);
}

TEST_F(worker_backend_test, counts_refusals_and_memory) {
  const std::array<std::uint64_t, 1> too_many{memory}, half{memory / 2};
  EXPECT_THROW((void)backend_->allocate(too_many), request_error);
  EXPECT_EQ(backend_->status().refused_size, 1U);
  EXPECT_EQ(backend_->status().workers.at(0).request_bytes, 0U);
  const auto inputs = backend_->allocate(half);
  EXPECT_GE(backend_->status().workers.at(0).request_bytes, memory / 2);
  EXPECT_EQ(backend_->status().request_capacity, memory);
  EXPECT_THROW((void)backend_->allocate(half), request_error);
  EXPECT_EQ(backend_->status().refused_memory, 1U);
  EXPECT_EQ(backend_->status().refused_without_worker, 0U);
}

TEST_F(worker_backend_test, counts_restarts) {
  const auto first = backend_->status().workers.at(0);
  EXPECT_TRUE(first.is_up);
  EXPECT_EQ(first.device, "host:0");
  EXPECT_EQ(first.restarts, 0U);
  ASSERT_EQ(::kill(first.process, SIGKILL), 0);
  wait_until([this] { return backend_->status().workers.at(0).restarts == 1; });
  wait_until([this] { return backend_->is_ready(); });
  const auto second = backend_->status().workers.at(0);
  EXPECT_NE(second.process, first.process);
  EXPECT_TRUE(second.is_up);
  EXPECT_FALSE(run(3).get().error);
  EXPECT_EQ(counts().successes, 1U);
}

TEST_F(worker_backend_test, forgets_a_model_that_is_gone) {
  EXPECT_EQ(backend_->status().versions.size(), 1U);
  std::filesystem::remove_all(folder_ / "m");
  wait_until([this] { return backend_->status().versions.empty(); });
}

}  // namespace
}  // namespace sluice::service
