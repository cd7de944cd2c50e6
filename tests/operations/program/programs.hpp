// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tests/operations/executing.hpp"
#include "tests/support/random_values.hpp"
#include "tests/support/seed.hpp"

#include <sluice/operations.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <thread>
#include <utility>
#include <vector>

namespace sluice::test {

/// Runs programs on an executor.
class programs : public executor_test {
 protected:
  /// Runs a program and waits for its results.
  /// @throws error the answer, if it is an error
  tensors results_of(sluice::run request, const request_options& options = {}) {
    return run(test_executor(), std::move(request), options);
  }
  prepared prepare_of(sluice::prepare request) { return run(test_executor(), std::move(request)); }
  /// Runs a program until the kernels of its fused steps are loaded, or will never be.
  prepared await_kernels(const program& what, const std::vector<tensor>& inputs) {
    std::vector<tensor_spec> specs;
    for (const auto& input : inputs) specs.push_back(tensor_spec::of(input));
    for (;;) {
      (void)results_of({what, {inputs.begin(), inputs.end()}});
      auto known = prepare_of({what, specs});
      if (known.not_fused != "the kernels are being compiled") return known;
      std::this_thread::yield();
    }
  }

  // Also for what builds random programs.
 public:
  /// The result of a request of its own.
  template <class Operation>
  tensor alone(Operation operation) {
    return run(test_executor(), std::move(operation));
  }
  /// One number in a matrix.
  tensor small(float value) {
    return run(test_executor(), fill{.value = value, .shape = extents{1, 1}});
  }
  tensor numbers(const extents& shape) {
    return run(test_executor(),
               sluice::upload{.values = {random_values<float>(generator_, size(shape)), shape}});
  }
  host_tensor get(const tensor& x) {
    const auto result = std::make_shared<host_tensor>();
    (void)run(test_executor(), sluice::download{.x = x, .target = result});
    return *result;
  }
  std::vector<float> values(const tensor& x) { return get(x).to_vector<float>(); }
  std::vector<std::uint32_t> bits(const tensor& x) {
    const auto all = values(x);
    std::vector<std::uint32_t> words(all.size());
    if (!all.empty()) std::memcpy(words.data(), all.data(), all.size() * sizeof(float));
    return words;
  }

 private:
  static std::size_t size(const extents& shape) {
    std::size_t count = 1;
    for (const auto extent : shape) count *= static_cast<std::size_t>(extent);
    return count;
  }
  std::mt19937_64 generator_ = make_generator();
};

}  // namespace sluice::test
