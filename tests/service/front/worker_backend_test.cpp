// SPDX-License-Identifier: Apache-2.0
// What a backend with scripted worker processes counts.
#include "service/front/worker_backend.hpp"

#include "tests/support/seed.hpp"
#include "tests/support/temporary_folder.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
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
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

class worker_backend_test : public ::testing::Test {
 protected:
  static constexpr std::uint64_t memory = 65536;

  void SetUp() override {
    std::filesystem::create_directories(folder_ / "m/1");
    std::ofstream(folder_ / "m/1/model.onnx") << "matrix";
    std::ofstream(folder_ / "m/config.toml") << "max_batch_size = 8\n";
    start("serve");
    wait_until([this] { return backend_->is_ready(); });
  }
  void start(const std::string& task) {
    const auto program =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "run-scripted-worker";
    backend_.reset();
    backend_ = std::make_unique<worker_backend>(worker_options{
        .models = {.folder = folder_.path()},
        .workers = {{.path = program.string(),
                     .arguments = {task},
                     .environment = {"SLUICE_TEST_GATE=" + (folder_ / "gate").string()}}},
        .request_bytes = memory,
        .reply_bytes = memory,
        .poll_interval = std::chrono::milliseconds(10),
        .first_restart = std::chrono::milliseconds(1)});
  }
  /// Waits for what happens for sure; if it does not, the test hangs.
  template <class Predicate>
  static void wait_until(Predicate predicate) {
    while (!predicate()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  struct submission {
    std::uint64_t number = 0;
    std::future<run_result> result{};
  };
  /// Asks for a run whose bytes are all `value`; see scripted_worker.
  submission submit(std::int64_t rows, std::byte value, const std::string& tenant = {}) {
    const std::array<std::uint64_t, 1> sizes{static_cast<std::uint64_t>(rows) * 4};
    auto answer = std::make_shared<std::promise<run_result>>();
    submission started{.result = answer->get_future()};
    auto inputs = backend_->allocate(sizes);
    std::fill_n(inputs->tensor(0).data(), sizes[0], value);
    run_request request{.model = "m", .tenant = tenant};
    request.inputs.push_back({.name = "x", .type = datatype::uint8, .shape = {rows, 4}});
    started.number = backend_->submit(std::move(request), std::move(inputs),
                                      [answer](run_result r) { answer->set_value(std::move(r)); });
    return started;
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

  [[nodiscard]] worker_status worker() const { return backend_->status().workers.at(0); }
  /// Waits until a worker serves the model that has followed so many others.
  void wait_for_restart(std::uint64_t restarts) {
    wait_until([&] { return worker().restarts == restarts && backend_->is_ready(); });
  }
  static void expect_bytes(submission each, std::byte value) {
    const auto result = each.result.get();
    ASSERT_FALSE(result.error) << result.error->what();
    for (const auto byte : result.outputs.at(0).bytes) ASSERT_EQ(byte, value);
  }
  static void expect_unavailable(submission each, const std::string& reason) {
    const auto result = each.result.get();
    ASSERT_TRUE(result.error);
    EXPECT_EQ(result.error->status(), request_status::unavailable);
    EXPECT_NE(std::string(result.error->what()).find(reason), std::string::npos)
        << result.error->what();
  }
  static constexpr std::byte deadly{0xde}, gated{0xad}, harmless{1};

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

TEST_F(worker_backend_test, quarantines_what_ends_two_workers) {
  expect_unavailable(submit(2, deadly), "while they ran the request");
  wait_for_restart(2);
  expect_unavailable(submit(2, harmless), "these shapes");
  EXPECT_EQ(backend_->status().refused_quarantine, 1U);
  expect_bytes(submit(3, harmless), harmless);
  expect_bytes(submit(2, harmless, "another tenant"), harmless);
  EXPECT_EQ(worker().restarts, 2U);
  // Another content is another kind.
  std::ofstream(folder_ / "m/1/model.onnx") << "matrix another";
  wait_until([this] { return !submit(2, harmless).result.get().error; });
}

TEST_F(worker_backend_test, finds_the_request_that_ends_workers) {
  auto random = sluice::test::make_generator();
  ASSERT_EQ(::kill(worker().process, SIGSTOP), 0);
  const auto process = worker().process;
  std::vector<submission> harmless_ones;
  std::optional<submission> deadly_one;
  const auto place = random() % 20;
  for (std::size_t i = 0; i < 20; ++i) {
    if (i == place) deadly_one = submit(3, deadly);
    harmless_ones.push_back(submit(2, std::byte(i)));
  }
  ASSERT_EQ(::kill(process, SIGCONT), 0);
  for (std::size_t i = 0; i < 20; ++i) expect_bytes(std::move(harmless_ones[i]), std::byte(i));
  expect_unavailable(std::move(*deadly_one), "while they ran the request");
  wait_for_restart(2);
  expect_unavailable(submit(3, harmless), "these shapes");
  expect_bytes(submit(2, harmless), harmless);
}

TEST_F(worker_backend_test, quarantines_a_request_that_was_cancelled) {
  const auto process = worker().process;
  ASSERT_EQ(::kill(process, SIGSTOP), 0);
  auto deadly_one = submit(3, deadly);
  backend_->cancel(deadly_one.number);
  EXPECT_EQ(deadly_one.result.get().error->status(), request_status::cancelled);
  ASSERT_EQ(::kill(process, SIGCONT), 0);
  wait_for_restart(2);
  expect_unavailable(submit(3, harmless), "these shapes");
}

TEST_F(worker_backend_test, blames_no_request_for_what_others_kill) {
  auto request = submit(2, gated);
  for (std::uint64_t restarts = 1; restarts <= 2; ++restarts) {
    const auto process = worker().process;
    ASSERT_EQ(::kill(process, SIGKILL), 0);
    wait_for_restart(restarts);
    // Until the worker has the request again, alone.
    wait_until([&] { return restarts == 2 || worker().runs_in_flight == 1; });
  }
  expect_unavailable(std::move(request), "while they ran the request");
  expect_bytes(submit(2, harmless), harmless);
}

TEST_F(worker_backend_test, answers_what_comes_while_a_request_is_retried) {
  auto first = submit(2, gated);
  ASSERT_EQ(::kill(worker().process, SIGKILL), 0);
  wait_for_restart(1);
  std::vector<submission> later;
  for (std::size_t i = 0; i < 20; ++i) later.push_back(submit(3, std::byte(i)));
  backend_->cancel(later[7].number);
  std::ofstream(folder_ / "gate") << "open";
  expect_bytes(std::move(first), gated);
  for (std::size_t i = 0; i < 20; ++i) {
    if (i != 7) expect_bytes(std::move(later[i]), std::byte(i));
  }
  EXPECT_EQ(worker().restarts, 1U);
}

TEST_F(worker_backend_test, refuses_workers_of_another_version) {
  start("serve-old");
  wait_until([this] { return worker().restarts >= 2; });
  EXPECT_FALSE(worker().is_up);
}

}  // namespace
}  // namespace sluice::service
