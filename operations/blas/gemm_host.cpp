// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/epilogue_host.hpp"
#include "operations/blas/gemm_blocks.hpp"
#include "operations/blas/gemm_functions.hpp"
#include "operations/blas/vector_product.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/error.hpp>

#include <algorithm>
#include <cblas.h>
#include <complex>
#include <cstddef>
#include <limits>
#include <mutex>
#include <string>
#include <type_traits>

namespace sluice::host {
namespace {

using operations::gemm_call;

/// The type in which epilogues compute elements that OpenBLAS computes in `T`.
template <class T>
struct epilogue_number {
  using type = T;
};
template <class T>
struct epilogue_number<std::complex<T>> {
  using type = operations::complex_number<T>;
};

template <class T>
void multiply_block(const product<T>& p, bool is_vector) {
  if constexpr (std::is_floating_point_v<T>) {
    if (is_vector) return multiply_vector(p);
  }
  multiply(p);
}

template <class T>
void run(const gemm_call& call, const T* a, const T* b, T* c, const product_epilogue& epilogue) {
  const auto alpha = factor<T>(call.alpha);
  const auto beta = factor<T>(call.beta);
  const auto* const first = call.swapped ? b : a;
  const auto* const second = call.swapped ? a : b;
  const auto blocks = result_blocks::of<T>(call);
  const bool is_vector = is_vector_product(call);
  const auto compute_block = [&](std::int64_t block) {
    const auto i = block / blocks.in_product();
    const auto row = block % blocks.in_product() % blocks.down * blocks.rows;
    const auto column = block % blocks.in_product() / blocks.down * blocks.columns;
    const auto rows = std::min(blocks.rows, call.m - row);
    const auto columns = std::min(blocks.columns, call.n - column);
    const product<T> p{operation(call.first),
                       operation(call.second),
                       static_cast<blasint>(rows),
                       static_cast<blasint>(columns),
                       static_cast<blasint>(call.k),
                       alpha,
                       element_address(first + i * call.first.distance, call.first, row, 0),
                       static_cast<blasint>(call.first.leading),
                       element_address(second + i * call.second.distance, call.second, 0, column),
                       static_cast<blasint>(call.second.leading),
                       beta,
                       element_address(c + i * call.c.distance, call.c, row, column),
                       static_cast<blasint>(call.c.leading)};
    {
      const library_call_scope scope({{p.first, stored_bytes<T>(call.first, rows, call.k)},
                                      {p.second, stored_bytes<T>(call.second, call.k, columns)}},
                                     {{p.c, stored_bytes<T>(call.c, rows, columns)}});
      multiply_block(p, is_vector);
    }
    if (epilogue.call == nullptr) return;
    using number = typename epilogue_number<T>::type;
    host_epilogue<number>(*epilogue.call, epilogue.addresses)
        .apply({.matrix = i, .row = row, .column = column, .rows = rows, .columns = columns},
               reinterpret_cast<number*>(p.c), call.c.leading);
  };
  const double products_in_nanosecond = is_vector ? 10 : 30;  // of f32
  const double block_nanoseconds =
      static_cast<double>(blocks.rows) * static_cast<double>(blocks.columns) *
      static_cast<double>(call.k) * result_blocks::cost_of_product<T> / products_in_nanosecond;
  const work_chunks chunks(call.count * blocks.in_product(), block_nanoseconds);
  const library_call_scope scope({}, {});
  parallel_for(chunks.count(), [&](std::int64_t chunk) {
    for (auto block = chunks[chunk].begin; block < chunks[chunk].end; ++block) {
      compute_block(block);
    }
  });
}

template <class T>
void run(const gemm_call& call, const launch_of<gemm>& launch, const product_epilogue& epilogue) {
  run(call, launch.get<const T>(&gemm::a), launch.get<const T>(&gemm::b), launch.get<T>(&gemm::c),
      epilogue);
}

void compute_16_bit(const gemm_call& call, const launch_of<gemm>& launch,
                    const product_epilogue& epilogue) {
  const auto* const a = launch.get<const void>(&gemm::a);
  const auto* const b = launch.get<const void>(&gemm::b);
  compute_converted({.call = call,
                     .first = call.swapped ? b : a,
                     .second = call.swapped ? a : b,
                     .c = launch.get<void>(&gemm::c),
                     .first_type = call.type,
                     .second_type = call.type,
                     .alpha = static_cast<float>(call.alpha.real())},
                    epilogue);
}

/// Computes products, and their epilogue if there is one.
void multiply_all(const gemm_call& call, const launch_of<gemm>& launch,
                  const product_epilogue& epilogue) {
  turn_off_openblas_threads();
  switch (call.type) {
    case element_type::f16:
    case element_type::bf16:
      return compute_16_bit(call, launch, epilogue);
    case element_type::f32:
      return run<float>(call, launch, epilogue);
    case element_type::f64:
      return run<double>(call, launch, epilogue);
    case element_type::c64:
      return run<std::complex<float>>(call, launch, epilogue);
    default:
      return run<std::complex<double>>(call, launch, epilogue);
  }
}

}  // namespace

void turn_off_openblas_threads() {
  static std::once_flag once;
  std::call_once(once, [] { openblas_set_num_threads(1); });
}

std::string blas_version() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  std::string config = openblas_get_config();
  const auto first = config.find(' ');
  if (first == std::string::npos) return config;
  return config.substr(first + 1, config.find(' ', first + 1) - first - 1);
}

