// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/core/rows.hpp"
#include "operations/cuda_build.hpp"
#include "operations/fft/fft_functions.hpp"

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>

namespace sluice {
namespace {

using operations::fft_call;
using operations::fft_kind;
using operations::fft_row;

/// Refuses an operand that is not one of two types.
void require_type(const inference& inference, const operand& operand, const tensor_spec& s,
                  element_type single, element_type twofold) {
  if (s.type == single || s.type == twofold) return;
  throw inference.refusal(operand, "is of type ", s.type, ", but the transform takes ", single,
                          " and ", twofold);
}

/// The distance between the rows of an operand, or of its packed copy. Libraries need the elements
/// of a row side by side, rows at one distance, and an operand that begins at a whole complex
/// element. `refused_distance` is a distance that they take for something else.
std::int64_t row_distance(inference& inference, const operand& operand, const tensor_spec& s,
                          bool may_overlap, std::size_t complex_bytes,
                          std::int64_t refused_distance = 0) {
  const auto row = s.shape[s.rank() - 1];
  const auto stack = operations::stack_of(s, 1);
  std::int64_t rows = 1;
  for (const auto extent : stack) rows *= extent;
  const auto distance = rows > 1 ? operations::distance_of(s, 1, stack) : row;
  const bool has_gaps = row > 1 && s.strides[s.rank() - 1] != 1;
  const auto least = may_overlap ? 1 : row;
  const bool is_refused = rows > 1 && row != refused_distance && distance == refused_distance;
  if (!has_gaps && !is_refused && distance && *distance >= least && s.alignment >= complex_bytes) {
    return *distance;
  }
  inference.pack(operand);
  return row;
}

/// What all transforms have in common. `length` is that of the real or complex signal.
template <class Operation>
fft_call infer_rows(const Operation& op, inference& inference, fft_kind kind, std::int64_t length,
                    element_type result) {
  const auto& x = inference.require(op.x);
  const bool is_double = x.type == element_type::f64 || x.type == element_type::c128;
  const auto complex_bytes = size_of(is_double ? element_type::c128 : element_type::c64);
  fft_call call{.key = {fft_row{.kind = kind, .is_double = is_double ? 1 : 0, .length = length}}};
  call.scale = is_double ? op.scale.template to<double>("scale")
                         : static_cast<double>(op.scale.template to<float>("scale"));
  inference.couple(op.x, x.rank() - 1);
  auto shape = x.shape;
  shape[shape.size() - 1] = call.key.output_row();
  const auto& y = inference.result(op.y, result, shape);
  if (x.size() == 0) {
    call.key.length = 1;  // no plan is needed, and one serves all
    call.key.batch = 0;
    inference.ignore(op.x);
    inference.ignore(op.y);
    return call;
  }
  call.key.batch = 1;
  for (const auto extent : operations::stack_of(x, 1)) call.key.batch *= extent;
  call.key.input_distance = row_distance(inference, op.x, x, kind != fft_kind::c2r, complex_bytes);
  // Rows of real results with the gaps of an in-place transform: cuFFT writes the gaps (CUDA 13.0).
  const auto in_place_distance = kind == fft_kind::c2r ? 2 * (length / 2 + 1) : 0;
  call.key.output_distance =
      row_distance(inference, op.y, y, false, complex_bytes, in_place_distance);
  return call;
}

/// X of an operation, with at least one element in a row.
template <class Operation>
const tensor_spec& require_rows(const Operation& op, const inference& inference,
                                element_type single, element_type twofold) {
  const auto& x = inference.require(op.x);
  require_type(inference, op.x, x, single, twofold);
  if (x.rank() == 0 || x.shape[x.rank() - 1] == 0) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", so there is nothing to transform");
  }
  return x;
}

fft_call infer(const fft& op, inference& inference) {
  const auto& x = require_rows(op, inference, element_type::c64, element_type::c128);
  operations::require_enumerator("direction", op.direction, fft_direction::inverse);
  inference.allow_in_place(op.y, op.x);
  return infer_rows(
      op, inference,
      op.direction == fft_direction::forward ? fft_kind::c2c_forward : fft_kind::c2c_inverse,
      x.shape[x.rank() - 1], x.type);
}

fft_call infer(const rfft& op, inference& inference) {
  const auto& x = require_rows(op, inference, element_type::f32, element_type::f64);
  return infer_rows(op, inference, fft_kind::r2c, x.shape[x.rank() - 1],
                    x.type == element_type::f32 ? element_type::c64 : element_type::c128);
}

