// SPDX-License-Identifier: Apache-2.0
// Requests to load and unload models, with worker processes that a script drives.
#include "service/front/worker_backend.hpp"
#include "tests/service/repository/repository_files.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <future>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::service {
namespace {

/// The error of a load, made of it on the thread that has it: copies of an exception share their
/// text, and ThreadSanitizer does not see how the standard library counts them.
struct failure {
  explicit failure(const request_error& error) : status(error.status()), text(error.what()) {}
  request_status status;
  std::string text;
};
using outcome = std::optional<failure>;

outcome outcome_of(const std::optional<request_error>& error) {
  if (!error) return std::nullopt;
  return failure(*error);
}

class model_requests : public ::testing::Test {
 protected:
  void start(std::chrono::milliseconds load_timeout = std::chrono::hours(1), int workers = 1) {
    worker_options options{.models = {.folder = files_.path()},
                           .request_bytes = 1U << 20U,
                           .reply_bytes = 1U << 20U,
                           // Only requests have the repository read.
                           .poll_interval = std::chrono::hours(1),
                           .load_timeout = load_timeout,
                           .first_restart = std::chrono::milliseconds(1)};
    const auto path =
        std::filesystem::read_symlink("/proc/self/exe").parent_path() / "run-scripted-worker";
    for (int i = 0; i < workers; ++i) {
      options.workers.push_back({.path = path, .arguments = {"serve"}});
    }
    backend_ = std::make_unique<worker_backend>(std::move(options));
  }
  void put(const std::string& model, const std::string& task) const {
    files_.write_and_rename(model + "/1/model.onnx", task);
  }
  [[nodiscard]] std::future<outcome> begin_load(const std::string& model) {
    auto promise = std::make_shared<std::promise<outcome>>();
    backend_->load(model, [promise](const auto& error) { promise->set_value(outcome_of(error)); });
    return promise->get_future();
  }
  [[nodiscard]] outcome load(const std::string& model) { return begin_load(model).get(); }
  [[nodiscard]] outcome unload(const std::string& model) {
    auto promise = std::make_shared<std::promise<outcome>>();
    backend_->unload(model,
                     [promise](const auto& error) { promise->set_value(outcome_of(error)); });
    return promise->get_future().get();
  }
  [[nodiscard]] std::future<run_result> run(const std::string& model) {
    auto promise = std::make_shared<std::promise<run_result>>();
    const std::vector<std::uint64_t> sizes{3};
    auto memory = backend_->allocate(sizes);
    (void)backend_->submit(
        {.model = model, .inputs = {{.name = "x", .type = datatype::uint8, .shape = {3}}}},
        std::move(memory), [promise](run_result result) { promise->set_value(std::move(result)); });
    return promise->get_future();
  }
  [[nodiscard]] serving_state state_of(const std::string& model) const {
    for (const auto& entry : backend_->index()) {
      if (entry.model == model) return entry.state;
    }
    return serving_state::unavailable;
  }
  static void expect_failure(const outcome& result, request_status status, const char* text) {
    ASSERT_TRUE(result);
    EXPECT_EQ(result->status, status) << result->text;
    EXPECT_NE(result->text.find(text), std::string::npos) << result->text;
  }

