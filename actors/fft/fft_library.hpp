// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/fft_types.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <cstddef>
#include <memory>

namespace sluice::actors {

/// What a library works out once for a description. Holds no operands. May be dropped on any
/// thread, once no launch that uses it is unfinished.
class fft_plan {
 public:
  explicit fft_plan(const fft_description& completed) : description_(completed) {}
  fft_plan(const fft_plan&) = delete;
  fft_plan& operator=(const fft_plan&) = delete;
  virtual ~fft_plan() = default;

  /// Completed: the distances are filled in.
  [[nodiscard]] const fft_description& description() const noexcept { return description_; }

 private:
  fft_description description_;
};

/// Discrete Fourier transforms on one stream. Belongs to one lane; not thread-safe. Destroying it
/// does not wait: the workspace is freed behind the work that is queued.
class fft_library {
 public:
  /// The number of plans that are kept for the next request.
  static constexpr std::size_t plan_cache_capacity = 32;

  fft_library() = default;
  fft_library(const fft_library&) = delete;
  fft_library& operator=(const fft_library&) = delete;
  virtual ~fft_library() = default;

  /// The plan for `description`, from the cache or new: everything slow, and the workspace. To be
  /// called before anything is held. A plan belongs to this library object.
  /// @throws error as `completed`; `unsupported` (a size that the library does not take),
  /// `out_of_memory`, `over_budget`, `library_failure`, `device_lost`
  [[nodiscard]] virtual std::shared_ptr<const fft_plan> prepare(
      const fft_description& description) = 0;

  /// Queues out = scale * transform(in), row by row, on the library's stream; returns at once and
  /// allocates no device memory. With scale 1 nothing is multiplied.
  ///
  /// `in` and `out` hold `input_extent` and `output_extent` elements, stay alive until the work has
  /// finished, and are aligned to a complex element, also where they are real. So does `plan` stay
  /// alive. The input is preserved, for c2r too. The two do not overlap, except that c2c with equal
  /// distances may have in == out. Elements of the output between rows are left alone.
  /// @throws error `invalid_argument` (alignment, scale not finite), `library_failure`,
  /// `device_lost`
  virtual void execute(const fft_plan& plan, const void* in, void* out, double scale) = 0;
};

/// The implementation for the stream's device. `runtime` and the stream must outlive it.
/// @throws error `unsupported`, `library_failure`, `device_lost`
[[nodiscard]] std::unique_ptr<fft_library> make_fft_library(device_runtime& runtime,
                                                            stream_ref stream);

}  // namespace sluice::actors
