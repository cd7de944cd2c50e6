// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/gemm_functions.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/error.hpp>

#include <cblas.h>
#include <complex>
#include <cstddef>
#include <limits>
#include <mutex>
#include <string>

namespace sluice::host {
namespace {

using operations::blas_matrix;
using operations::gemm_call;

/// OpenBLAS's threads are one pool for the process. Large products take turns at it, small ones run
/// in their stream's thread. OpenBLAS chooses the number of threads (OPENBLAS_NUM_THREADS).
/// ThreadSanitizer does not see how they synchronize, so in such builds there is one.
void settle_thread_count() {
  if constexpr (thread_sanitizer_on) {
    static std::once_flag once;
    std::call_once(once, [] { openblas_set_num_threads(1); });
  }
}

CBLAS_TRANSPOSE operation(const blas_matrix& m) noexcept {
  return m.transposed ? CblasTrans : CblasNoTrans;
}

/// One product of a stack.
template <class T>
struct product {
  CBLAS_TRANSPOSE first_operation;
  CBLAS_TRANSPOSE second_operation;
  blasint m, n, k;
  T alpha;
  const T* first;
  blasint first_leading;
  const T* second;
  blasint second_leading;
  T beta;
  T* c;
  blasint c_leading;
};

void multiply(const product<float>& p) {
  cblas_sgemm(CblasColMajor, p.first_operation, p.second_operation, p.m, p.n, p.k, p.alpha, p.first,
              p.first_leading, p.second, p.second_leading, p.beta, p.c, p.c_leading);
}
void multiply(const product<double>& p) {
  cblas_dgemm(CblasColMajor, p.first_operation, p.second_operation, p.m, p.n, p.k, p.alpha, p.first,
              p.first_leading, p.second, p.second_leading, p.beta, p.c, p.c_leading);
}
void multiply(const product<std::complex<float>>& p) {
  cblas_cgemm(CblasColMajor, p.first_operation, p.second_operation, p.m, p.n, p.k, &p.alpha,
              p.first, p.first_leading, p.second, p.second_leading, &p.beta, p.c, p.c_leading);
}
void multiply(const product<std::complex<double>>& p) {
  cblas_zgemm(CblasColMajor, p.first_operation, p.second_operation, p.m, p.n, p.k, &p.alpha,
              p.first, p.first_leading, p.second, p.second_leading, &p.beta, p.c, p.c_leading);
}

/// The bytes from the first to the last element of one stored matrix.
template <class T>
std::size_t stored_bytes(const blas_matrix& m, std::int64_t rows, std::int64_t columns) {
  const auto lines = m.transposed ? rows : columns;
  const auto length = m.transposed ? columns : rows;
  return static_cast<std::size_t>((lines - 1) * m.leading + length) * sizeof(T);
}

template <class T>
T factor(const std::complex<double>& value) {
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value.real());
  } else {
    return static_cast<T>(value);
  }
}

template <class T>
void run(const gemm_call& call, const T* a, const T* b, T* c) {
  const auto alpha = factor<T>(call.alpha);
  const auto beta = factor<T>(call.beta);
  const auto* const first = call.swapped ? b : a;
  const auto* const second = call.swapped ? a : b;
  for (std::int64_t i = 0; i < call.count; ++i) {
    T* const target = c + i * call.c.distance;
    const product<T> p{operation(call.first),
                       operation(call.second),
                       static_cast<blasint>(call.m),
                       static_cast<blasint>(call.n),
                       static_cast<blasint>(call.k),
                       alpha,
                       first + i * call.first.distance,
                       static_cast<blasint>(call.first.leading),
                       second + i * call.second.distance,
                       static_cast<blasint>(call.second.leading),
                       beta,
                       target,
                       static_cast<blasint>(call.c.leading)};
    const library_call_scope scope({{p.first, stored_bytes<T>(call.first, call.m, call.k)},
                                    {p.second, stored_bytes<T>(call.second, call.k, call.n)}},
                                   {{p.c, stored_bytes<T>(call.c, call.m, call.n)}});
    multiply(p);
  }
}

template <class T>
void run(const gemm_call& call, const launch_of<gemm>& launch) {
  run(call, launch.get<const T>(&gemm::a), launch.get<const T>(&gemm::b), launch.get<T>(&gemm::c));
}

}  // namespace

std::string blas_version() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
  std::string config = openblas_get_config();
  const auto first = config.find(' ');
  if (first == std::string::npos) return config;
  return config.substr(first + 1, config.find(' ', first + 1) - first - 1);
}

// OpenBLAS counts in `blasint`, which has 32 bits in the usual builds.
void check_gemm(const gemm_call& call) {
  const auto require = [](std::int64_t value, const char* name) {
    if (value <= std::numeric_limits<blasint>::max()) return;
    throw error(errc::unsupported, std::string("gemm: ") + name + " is " + std::to_string(value) +
                                       ", but OpenBLAS takes at most " +
                                       std::to_string(std::numeric_limits<blasint>::max()));
  };
  if (!call.multiplies) return;
  require(call.m, call.swapped ? "n" : "m");
  require(call.n, call.swapped ? "m" : "n");
  require(call.k, "k");
  require(call.first.leading, call.swapped ? "ldb" : "lda");
  require(call.second.leading, call.swapped ? "lda" : "ldb");
  require(call.c.leading, "ldc");
}

void compute_gemm(const gemm_call& call, const launch_of<gemm>& launch) {
  if (call.m == 0 || call.n == 0 || call.count == 0) return;
  if (!call.multiplies) {
    if (call.beta == 1.0) return;
    void* const c = launch.get<void>(&gemm::c);
    return compute_map(operations::scaling_of(call), {c, {call.beta == 0.0 ? nullptr : c}});
  }
  settle_thread_count();
  switch (call.type) {
    case element_type::f32:
      return run<float>(call, launch);
    case element_type::f64:
      return run<double>(call, launch);
    case element_type::c64:
      return run<std::complex<float>>(call, launch);
    default:
      return run<std::complex<double>>(call, launch);
  }
}

}  // namespace sluice::host
