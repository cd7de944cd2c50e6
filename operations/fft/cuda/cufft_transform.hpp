// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/fft/fft_call.hpp"

#include <sluice/operations/lane_libraries.hpp>
#include <sluice/runtime/device.hpp>
#include <sluice/runtime/stream.hpp>

#include <cufft.h>

#include <cstddef>

namespace sluice::cuda {

/// A plan of cuFFT, bound to a stream.
class cufft_transform {
 public:
  /// @throws error `library_failure`, `out_of_memory`
  cufft_transform(const operations::fft_key& key, sluice::device& device, stream_ref stream);
  cufft_transform(const cufft_transform&) = delete;
  cufft_transform& operator=(const cufft_transform&) = delete;
  ~cufft_transform();

  [[nodiscard]] const operations::fft_key& key() const noexcept { return key_; }
  [[nodiscard]] std::size_t workspace_bytes() const noexcept { return work_bytes_; }
  /// Transforms zeros once, so that the kernels are loaded here and not while a launch holds
  /// leases. Large plans, and plans for which there is no memory now, are loaded by their first
  /// launch.
  /// @throws error `library_failure`
  void warm_up(lane_libraries& libraries) const;
  /// Enqueues the transform with `workspace` as its scratch memory.
  /// @throws error `library_failure`
  void enqueue(void* workspace, void* x, void* y) const;

 private:
  void bind(stream_ref stream) const;

  const operations::fft_key key_;
  sluice::device& device_;
  cufftHandle handle_ = 0;
  std::size_t work_bytes_ = 0;
  mutable void* workspace_ = nullptr;
};

}  // namespace sluice::cuda
