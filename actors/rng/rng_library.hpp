// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/rng_types.hpp>
#include <sluice/runtime/device_runtime.hpp>
#include <sluice/runtime/stream.hpp>

#include <memory>

namespace sluice::actors {

/// Makes random numbers on one stream. Holds no state of a sequence: the same description gives the
/// same numbers, on every device. Belongs to one lane; not thread-safe.
class rng_library {
 public:
  rng_library() = default;
  rng_library(const rng_library&) = delete;
  rng_library& operator=(const rng_library&) = delete;
  virtual ~rng_library() = default;

  /// Writes the described elements to `out`, ordered on the library's stream; returns at once.
  /// `out` has room for `description.count` elements, is aligned to one element, and stays alive
  /// until the work has finished.
  /// @throws error as `require_valid`; `library_failure`, `device_lost`
  virtual void generate(const random_description& description, void* out) = 0;
};

/// The implementation for the stream's device. `runtime` and the stream must outlive it. The first
/// use costs nothing more than the later ones: kernels are loaded here.
/// @throws error `unsupported`, `library_failure`, `device_lost`
[[nodiscard]] std::unique_ptr<rng_library> make_rng_library(device_runtime& runtime,
                                                            stream_ref stream);

}  // namespace sluice::actors
