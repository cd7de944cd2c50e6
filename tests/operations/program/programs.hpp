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
#include <utility>
#include <vector>

namespace sluice::test {

/// Runs programs on an executor.
class programs : public executor_test {
 protected:
  /// Runs a program and waits for its results.
  /// @throws error the answer, if it is an error
  tensors results_of(sluice::run asked, const request_options& options = {}) {
    return run(on(), std::move(asked), options);
  }
  prepared prepare_of(sluice::prepare asked) { return run(on(), std::move(asked)); }

  // Also for what builds random programs.
 public:
  /// The result of a request of its own.
  template <class Operation>
  tensor alone(Operation operation) {
    return run(on(), std::move(operation));
  }
  /// One number in a matrix.
  tensor small(float value) { return run(on(), fill{.value = value, .shape = extents{1, 1}}); }
  tensor numbers(const extents& shape) {
    return run(on(),
               sluice::upload{.values = {random_values<float>(generator_, size(shape)), shape}});
  }
  host_tensor get(const tensor& x) {
    const auto to = std::make_shared<host_tensor>();
    (void)run(on(), sluice::download{.x = x, .to = to});
    return *to;
  }
  std::vector<float> values(const tensor& x) { return get(x).to_vector<float>(); }
  std::vector<std::uint32_t> bits(const tensor& x) {
    const auto all = values(x);
    std::vector<std::uint32_t> made(all.size());
    std::memcpy(made.data(), all.data(), all.size() * sizeof(float));
    return made;
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
