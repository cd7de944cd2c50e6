// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/fft_types.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>

#include <complex>
#include <cstddef>
#include <memory>

namespace sluice {

/// The sign of the exponent of a complex transform.
enum class fft_direction : std::uint8_t {
  forward,  ///< exp(-2πi jk/n)
  inverse,  ///< exp(+2πi jk/n)
};

/// What all FFT requests have in common. A batch of one-dimensional transforms of `length` n; row b
/// of an array begins at element b · distance, and a distance of 0 stands for rows without gaps.
/// Nothing is normalised: forward then inverse multiplies by n; the result is multiplied by `scale`
/// (1/n makes an inverse NumPy's). The input is preserved, and the output must not share bytes with
/// it.
///
/// Errors: `invalid_argument` (length 0, rows of the output that overlap, an operand that is
/// missing, too small, on another device, overlapping or not aligned to a complex element, a scale
/// that is not finite), `unsupported` (sizes beyond the library's), `stale_ref`, `out_of_memory`,
/// `upstream_failed`, `library_failure`, `shutting_down`, `device_lost`.
struct fft_shape {
  std::size_t length = 0;           ///< n, in elements, at least 1
  std::size_t batch = 1;            ///< number of transforms
  std::size_t input_distance = 0;   ///< between rows of the input, in elements; 0: no gaps
  std::size_t output_distance = 0;  ///< between rows of the output, in elements; 0: no gaps
};

/// Complex to complex, n to n. The reply is `output`, which is allocated when left out.
template <class Real>
struct fft_c2c {
  fft_direction direction = fft_direction::forward;  ///< sign of the exponent
  fft_shape shape{};                                 ///< length, batch and distances
  gpu_ref<std::complex<Real>> input{};               ///< rows of n numbers
  gpu_ref<std::complex<Real>> output{};              ///< rows of n numbers
  double scale = 1;                                  ///< factor of the result, finite
  reply_on reply = reply_on::finished;               ///< when the reply is sent
};

/// Real to complex, forward: n numbers to the first n/2 + 1 bins. Rows of the input may overlap
/// (frames of a signal).
template <class Real>
struct fft_r2c {
  fft_shape shape{};                     ///< length, batch and distances
  gpu_ref<Real> input{};                 ///< rows of n numbers
  gpu_ref<std::complex<Real>> output{};  ///< rows of n/2 + 1 bins, allocated when left out
  double scale = 1;                      ///< factor of the result, finite
  reply_on reply = reply_on::finished;   ///< when the reply is sent
};

/// Complex to real, inverse: n/2 + 1 bins of a Hermitian spectrum to n numbers.
template <class Real>
struct fft_c2r {
  fft_shape shape{};                    ///< length, batch and distances
  gpu_ref<std::complex<Real>> input{};  ///< rows of n/2 + 1 bins
  gpu_ref<Real> output{};               ///< rows of n numbers, allocated when left out
  double scale = 1;                     ///< factor of the result, finite
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// The library actor for Fourier transforms: cuFFT on a GPU, KissFFT on the host.
using fft_actor =
    caf::typed_actor<caf::replies_to<fft_c2c<float>>::with<gpu_ref<std::complex<float>>>,
                     caf::replies_to<fft_c2c<double>>::with<gpu_ref<std::complex<double>>>,
                     caf::replies_to<fft_r2c<float>>::with<gpu_ref<std::complex<float>>>,
                     caf::replies_to<fft_r2c<double>>::with<gpu_ref<std::complex<double>>>,
                     caf::replies_to<fft_c2r<float>>::with<gpu_ref<float>>,
                     caf::replies_to<fft_c2r<double>>::with<gpu_ref<double>>,
                     caf::reacts_to<caf::atom_constant<caf::atom("room")>>>;

/// Starts an fft actor on a thread of its own, with a lane of its own on `service`. @throws error
/// as `spawn_blas`
[[nodiscard]] SLUICE_EXPORT fft_actor spawn_fft(caf::actor_system& system,
                                                std::shared_ptr<device_service> service,
                                                std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

namespace caf {
template <class Real>
struct allowed_unsafe_message_type<sluice::fft_c2c<Real>> : std::true_type {};
template <class Real>
struct allowed_unsafe_message_type<sluice::fft_r2c<Real>> : std::true_type {};
template <class Real>
struct allowed_unsafe_message_type<sluice::fft_c2r<Real>> : std::true_type {};
}  // namespace caf
