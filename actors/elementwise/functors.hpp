// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/host_device_code.hpp>

#include <cmath>
#include <cstdint>

/// The elementwise operations, each written once for both devices. Without contraction into fma all
/// but the logarithm give the same bits on both. `T` is float or double.
namespace sluice::actors {

/// One element of a windowed frame; see `frame_layout`.
template <class T>
struct windowed_frame {
  const T* signal;
  const T* window;  ///< n_fft factors; null for a rectangle
  std::uint64_t samples;
  std::uint64_t hop;
  std::uint64_t padding;

  SLUICE_HOST_DEVICE T operator()(std::uint64_t frame, std::uint64_t position) const {
    // Before the signal the difference wraps to a number beyond its end.
    const std::uint64_t sample = frame * hop + position - padding;
    const T value = sample < samples ? signal[sample] : T(0);
    return window != nullptr ? value * window[position] : value;
  }
};

/// |z|².
template <class T>
struct squared_magnitude {
  SLUICE_HOST_DEVICE T operator()(T real, T imaginary) const {
    return real * real + imaginary * imaginary;
  }
};

/// The larger of two numbers: NaN if one is NaN, and +0 is larger than -0. Associative and
/// commutative, so that a maximum is the same however it is cut into parts.
template <class T>
struct larger {
  SLUICE_HOST_DEVICE T operator()(T a, T b) const {
    if (a > b) return a;
    if (b > a) return b;
    if (a == b) return a == T(0) ? a + b : a;
    return static_cast<T>(NAN);
  }
};

/// One power in decibels; see `decibel_options`.
template <class T>
struct power_to_decibel {
  T amin;
  T floor;  ///< -top_db

  /// The same for all elements.
  SLUICE_HOST_DEVICE T reference_level(T reference) const { return level(reference); }
  SLUICE_HOST_DEVICE T operator()(T power, T level_of_reference) const {
    return larger<T>()(level(power) - level_of_reference, floor);
  }

 private:
  SLUICE_HOST_DEVICE T level(T power) const {
#if defined(__CUDA_ARCH__)
    return T(10) * ::log10(larger<T>()(power, amin));
#else
    return T(10) * std::log10(larger<T>()(power, amin));
#endif
  }
};

}  // namespace sluice::actors
