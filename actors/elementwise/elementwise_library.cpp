// SPDX-License-Identifier: Apache-2.0
#include "actors/elementwise/elementwise_library.hpp"

#include "actors/elementwise/elementwise_libraries.hpp"

#include <sluice/runtime/error.hpp>

#include <cmath>
#include <limits>
#include <string>

namespace sluice {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw error(errc::invalid_argument, "elementwise: " + what);
}

}  // namespace

std::size_t frame_count(const frame_layout& layout) {
  if (layout.n_fft == 0) refuse("n_fft is 0");
  if (layout.hop == 0) refuse("hop is 0");
  constexpr std::size_t most = std::numeric_limits<std::size_t>::max() / 64;
  if (layout.n_fft > most || layout.samples > most || layout.hop > most) {
    refuse("a size of the frames overflows");
  }
  const std::size_t padded = layout.samples + 2 * (layout.n_fft / 2);
  if (layout.samples == 0 || padded < layout.n_fft) return 0;
  const std::size_t frames = 1 + (padded - layout.n_fft) / layout.hop;
  if (frames > most / layout.n_fft) refuse("the size of all frames overflows");
  return frames;
}

namespace actors {

void require_real(element_type type) {
  if (type != element_type::f32 && type != element_type::f64) {
    refuse("the type is neither f32 nor f64");
  }
}

void require_valid(element_type type, const decibel_options& options) {
  const double smallest = type == element_type::f32
                              ? static_cast<double>(std::numeric_limits<float>::min())
                              : std::numeric_limits<double>::min();
  if (!(options.amin >= smallest) || !std::isfinite(options.amin)) {
    refuse("amin is not a positive number of the element type");
  }
  if (!(options.top_db >= 0)) refuse("top_db is negative or not a number");
}

std::unique_ptr<elementwise_library> make_elementwise_library(device_runtime& runtime,
                                                              stream_ref stream) {
  return runtime.device().id().kind == device_kind::host
             ? make_host_elementwise_library(stream)
             : make_cuda_elementwise_library(runtime, stream);
}

}  // namespace actors

}  // namespace sluice
