// SPDX-License-Identifier: Apache-2.0
#include "actors/blas/blas_host.hpp"

#include "actors/blas/column_major.hpp"
#include "runtime/seam.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/host_task.hpp>

#include <cblas.h>
#include <cstddef>
#include <limits>
#include <mutex>
#include <string>

namespace sluice::host {

namespace {

using actors::gemm_call;
using actors::gemm_extents;
using actors::gemm_shape;

/// OpenBLAS's threads are one pool for the whole process. Products that are worth several threads
/// take turns at it, whichever streams they come from; smaller ones run in their stream's thread
/// and do not meet. So the number of threads is left as OpenBLAS chooses it or the user says
/// (OPENBLAS_NUM_THREADS). ThreadSanitizer does not see how they synchronise: there, one.
void settle_thread_count() {
  if constexpr (thread_sanitizer_on) {
    static std::once_flag once;
    std::call_once(once, [] { openblas_set_num_threads(1); });
  }
}

CBLAS_TRANSPOSE cblas_transpose(transpose t) noexcept {
  return t == transpose::yes ? CblasTrans : CblasNoTrans;
}

void multiply(const gemm_call<float>& call) {
  const gemm_shape& s = call.shape;
  cblas_sgemm(CblasColMajor, cblas_transpose(s.transpose_a), cblas_transpose(s.transpose_b),
              static_cast<blasint>(s.m), static_cast<blasint>(s.n), static_cast<blasint>(s.k),
              call.alpha, call.a, static_cast<blasint>(s.lda), call.b, static_cast<blasint>(s.ldb),
              call.beta, call.c, static_cast<blasint>(s.ldc));
}

void multiply(const gemm_call<double>& call) {
  const gemm_shape& s = call.shape;
  cblas_dgemm(CblasColMajor, cblas_transpose(s.transpose_a), cblas_transpose(s.transpose_b),
              static_cast<blasint>(s.m), static_cast<blasint>(s.n), static_cast<blasint>(s.k),
              call.alpha, call.a, static_cast<blasint>(s.lda), call.b, static_cast<blasint>(s.ldb),
              call.beta, call.c, static_cast<blasint>(s.ldc));
}

/// C = beta·C, which is zero for beta == 0 whatever C holds.
template <class T>
void scale(const gemm_call<T>& call) {
  for (std::int64_t column = 0; column < call.shape.n; ++column) {
    T* const first = call.c + column * call.shape.ldc;
    for (std::int64_t row = 0; row < call.shape.m; ++row) {
      first[row] = call.beta == T(0) ? T(0) : call.beta * first[row];
    }
  }
}

class openblas final : public actors::blas_library {
 public:
  explicit openblas(stream_ref stream) : stream_(stream) { settle_thread_count(); }

  [[nodiscard]] std::string_view name() const noexcept override { return "OpenBLAS"; }

  [[nodiscard]] std::string version() const override {
    // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH ..."
    std::string config = openblas_get_config();
    const std::size_t first = config.find(' ');
    if (first == std::string::npos) return config;
    return config.substr(first + 1, config.find(' ', first + 1) - first - 1);
  }

  void gemm(const gemm_call<float>& call) override { enqueue(call); }
  void gemm(const gemm_call<double>& call) override { enqueue(call); }

 private:
  template <class T>
  void enqueue(const gemm_call<T>& given) {
    const gemm_call<T> call = actors::as_column_major(given);
    const gemm_shape& shape = call.shape;
    if (shape.m == 0 || shape.n == 0) return;
    if (shape.k == 0 || call.alpha == T(0)) {
      if (call.beta != T(1)) submit_host_task(stream_, [call] { scale(call); });
      return;
    }
    require_representable(given.shape);
    const gemm_extents extents = actors::validate(shape);
    submit_host_task(stream_, [call, extents] {
      const library_call_scope scope(
          {{call.a, extents.a * sizeof(T)}, {call.b, extents.b * sizeof(T)}},
          {{call.c, extents.c * sizeof(T)}});
      multiply(call);
    });
  }

  /// OpenBLAS counts in `blasint`, which has 32 bits in the usual builds.
  static void require_representable(const gemm_shape& shape) {
    const auto require = [](const char* name, std::int64_t value) {
      if (value > std::numeric_limits<blasint>::max()) {
        throw error(errc::unsupported, "gemm: " + std::string(name) + " is " +
                                           std::to_string(value) + ", but OpenBLAS takes at most " +
                                           std::to_string(std::numeric_limits<blasint>::max()));
      }
    };
    require("m", shape.m);
    require("n", shape.n);
    require("k", shape.k);
    require("lda", shape.lda);
    require("ldb", shape.ldb);
    require("ldc", shape.ldc);
  }

  stream_ref stream_;
};

}  // namespace

std::unique_ptr<actors::blas_library> make_blas_library(stream_ref stream) {
  return std::make_unique<openblas>(stream);
}

}  // namespace sluice::host
