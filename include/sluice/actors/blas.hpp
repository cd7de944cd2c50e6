// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/operation_actor.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/export.hpp>
#include <sluice/operations/blas.hpp>
#include <sluice/operations/scaled_gemm.hpp>

#include <cstddef>
#include <memory>

namespace sluice {

/// The answer to `sgemm` and `dgemm`: C. A new C has no gaps.
template <class T>
struct request_reply<blas_gemm<T>> {
  using type = gpu_ref<T>;  ///< type of the answer

  /// Notes the size of a given C.
  explicit request_reply(const blas_gemm<T>& request) noexcept : size_(request.c.size()) {}
  /// A given C is answered as it was given, which may be more than the matrix.
  [[nodiscard]] gpu_ref<T> operator()(tensor c) const {
    return gpu_ref<T>(c.block(), c.offset(), size_ != 0 ? size_ : c.size());
  }

 private:
  std::size_t size_;
};

/// The library actor for dense linear algebra: cuBLAS on a GPU, OpenBLAS on the host. Takes `gemm`
/// and `scaled_gemm`, which are answered with a tensor, and `sgemm` and `dgemm`, which are answered
/// with a reference.
using blas_actor = operation_actor<gemm, scaled_gemm, sgemm, dgemm>;

/// Starts a blas actor with lanes of its own on `service`
/// (`device_service_options::lanes_per_actor`), each with a thread of its own. Slow: makes the
/// library's handle.
/// @throws error `library_failure`, `out_of_memory`, `over_budget`, `shutting_down`, `device_lost`
[[nodiscard]] SLUICE_EXPORT blas_actor spawn_blas(caf::actor_system& system,
                                                  std::shared_ptr<device_service> service,
                                                  std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

SLUICE_MESSAGES(sluice_blas, 1200, sluice::blas_actor, sluice::gemm, sluice::sgemm, sluice::dgemm,
                sluice::scaled_gemm)
