// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/fft/fft_call.hpp"

#include <cstddef>
#include <memory>
#include <span>
#include <string>

// The implementations of the transforms; see `operation_functions`.

namespace sluice::host {
/// What a plan of rows costs.
[[nodiscard]] plan_price price_of_fft_plan(const operations::fft_call& call);
/// Makes a plan of rows.
[[nodiscard]] std::shared_ptr<const operation_plan> make_fft_plan(lane_libraries& libraries,
                                                                  const operations::fft_call& call);
/// Computes the rows. The plan owns scratch memory, so only one thread may run it at a time.
void compute_fft(const operations::fft_call& call, const operation_plan* plan, const void* x,
                 void* y);
}  // namespace sluice::host

namespace sluice::cuda {
/// The version of cuFFT.
[[nodiscard]] std::string fft_version();
/// Loads our kernels.
void prepare_fft(lane_libraries& libraries);
/// Makes a plan of cuFFT for the lane's stream.
[[nodiscard]] std::shared_ptr<const operation_plan> make_fft_plan(lane_libraries& libraries,
                                                                  const operations::fft_call& call);
/// Enqueues with cuFFT.
void enqueue_fft(lane_libraries& libraries, const operations::fft_call& call,
                 const operation_plan& plan, void* workspace, const void* x, void* y);
/// The operands of one transform of a batch.
struct fft_operands {
  const void* x;
  void* y;
};
/// Enqueues several transforms with equal calls, at most `most_transforms`.
/// @throws nothing_enqueued, error `library_failure`
void enqueue_ffts(lane_libraries& libraries, const operations::fft_call& call,
                  const operation_plan& plan, void* workspace,
                  std::span<const fft_operands> operands);
}  // namespace sluice::cuda