  sluice::test::repository_files files_;
  std::unique_ptr<worker_backend> backend_;
};

TEST_F(model_requests, load_what_has_come_since_the_start) {
  start();
  expect_failure(load("m"), request_status::not_found, "m");
  // It is loaded at once, although it has just been written.
  files_.write("m/1/model.onnx", "first");
  EXPECT_FALSE(load("m"));
  EXPECT_EQ(state_of("m"), serving_state::ready);
  EXPECT_FALSE(run("m").get().error);
  EXPECT_FALSE(load("m")) << "nothing has changed";
  const auto config = backend_->configuration("m", "");
  EXPECT_EQ(config.name, "m");
  EXPECT_EQ(config.inputs.at(0).name, "x");
}

TEST_F(model_requests, are_served_by_all_workers_when_they_are_answered) {
  start(std::chrono::hours(1), 3);
  put("m", "first");
  EXPECT_FALSE(load("m"));
  std::vector<std::future<run_result>> runs;
  for (int i = 0; i < 100; ++i) runs.push_back(run("m"));
  for (auto& each : runs) EXPECT_FALSE(each.get().error);
}

TEST_F(model_requests, tell_why_a_load_fails) {
  put("m", "refuse");
  put("n", "fine");
  start();
  expect_failure(load("m"), request_status::invalid_argument, "it is refused");
  EXPECT_FALSE(load("n"));
  put("m", "fine");
  EXPECT_FALSE(load("m"));
  put("m", "refuse");
  expect_failure(load("m"), request_status::invalid_argument, "it is refused");
  EXPECT_EQ(state_of("m"), serving_state::ready) << "the old content is served";
  files_.write("m/config.toml", "lanes = true");
  expect_failure(load("m"), request_status::invalid_argument, "config.toml");
  EXPECT_FALSE(run("m").get().error);
}

TEST_F(model_requests, end_with_workers_that_end_at_a_load) {
  start();
  put("m", "die");
  expect_failure(load("m"), request_status::invalid_argument, "have ended");
  put("n", "fine");
  EXPECT_FALSE(load("n"));
}

TEST_F(model_requests, are_all_answered) {
  start();
  put("m", "gate " + (files_ / ".gate").string());
  std::vector<std::future<outcome>> loads;
  for (int i = 0; i < 5; ++i) loads.push_back(begin_load("m"));
  files_.write(".gate", "");
  for (auto& each : loads) EXPECT_FALSE(each.get());
}

TEST_F(model_requests, keep_a_model_unloaded_when_its_files_change) {
  put("m", "first");
  start();
  EXPECT_FALSE(load("m"));
  std::vector<std::future<run_result>> runs;
  for (int i = 0; i < 100; ++i) runs.push_back(run("m"));
  EXPECT_FALSE(unload("m"));
  for (auto& each : runs) EXPECT_FALSE(each.get().error) << "it came before";
  const auto late = run("m").get();
  ASSERT_TRUE(late.error);
  EXPECT_EQ(late.error->status(), request_status::unavailable);
  EXPECT_NE(std::string(late.error->what()).find("unloaded"), std::string::npos);
  EXPECT_THROW((void)backend_->describe("m", ""), request_error);

  put("m", "second");
  put("n", "fine");
  EXPECT_FALSE(load("n")) << "this has the repository read";
  EXPECT_EQ(state_of("m"), serving_state::unavailable);
  EXPECT_FALSE(unload("m")) << "once more";
  EXPECT_FALSE(load("m"));
  EXPECT_FALSE(run("m").get().error);
  expect_failure(unload("other"), request_status::not_found, "other");
}

TEST_F(model_requests, end_at_an_unload) {
  start();
  put("m", "gate " + (files_ / ".gate").string());
  auto loading = begin_load("m");
  while (state_of("m") != serving_state::loading) std::this_thread::yield();
  EXPECT_FALSE(unload("m"));
  expect_failure(loading.get(), request_status::unavailable, "unloaded");
  files_.write(".gate", "");
  put("n", "fine");
  EXPECT_FALSE(load("n"));
  EXPECT_EQ(state_of("m"), serving_state::unavailable);
}

TEST_F(model_requests, end_at_the_time_limit) {
  start(std::chrono::milliseconds(50));
  put("m", "hang");
  expect_failure(load("m"), request_status::deadline_exceeded, "still being loaded");
}

TEST_F(model_requests, end_with_the_service) {
  start();
  put("m", "hang");
  auto loading = begin_load("m");
  while (state_of("m") != serving_state::loading) std::this_thread::yield();
  backend_->drain();
  expect_failure(load("m"), request_status::unavailable, "ends");
  backend_.reset();
  expect_failure(loading.get(), request_status::unavailable, "ends");
}

TEST_F(model_requests, are_answered_when_the_repository_cannot_be_read) {
  put("m", "fine");
  start();
  EXPECT_FALSE(load("m"));
  std::filesystem::rename(files_.path(), files_.path().string() + ".away");
  const auto failed = load("m");
  std::filesystem::rename(files_.path().string() + ".away", files_.path());
  expect_failure(failed, request_status::unavailable, "m");
  EXPECT_FALSE(load("m"));
}

}  // namespace
}  // namespace sluice::service
