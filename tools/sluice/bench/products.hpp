// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/check_results.hpp"
#include "tools/sluice/bench/load_client.hpp"
#include "tools/sluice/bench/plain_calls.hpp"
#include "tools/sluice/bench/random_operands.hpp"

#include <sluice/operations/blas.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

namespace sluice::cli {

/// `count` products of random matrices, with outputs of their own. The sizes (m, n, k) take turns.
inline std::vector<sgemm> make_products(session& current, std::size_t count,
                                        const std::vector<std::array<std::int64_t, 3>>& sizes) {
  random_operands random(current);
  std::vector<sgemm> all;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [m, n, k] = sizes[i % sizes.size()];
    all.push_back({.m = m,
                   .n = n,
                   .k = k,
                   .a = random.make({m, k}).as<float>(),
                   .b = random.make({k, n}).as<float>(),
                   .c = random.make({m, n}).as<float>()});
  }
  return all;
}

/// `count` of the products as plain calls, from number `first` on.
inline std::unique_ptr<plain_calls> plain_products(device_runtime& runtime,
                                                   const std::vector<sgemm>& products,
                                                   std::size_t first, std::size_t count) {
  auto calls = std::make_unique<plain_calls>(runtime);
  for (std::size_t i = first; i < first + count; ++i) {
    (void)calls->add("", to_operation(products[i]));
    calls->end_set();
  }
  return calls;
}

/// All of them.
inline std::unique_ptr<plain_calls> plain_products(device_runtime& runtime,
                                                   const std::vector<sgemm>& products) {
  return plain_products(runtime, products, 0, products.size());
}

/// Clients of the blas actor, or of another actor that takes products.
template <class Handle, class... Options>
auto product_load(session& current, const Handle& target, const std::vector<sgemm>& products,
                  std::size_t clients, std::size_t in_flight = bench_in_flight,
                  const Options&... options) {
  return make_load<gpu_ref<float>>(current, target, products, clients, in_flight, options...);
}

/// @throws error as `check_sample`
inline void check_products(bench_run& run, const std::vector<sgemm>& products) {
  check_sample<gpu_ref<float>>(
      run, run.current.device().blas(), products,
      [](plain_calls& calls, sgemm product) {
        product.c = {};  // the calls have an output of their own
        return calls.add("", to_operation(product)).reshape({product.m * product.n});
      },
      "a product");
}

}  // namespace sluice::cli
