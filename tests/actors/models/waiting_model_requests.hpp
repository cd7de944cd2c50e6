// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/actors/models/scripted_source.hpp"
#include "tests/actors/session.hpp"
#include "tests/operations/manual_timer.hpp"

#include <sluice/actors/models.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {

/// Sends requests to a model actor on a host device, with a clock that the test sets forward.
class waiting_model_requests : public ::testing::Test {
 protected:
  void SetUp() override {
    device_service_options options;
    options.timer = clock_;
    session_ = std::make_unique<session>(open_device("host"), std::move(options));
    device_ = std::make_unique<scoped_device>(session_->system(), session_->service());
    models_ = device_->models();
    source_ = load("scale", 2);
  }
  void TearDown() override {
    models_ = nullptr;
    device_.reset();
    session_->expect_nothing_left();
  }
  [[nodiscard]] caf::actor_system& system() { return session_->system(); }
  [[nodiscard]] session& s() { return *session_; }
  [[nodiscard]] const model_actor& models() const { return models_; }
  [[nodiscard]] scoped_device& device() { return *device_; }
  [[nodiscard]] manual_timer& clock() { return *clock_; }
  [[nodiscard]] scripted_source& source() { return *source_; }
  void drop_device() {
    models_ = nullptr;
    device_.reset();
  }
  std::shared_ptr<scripted_source> load(const std::string& name, std::optional<float> factor) {
    auto loaded = std::make_shared<scripted_source>(factor);
    (void)s().ask<model_description>(models(), load_model{.name = name, .source = loaded});
    return loaded;
  }
  [[nodiscard]] std::size_t waiting(const std::string& name = "scale") {
    return s().ask<model_description>(models(), describe_model{name}).waiting;
  }
  void await_waiting(std::size_t count, const std::string& name = "scale") {
    await([&] { return waiting(name) == count; });
  }
  [[nodiscard]] static run_model_to_host run_of(const host_tensor& x,
                                                const std::string& name = "scale") {
    return {.name = name, .inputs = {{"x", x}}, .outputs = {"product"}};
  }
  [[nodiscard]] host_tensor ones(std::int64_t count) {
    return std::vector<float>(static_cast<std::size_t>(count), 1);
  }
  /// Sends one request, as a client of its own.
  [[nodiscard]] std::shared_ptr<answers<host_tensors>> send(run_model_to_host request,
                                                            request_options options = {}) {
    return s().send<host_tensors>(untyped(models()),
                                  {caf::make_message(std::move(request), std::move(options))});
  }
  static void expect_product(const answers<host_tensors>& replies, float factor) {
    for (const auto& each : replies.wait()) {
      ASSERT_TRUE(succeeded(each));
      const auto values = each.value->front().to_vector<float>();
      EXPECT_TRUE(std::ranges::all_of(values, [&](float value) { return value == factor; }));
    }
  }
  static void expect_failure(const answers<host_tensors>& replies, errc code) {
    for (const auto& each : replies.wait()) EXPECT_TRUE(failed_with(each, code));
  }

 private:
  std::shared_ptr<manual_timer> clock_ = std::make_shared<manual_timer>();
  std::unique_ptr<session> session_;
  std::unique_ptr<scoped_device> device_;
  model_actor models_;
  std::shared_ptr<scripted_source> source_;
};

}  // namespace sluice::test