fft_call infer(const irfft& op, inference& inference) {
  const auto& x = require_rows(op, inference, element_type::c64, element_type::c128);
  const auto bins = x.shape[x.rank() - 1];
  constexpr auto most_bins = std::numeric_limits<std::int64_t>::max() / 2 + 1;
  if (bins > most_bins) {
    throw inference.refusal(op.x, "has the shape ", x.shape, ", so the length overflows");
  }
  const auto length = op.length != 0 ? op.length : 2 * (bins - 1);
  if (length == 0) throw invalid_argument("length", "is not given, and x has one bin");
  if (length < 1) {
    throw invalid_argument("length", std::to_string(length) + " is less than 1");
  }
  if (length / 2 + 1 != bins) {
    throw invalid_argument("length", std::to_string(length) + " needs " +
                                         std::to_string(length / 2 + 1) + " bins, but x has " +
                                         std::to_string(bins));
  }
  return infer_rows(op, inference, fft_kind::c2r, length,
                    x.type == element_type::c64 ? element_type::f32 : element_type::f64);
}

template <class Operation>
void compute(const fft_call& call, const launch_of<Operation>& launch) {
  if (call.key.batch == 0) return;
  host::compute_fft(call, &launch.template plan<operation_plan>(),
                    launch.template get<const void>(&Operation::x),
                    launch.template get<void>(&Operation::y));
}

template <class Operation>
void enqueue(lane_libraries& libraries, const fft_call& call, const launch_of<Operation>& launch) {
  if (call.key.batch == 0) return;
  cuda::enqueue_fft(libraries, call, launch.template plan<operation_plan>(), launch.workspace(),
                    launch.template get<const void>(&Operation::x),
                    launch.template get<void>(&Operation::y));
}

template <class Operation>
void enqueue_together(lane_libraries& libraries, const fft_call& call,
                      const batch_of<Operation>& batch) {
  std::array<cuda::fft_operands, operations::most_transforms> members{};
  for (std::size_t i = 0; i < batch.size(); ++i) {
    members[i] = {batch[i].template get<const void>(&Operation::x),
                  batch[i].template get<void>(&Operation::y)};
  }
  cuda::enqueue_ffts(libraries, call, batch.template plan<operation_plan>(), batch.workspace(),
                     {members.data(), batch.size()});
}

template <class Operation>
const operation_descriptor& make_descriptor(std::string_view name) {
  static const typed_operation_descriptor<Operation, fft_call> descriptor(
      {.name = name,
       .infer = [](const Operation& op, inference& inference) { return infer(op, inference); },
       .host = {.library = "sluice",
                .price = host::price_of_fft_plan,
                .make_plan = host::make_fft_plan},
       .compute = compute<Operation>,
       .cuda = {.library = "cuFFT",
                .version = operations::with_cuda<cuda::fft_version>(),
                .prepare = operations::with_cuda<cuda::prepare_fft>(),
                .make_plan = operations::with_cuda<cuda::make_fft_plan>()},
       .enqueue = operations::with_cuda<enqueue<Operation>>(),
       .can_be_captured = true,
       .batches = {.most = [](const fft_call& call) { return operations::most_in_batch(call.key); },
                   .same = [](const fft_call& a,
                              const fft_call& b) { return a.key == b.key && a.scale == b.scale; },
                   .enqueue = operations::with_cuda<enqueue_together<Operation>>()}});
  return descriptor;
}

}  // namespace

std::size_t operations::most_in_batch(const fft_key& key) noexcept {
  // Larger transforms keep a GPU busy alone.
  constexpr std::int64_t most_bytes = 64 << 10U;
  if (key.batch == 0 || key.batch > most_bytes || key.length > most_bytes) return 0;
  const bool has_gaps = key.batch != 1 && (key.input_distance != key.input_row() ||
                                           key.output_distance != key.output_row());
  const auto row = key.input_row_bytes() + key.output_row_bytes();
  return has_gaps || row > most_bytes / key.batch ? 0 : most_transforms;
}

const operation_descriptor& descriptor_of(operation_type<fft>) {
  return make_descriptor<fft>("fft");
}
const operation_descriptor& descriptor_of(operation_type<rfft>) {
  return make_descriptor<rfft>("rfft");
}
const operation_descriptor& descriptor_of(operation_type<irfft>) {
  return make_descriptor<irfft>("irfft");
}

}  // namespace sluice
