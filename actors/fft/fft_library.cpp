// SPDX-License-Identifier: Apache-2.0
#include "actors/fft/fft_library.hpp"

#include "actors/fft/fft_libraries.hpp"

#include <sluice/runtime/error.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>

namespace sluice {

namespace {

[[noreturn]] void refuse(const std::string& what) {
  throw error(errc::invalid_argument, "fft: " + what);
}

// Leaves room for every sum and product of sizes in bytes.
void require_countable(std::size_t batch, std::size_t distance, std::size_t row,
                       element_type type) {
  const std::size_t most = std::numeric_limits<std::size_t>::max() / 4 / size_of(type);
  if (row > most || (batch != 0 && distance > (most - row) / batch)) {
    refuse("the number of bytes overflows");
  }
}

}  // namespace

fft_description completed(const fft_description& description) {
  fft_description d = description;
  if (d.precision != element_type::f32 && d.precision != element_type::f64) {
    refuse("the precision is neither f32 nor f64");
  }
  if (d.length == 0) refuse("the length is 0");
  const std::size_t in = input_row(d.kind, d.length);
  const std::size_t out = output_row(d.kind, d.length);
  if (d.input_distance == 0) d.input_distance = in;
  if (d.output_distance == 0) d.output_distance = out;
  if (d.batch > 1) {
    if (d.output_distance < out) refuse("rows of the output overlap");
    if (d.kind == fft_kind::c2r && d.input_distance < in) refuse("rows of the input overlap");
  }
  require_countable(d.batch, d.input_distance, in, input_type(d));
  require_countable(d.batch, d.output_distance, out, output_type(d));
  return d;
}

namespace actors {

void require_executable(const fft_description& completed, const void* in, const void* out,
                        double scale) {
  if (!std::isfinite(scale)) refuse("the scale is not finite");
  if (completed.batch == 0) return;
  const std::size_t alignment = 2 * size_of(completed.precision);
  if (reinterpret_cast<std::uintptr_t>(in) % alignment != 0 ||
      reinterpret_cast<std::uintptr_t>(out) % alignment != 0) {
    refuse("an operand is not aligned to a complex element");
  }
  const bool complex =
      completed.kind == fft_kind::c2c_forward || completed.kind == fft_kind::c2c_inverse;
  if (in == out && !(complex && completed.input_distance == completed.output_distance)) {
    refuse("input and output are one, which only c2c with equal distances allows");
  }
}

std::unique_ptr<fft_library> make_fft_library(device_runtime& runtime, stream_ref stream) {
  return runtime.device().id().kind == device_kind::host ? make_host_fft_library(stream)
                                                         : make_cuda_fft_library(runtime, stream);
}

}  // namespace actors

}  // namespace sluice
