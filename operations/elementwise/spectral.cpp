// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/map_functions.hpp"
#include "operations/elementwise/spectral_calls.hpp"

#include <sluice/operations/scalar.hpp>
#include <sluice/operations/spectral.hpp>

#include <cmath>
#include <limits>
#include <string>

namespace sluice {

namespace {
/// The limit of sizes, in elements. Nothing that is computed from them overflows.
constexpr std::size_t max_size = std::numeric_limits<std::size_t>::max() / 64;
}  // namespace

std::size_t frame_count(const frame_layout& layout) {
  if (layout.n_fft == 0) throw invalid_argument("n_fft", "is 0");
  if (layout.hop == 0) throw invalid_argument("hop", "is 0");
  if (layout.n_fft > max_size) throw invalid_argument("n_fft", "the size of a frame overflows");
  if (layout.samples > max_size)
    throw invalid_argument("samples", "the size of the signal overflows");
  if (layout.hop > max_size) throw invalid_argument("hop", "the size of a step overflows");
  const std::size_t padded = layout.samples + 2 * (layout.n_fft / 2);
  if (layout.samples == 0 || padded < layout.n_fft) return 0;
  const std::size_t frames = 1 + (padded - layout.n_fft) / layout.hop;
  if (frames > max_size / layout.n_fft)
    throw invalid_argument("hop", "the size of all frames overflows");
  return frames;
}

namespace {

using operations::decibel_call;
using operations::descriptor_of_map;
using operations::frames_call;
using operations::is_complex;
using operations::is_real;
using operations::make_layout;
using operations::power_call;
using operations::require_same_type;

/// An operand of type f32 or f64.
const tensor_spec& require_real(const inference& inference, const operand& operand) {
  const auto& s = inference.require(operand);
  if (!is_real(s.type)) {
    throw inference.refusal(operand, "is of type ", s.type, ", but must be f32 or f64");
  }
  return s;
}

frames_call infer_frames(const frame_signal& op, inference& inference) {
  const auto& signal = require_real(inference, op.signal);
  if (signal.rank() == 0) throw inference.refusal(op.signal, "has no dimension");
  operations::require_enumerator("mode", op.mode, pad_mode::wrap);
  inference.couple(op.signal, signal.rank() - 1);
  const auto samples = signal.shape[signal.rank() - 1];
  const auto* const window = inference.given(op.window);
  if (window != nullptr && window->rank() != 1) {
    throw inference.refusal(op.window, "has the shape ", window->shape, ", but must be a vector");
  }
  const auto n_fft = op.n_fft == 0 && window != nullptr ? window->shape[0] : op.n_fft;
  if (op.n_fft == 0 && window == nullptr) throw invalid_argument("n_fft", "is not given");
  if (n_fft < 1) throw invalid_argument("n_fft", std::to_string(n_fft) + " is less than 1");
  if (op.hop == 0) throw invalid_argument("hop", "is not given");
  if (op.hop < 1) throw invalid_argument("hop", std::to_string(op.hop) + " is less than 1");
  if (window != nullptr) {
    require_same_type(inference, op.window, *window, signal.type, "signal");
    inference.couple(op.window, 0);
    if (window->shape[0] > n_fft) {
      throw inference.refusal(op.window, "has the shape ", window->shape, ", but a frame has ",
                              n_fft, " samples");
    }
  }
  if (static_cast<std::size_t>(samples) > max_size) {
    throw inference.refusal(op.signal, "has the shape ", signal.shape, ", whose size overflows");
  }
  const auto frames =
      frame_count({static_cast<std::size_t>(samples), static_cast<std::size_t>(n_fft),
                   static_cast<std::size_t>(op.hop)});
  if (signal.rank() == extents::max_rank)
    throw inference.refusal(op.signal, "has too many dimensions");
  auto shape = signal.shape;
  shape[signal.rank() - 1] = static_cast<std::int64_t>(frames);
  shape.push_back(n_fft);
  const auto& y = inference.result(op.y, signal.type, shape);
  // The last two dimensions are indices: position f of operand 2, and position j of operand 3.
  auto first = shape;
  auto frame = shape;
  auto place = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    first[d] = d + 2 < shape.size() ? signal.strides[d] : 0;
    frame[d] = d + 2 == shape.size() ? 1 : 0;
    place[d] = d + 1 == shape.size() ? 1 : 0;
  }
  auto padding = n_fft / 2;
  // The frames of a periodic signal are the same a whole number of periods later.
  if (op.mode == pad_mode::wrap && samples > 0) padding %= samples;
  const auto window_size = window != nullptr ? window->shape[0] : n_fft;
  return {.layout = make_layout<4>(shape, {y.strides, first, frame, place},
                                   {y.type, y.type, y.type, y.type}),
          .frames = {.samples = samples,
                     .hop = op.hop,
                     .padding = padding,
                     .signal_stride = signal.strides[signal.rank() - 1],
                     .window_stride = window != nullptr ? window->strides[0] : 0,
                     .window_begin = (n_fft - window_size) / 2,
                     .window_size = window_size,
                     .mode = op.mode}};
}

power_call infer_power(const power_spectrum& op, inference& inference) {
  const auto& x = inference.require(op.x);
  if (!is_complex(x.type)) {
    throw inference.refusal(op.x, "is of type ", x.type, ", but must be complex");
  }
  const auto& y =
      inference.result(op.y, operations::part_of(x.type), x.shape, operations::memory_order(x));
  return {make_layout<2>(x.shape, {y.strides, x.strides}, {y.type, x.type})};
}

decibel_call infer_decibel(const power_to_decibel& op, inference& inference) {
  const auto& x = require_real(inference, op.x);
  const auto& reference = inference.require(op.reference);
  require_same_type(inference, op.reference, reference, x.type, "x");
  const double smallest = x.type == element_type::f32
                              ? static_cast<double>(std::numeric_limits<float>::min())
                              : std::numeric_limits<double>::min();
  const double largest = x.type == element_type::f32
                             ? static_cast<double>(std::numeric_limits<float>::max())
                             : std::numeric_limits<double>::max();
  if (!(op.options.amin >= smallest && op.options.amin <= largest)) {
    throw invalid_argument("options.amin", scalar(op.options.amin).text() +
                                               " is not a positive normal number of type " +
                                               std::string(to_string(x.type)));
  }
  if (!(op.options.top_db >= 0)) {
    throw invalid_argument("options.top_db",
                           scalar(op.options.top_db).text() + " is negative or not a number");
  }
  const auto strides = operations::broadcast_strides(inference, op.reference, reference, x.shape);
  inference.allow_in_place(op.y, op.x);
  inference.allow_in_place(op.y, op.reference);
  const auto& y = inference.result(op.y, x.type, x.shape, operations::memory_order(x));
  return {
      .layout = make_layout<3>(x.shape, {y.strides, x.strides, strides}, {x.type, x.type, x.type}),
      .amin = op.options.amin,
      .top_db = op.options.top_db};
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<frame_signal>) {
  return descriptor_of_map<frame_signal, frames_call, infer_frames, &frame_signal::signal,
                           &frame_signal::window>("frame_signal");
}
const operation_descriptor& descriptor_of(operation_type<power_spectrum>) {
  return descriptor_of_map<power_spectrum, power_call, infer_power, &power_spectrum::x>(
      "power_spectrum");
}
const operation_descriptor& descriptor_of(operation_type<power_to_decibel>) {
  return descriptor_of_map<power_to_decibel, decibel_call, infer_decibel, &power_to_decibel::x,
                           &power_to_decibel::reference>("power_to_decibel");
}

}  // namespace sluice
