// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/export.hpp>

#include <memory>

namespace sluice {

/// A trace that shows every launch as an NVTX range on the timeline of NVIDIA's tools.
///
///     gemm.trace(std::make_shared<nvtx_trace>());  // a kernel_envelope
///
/// The range extends from `before_enqueue` to `after_complete`. The steps of a program have ranges
/// of their own around their enqueueing calls, with any trace and without one. Without the CUDA
/// toolkit at build time the trace does nothing (`available`).
class SLUICE_EXPORT nvtx_trace final : public kernel_trace {
 public:
  nvtx_trace();
  ~nvtx_trace() override;
  /// Whether this build draws ranges. Thread-safe.
  [[nodiscard]] static bool available() noexcept;

  void before_enqueue(const kernel_info& info) override;
  void after_complete(const kernel_info& info, const kernel_outcome& outcome) override;

 private:
  struct open_ranges;
  std::unique_ptr<open_ranges> open_;
};

}  // namespace sluice
