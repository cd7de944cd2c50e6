// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/actors/caf.hpp>
#include <sluice/actors/elementwise_types.hpp>
#include <sluice/envelope/device_service.hpp>
#include <sluice/envelope/kernel_trace.hpp>
#include <sluice/envelope/reply_token.hpp>
#include <sluice/export.hpp>

#include <complex>
#include <memory>

namespace sluice {

/// Asks for the overlapping frames of `signal`, each multiplied by `window`: output[f][j] =
/// window[j] · signal[f·hop + j − n_fft/2], with zeros outside the signal; `frame_count(layout)`
/// rows of n_fft elements, row-major. Without `window` it is all ones. The reply of every request
/// below is `output`, allocated when left out, which must not share bytes with the inputs. Errors:
/// `invalid_argument` (sizes, an operand that is missing, too small, on another device or
/// overlapping), `stale_ref`, `out_of_memory`, `upstream_failed`, `library_failure`,
/// `shutting_down`, `device_lost`.
template <class T>
struct frame_signal {
  frame_layout layout{};                ///< how the signal is cut into frames
  gpu_ref<T> signal{};                  ///< `layout.samples` samples
  gpu_ref<T> window{};                  ///< `layout.n_fft` factors, or left out
  gpu_ref<T> output{};                  ///< the frames
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// Asks for |input[i]|².
template <class T>
struct power_spectrum {
  gpu_ref<std::complex<T>> input{};     ///< complex numbers
  gpu_ref<T> output{};                  ///< as many elements as `input`
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// Asks for the largest element of `input` (at least one) as one element on the device. NaN if one
/// is NaN.
template <class T>
struct maximum {
  gpu_ref<T> input{};                   ///< at least one element
  gpu_ref<T> output{};                  ///< one element
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// Asks for the powers in `input` in decibels relative to the one element of `reference`; see
/// `decibel_options`. Here `output` may be `input` itself.
template <class T>
struct power_to_decibel {
  gpu_ref<T> input{};                   ///< powers
  gpu_ref<T> reference{};               ///< one element: the power of 0 dB
  decibel_options options{};            ///< smallest power and range
  gpu_ref<T> output{};                  ///< as many elements as `input`
  reply_on reply = reply_on::finished;  ///< when the reply is sent
};

/// The library actor for elementwise operations: our own kernels on a GPU, the same functions
/// compiled for the host.
using elementwise_actor =
    caf::typed_actor<caf::replies_to<frame_signal<float>>::with<gpu_ref<float>>,
                     caf::replies_to<frame_signal<double>>::with<gpu_ref<double>>,
                     caf::replies_to<power_spectrum<float>>::with<gpu_ref<float>>,
                     caf::replies_to<power_spectrum<double>>::with<gpu_ref<double>>,
                     caf::replies_to<maximum<float>>::with<gpu_ref<float>>,
                     caf::replies_to<maximum<double>>::with<gpu_ref<double>>,
                     caf::replies_to<power_to_decibel<float>>::with<gpu_ref<float>>,
                     caf::replies_to<power_to_decibel<double>>::with<gpu_ref<double>>,
                     caf::reacts_to<caf::atom_constant<caf::atom("room")>>>;

/// Starts an elementwise actor on a thread of its own, with a lane of its own on `service`.
/// @throws error as `spawn_blas`
[[nodiscard]] SLUICE_EXPORT elementwise_actor
spawn_elementwise(caf::actor_system& system, std::shared_ptr<device_service> service,
                  std::shared_ptr<kernel_trace> trace = nullptr);

}  // namespace sluice

namespace caf {
template <class T>
struct allowed_unsafe_message_type<sluice::frame_signal<T>> : std::true_type {};
template <class T>
struct allowed_unsafe_message_type<sluice::power_spectrum<T>> : std::true_type {};
template <class T>
struct allowed_unsafe_message_type<sluice::maximum<T>> : std::true_type {};
template <class T>
struct allowed_unsafe_message_type<sluice::power_to_decibel<T>> : std::true_type {};
}  // namespace caf