// OpenBLAS counts in `blasint`, which has 32 bits in the usual builds.
void check_products(const char* operation, const gemm_call& call) {
  const auto require = [&](std::int64_t value, const char* name) {
    if (value <= std::numeric_limits<blasint>::max()) return;
    throw error(errc::unsupported, std::string(operation) + ": " + name + " is " +
                                       std::to_string(value) + ", but OpenBLAS takes at most " +
                                       std::to_string(std::numeric_limits<blasint>::max()));
  };
  if (!call.multiplies) return;
  require(call.m, call.swapped ? "n" : "m");
  require(call.n, call.swapped ? "m" : "n");
  require(call.k, "k");
  if (call.is_16_bit()) return;  // blocks are converted first
  require(call.first.leading, call.swapped ? "ldb" : "lda");
  require(call.second.leading, call.swapped ? "lda" : "ldb");
  require(call.c.leading, "ldc");
}
void check_gemm(const gemm_call& call) {
  check_products("gemm", call);
}

void compute_gemm(const gemm_call& call, const launch_of<gemm>& launch) {
  if (call.m == 0 || call.n == 0 || call.count == 0) return;
  if (!call.multiplies && call.beta == 1.0) return;
  if (call.is_integer()) {
    turn_off_openblas_threads();
    return compute_integers(call, launch);
  }
  if (!call.multiplies) {
    void* const c = launch.get<void>(&gemm::c);
    return compute_map(operations::scaling_of(call), {c, {call.beta == 0.0 ? nullptr : c}});
  }
  multiply_all(call, launch, {});
}

void check_gemm_epilogue(const operations::gemm_epilogue_call& call) {
  check_gemm(call.products);
}

void compute_gemm_epilogue(const operations::gemm_epilogue_call& call,
                           const launch_of<gemm>& launch) {
  const auto& p = call.products;
  if (p.m == 0 || p.n == 0 || p.count == 0) return;
  const operations::epilogue_addresses addresses{launch.get<void>(&gemm::c),
                                                 launch.get<const void>(&gemm::bias),
                                                 launch.get<const void>(&gemm::residual)};
  if (!p.multiplies) {
    if (!call.epilogue.is_empty()) compute_epilogue(call.epilogue, addresses);
    return;
  }
  multiply_all(p, launch, {&call.epilogue, addresses});
}

}  // namespace sluice::host
