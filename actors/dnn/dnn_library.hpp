// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "actors/dnn/conv2d_plan.hpp"

#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <memory>
#include <string>
#include <string_view>

namespace sluice::actors {

/// A library of neural-network operations bound to one stream for life. Belongs to one lane; not
/// thread-safe. The runtime and the stream must outlive it. The same call on the same device gives
/// the same bits.
class dnn_library {
 public:
  dnn_library() = default;
  dnn_library(const dnn_library&) = delete;
  dnn_library& operator=(const dnn_library&) = delete;
  virtual ~dnn_library() = default;

  /// "cuDNN", "oneDNN".
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
  /// The version in use, as the library tells it at run time.
  [[nodiscard]] virtual std::string version() const = 0;

  /// The plan for `description`: from the library's cache of the 64 plans that were used last, or
  /// made now, which is slow (choice of the algorithm, growth of the lane's workspace, loading of
  /// kernels). May queue work on the stream, does not wait for it. Comes before a launch's
  /// preflight.
  /// @throws error `invalid_argument` as `conv2d_output_shape`; `unsupported` when the library
  ///   cannot do it; `library_failure`, `out_of_memory`, `over_budget`, `device_lost`,
  ///   `shutting_down`
  [[nodiscard]] virtual std::shared_ptr<const conv2d_plan> prepare(
      const conv2d_description& description) = 0;

  /// Queues the convolution of `plan`, which this library has made, and returns; does not allocate
  /// device memory. The operands have the elements that the plan says; y overlaps none of the
  /// others. `bias` is null exactly when the plan has none. Empty operands may be null.
  /// @throws error `library_failure`, `device_lost`
  virtual void conv2d(const conv2d_plan& plan, const float* x, const float* w, const float* bias,
                      float* y) = 0;
};

/// The dnn library of the device of `runtime`, for `stream`: cuDNN or oneDNN. Slow; does not wait
/// for the device.
/// @throws error `unsupported` when this build has none for the device; `library_failure`,
///   `out_of_memory`, `over_budget`, `device_lost`, `shutting_down`
[[nodiscard]] std::unique_ptr<dnn_library> make_dnn_library(device_runtime& runtime,
                                                            stream_ref stream);

}  // namespace sluice::actors
