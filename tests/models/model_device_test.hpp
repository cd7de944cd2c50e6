// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/models/model_run.hpp"
#include "tests/models/onnx_graph.hpp"
#include "tests/models/tensor_difference.hpp"
#include "tests/support/devices.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

namespace sluice::test {

/// Runs models on the device that its parameter names.
class model_device_test : public named_device_test {
 protected:
  using tensor_map = std::map<std::string, host_tensor>;

  void SetUp() override {
    named_device_test::SetUp();
    if (!IsSkipped()) runs_ = std::make_unique<model_run>(GetParam());
  }
  [[nodiscard]] host_tensor random_tensor(const extents& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    return {random_values<float>(generator_, count), shape};
  }
  [[nodiscard]] std::int64_t between(std::int64_t least, std::int64_t most) {
    return std::uniform_int_distribution<std::int64_t>(least, most)(generator_);
  }
  host_tensors run(const model& what, const tensor_map& inputs) {
    bound_.clear();
    return runs_->run(what, inputs, bound_);
  }
  host_tensors run(const model_program& imported, const tensor_map& inputs) {
    return runs_->run(imported, inputs);
  }
  /// The inputs that the last run has bound by value.
  [[nodiscard]] const std::set<std::string>& bound() const { return bound_; }
  static void expect_near(const host_tensor& found, const host_tensor& expected,
                          double relative = 1e-5) {
    EXPECT_EQ(difference(found, expected, {.relative = relative, .absolute = relative}), "");
  }

 private:
  std::mt19937_64 generator_ = make_generator();
  std::unique_ptr<model_run> runs_;
  std::set<std::string> bound_;
};

/// The properties of inputs.
inline std::map<std::string, tensor_spec> specs_of(
    const std::map<std::string, host_tensor>& inputs) {
  std::map<std::string, tensor_spec> specs;
  for (const auto& [name, x] : inputs) {
    specs.emplace(name, tensor_spec::row_major(x.type(), x.shape()));
  }
  return specs;
}

}  // namespace sluice::test
