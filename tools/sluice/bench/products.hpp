// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/bench/plain_calls.hpp"

#include <sluice/operations/blas.hpp>

#include <array>
#include <span>

namespace sluice::cli {

/// `count` products of random matrices, with outputs of their own. The sizes (m, n, k) take turns.
inline std::vector<sgemm> make_products(session& current, std::size_t count,
                                        const std::vector<std::array<std::int64_t, 3>>& sizes) {
  std::vector<sgemm> products;
  for (std::size_t i = 0; i < count; ++i) {
    const auto [m, n, k] = sizes[i % sizes.size()];
    products.push_back({.m = m,
                        .n = n,
                        .k = k,
                        .a = random_tensor(current, {m, k}).as<float>(),
                        .b = random_tensor(current, {k, n}).as<float>(),
                        .c = random_tensor(current, {m, n}).as<float>()});
  }
  return products;
}

/// The products as plain calls.
inline std::unique_ptr<plain_calls> plain_products(device_runtime& runtime,
                                                   std::span<const sgemm> products) {
  return plain_sets(runtime, products, [](plain_calls& calls, const sgemm& product) {
    return calls.add("", to_operation(product));
  });
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
