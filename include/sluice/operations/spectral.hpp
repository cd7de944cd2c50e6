// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/pad_mode.hpp>

#include <cstddef>
#include <cstdint>
#include <tuple>

namespace sluice {

/// How a signal is cut into overlapping frames of a short-time Fourier transform. Frame f is
/// centred: it begins n_fft/2 samples before sample f · hop.
struct frame_layout {
  std::size_t samples = 0;  ///< length of the signal
  std::size_t n_fft = 0;    ///< length of a frame
  std::size_t hop = 0;      ///< samples from one frame to the next
};

/// The number of frames that fit into the signal padded by n_fft/2 samples on both sides:
/// 1 + samples/hop for an even n_fft. 0 if there are no samples, or too few for one frame.
/// @throws error `invalid_argument` if n_fft or hop is 0, or a size overflows
[[nodiscard]] SLUICE_EXPORT std::size_t frame_count(const frame_layout& layout);

/// The overlapping frames of signals, each multiplied by a window: y[..., f, j] = window[j] ·
/// signal[..., f·hop + j − n_fft/2].
///
///     frame_signal{.signal = samples, .window = hann, .n_fft = 2048, .hop = 512}
///     frame_signal{.signal = samples, .window = hann, .hop = 160, .mode = pad_mode::reflect}
///
/// `mode` says what is outside of the signal. With `reflect`, a Fourier transform of the frames is
/// `torch.stft` with its defaults; `constant` is zeros, as in `librosa.stft`. A window that is
/// shorter than a frame stands in its middle, between (n_fft − window)/2 zeros before it, rounded
/// down, and zeros behind it. Frames at the end of a signal with a mode other than `constant`
/// depend on where it ends, so an input that is `padded` needs `constant`.
///
/// Element types: f32, f64, the same for all operands. All strides are allowed. Y shares no bytes
/// with the inputs. The result is Y, a new row-major tensor if it is not given.
struct frame_signal {
  operand signal{};                    ///< signals, of shape [..., samples]
  operand window{};                    ///< at most n_fft factors; all 1 if it is not given
  std::int64_t n_fft = 0;              ///< length of a frame, at least 1; 0: that of the window
  std::int64_t hop = 0;                ///< samples from one frame to the next, at least 1
  pad_mode mode = pad_mode::constant;  ///< the samples outside of the signal; `constant`: 0
  operand y{};                         ///< Y, of shape [..., frames, n_fft]; see `frame_count`

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("signal", &frame_signal::signal), input("window", &frame_signal::window),
        parameter("n_fft", &frame_signal::n_fft), parameter("hop", &frame_signal::hop),
        parameter("mode", &frame_signal::mode), output("y", &frame_signal::y));
  }
};

/// The squared magnitudes of complex numbers, |X|².
///
///     power_spectrum{.x = spectrum}
///
/// Element types: c64 to f32, c128 to f64. Both squares and their sum are rounded; beyond the
/// largest number of the type they are infinity: from |X| = 1.8e19 on in f32. A product with a
/// filterbank then multiplies infinity by 0, which is NaN. A smaller window prevents it. All
/// strides are allowed. X and Y share no bytes. The result is Y, a new tensor without gaps if it is
/// not given, whose dimensions lie in the order of those of X.
struct power_spectrum {
  operand x{};  ///< X, of any shape
  operand y{};  ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(input("x", &power_spectrum::x), output("y", &power_spectrum::y));
  }
};

/// How power becomes decibels: max(10·log10(max(S, amin)) − 10·log10(max(reference, amin)),
/// −top_db). If the reference is the maximum of S, this is librosa's `power_to_db` for
/// `ref=np.max`.
struct decibel_options {
  double amin = 1e-10;  ///< > 0; smaller powers count as this one
  double top_db = 80;   ///< ≥ 0; distance of the floor from the reference; infinity for no floor
  [[nodiscard]] bool operator==(const decibel_options&) const noexcept = default;
};

/// Powers in decibels relative to a reference; see `decibel_options`.
///
///     power_to_decibel{.x = mel, .reference = loudest, .y = mel}
///
/// The reference is broadcast to the shape of X as in NumPy; it may have one element. Element
/// types: f32, f64, the same for all operands. The devices agree within a few of the last places.
/// All strides are allowed. Y may be the same view as X and the reference; otherwise it shares no
/// bytes with them. The result is Y, a new tensor without gaps if it is not given, whose dimensions
/// lie in the order of those of X.
struct power_to_decibel {
  operand x{};                ///< X, powers, of any shape
  operand reference{};        ///< the power of 0 dB
  decibel_options options{};  ///< smallest power and range
  operand y{};                ///< Y, of the shape of X

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &power_to_decibel::x), input("reference", &power_to_decibel::reference),
        parameter("options", &power_to_decibel::options), output("y", &power_to_decibel::y));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<frame_signal>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<power_spectrum>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(
    operation_type<power_to_decibel>);
///@}

}  // namespace sluice
