// SPDX-License-Identifier: Apache-2.0
#include "operations/blas/gemm_functions.hpp"
#include "operations/core/enumerators.hpp"
#include "operations/cuda_build.hpp"
#include "operations/dnn/recurrent_functions.hpp"
#include "operations/elementwise/element_sets.hpp"
#include "operations/elementwise/indices.hpp"
#include "operations/elementwise/layouts.hpp"
#include "operations/elementwise/workspace_plan.hpp"

#include <sluice/operations/recurrent.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <type_traits>

namespace sluice {
namespace {

using operations::recurrent_cell;
using operations::recurrent_layer_call;

template <class Operation>
constexpr bool has_cell_state = std::is_same_v<Operation, lstm>;

template <class Operation>
constexpr recurrent_cell cell_of = std::is_same_v<Operation, lstm>  ? recurrent_cell::lstm
                                   : std::is_same_v<Operation, gru> ? recurrent_cell::gru
                                                                    : recurrent_cell::rnn;

void require_shape(const inference& inference, const operand& operand, const tensor_spec& s,
                   const extents& expected) {
  if (s.shape == expected) return;
  throw inference.refusal(operand, "has the shape ", s.shape, ", but must have the shape ",
                          expected);
}
void require_rank(const inference& inference, const operand& operand, const tensor_spec& s,
                  std::string_view dimensions) {
  if (s.rank() == 3) return;
  throw inference.refusal(operand, "has the shape ", s.shape,
                          ", but must have 3 dimensions: ", dimensions);
}
/// The strides of an operand of the type of X, if it is given. Refuses another shape.
void take_strides(const inference& inference, const operand& operand, element_type type,
                  const extents& shape, std::int64_t* strides) {
  const auto* const s = inference.given(operand);
  if (s == nullptr) return;
  operations::require_same_type(inference, operand, *s, type, "x");
  require_shape(inference, operand, *s, shape);
  std::copy_n(s->strides.begin(), s->rank(), strides);
}

double bound_of(double clip) {
  if (!std::isfinite(clip) || clip < 0) {
    throw invalid_argument(
        "clip", "is " + std::to_string(clip) + ", but must be a positive number, or 0: no bound");
  }
  return clip == 0 ? std::numeric_limits<double>::infinity() : clip;
}

/// The parameters of an operation.
///@{
void take_parameters(const lstm& op, recurrent_layer_call& call) {
  operations::require_enumerator("order", op.order, gate_order::pytorch);
  operations::require_enumerator("gate_activation", op.gate_activation, activation::tanh);
  operations::require_enumerator("cell_activation", op.cell_activation, activation::tanh);
  operations::require_enumerator("output_activation", op.output_activation, activation::tanh);
  call.functions[0] = op.gate_activation;
  call.functions[1] = op.cell_activation;
  call.functions[2] = op.output_activation;
  call.input_forget = op.input_forget;
  const bool is_onnx = op.order == gate_order::onnx;
  call.gates[0] = 0;
  call.gates[1] = is_onnx ? 1 : 3;
  call.gates[2] = is_onnx ? 2 : 1;
  call.gates[3] = is_onnx ? 3 : 2;
}
void take_parameters(const gru& op, recurrent_layer_call& call) {
  operations::require_enumerator("order", op.order, gate_order::pytorch);
  operations::require_enumerator("gate_activation", op.gate_activation, activation::tanh);
  operations::require_enumerator("hidden_activation", op.hidden_activation, activation::tanh);
  call.functions[0] = op.gate_activation;
  call.functions[1] = op.hidden_activation;
  call.linear_before_reset = op.linear_before_reset;
  const bool is_onnx = op.order == gate_order::onnx;
  call.gates[0] = is_onnx ? 0 : 1;
  call.gates[1] = is_onnx ? 1 : 0;
}
void take_parameters(const rnn& op, recurrent_layer_call& call) {
  operations::require_enumerator("activation", op.activation, activation::tanh);
  call.functions[0] = op.activation;
}
///@}

/// The matrices of the directions, which are packed if they lie in another way.
operations::blas_matrix matrices(inference& inference, const operand& operand,
                                 const tensor_spec& s) {
  const auto stored = [&s] {
    const auto by_rows = operations::stored_by_rows(s);
    return by_rows ? by_rows : operations::stored_by_columns(s);
  };
  auto matrix = stored();
  if (!matrix || (s.shape[0] > 1 && s.strides[0] < 0)) {
    inference.pack(operand);
    matrix = stored();
  }
  matrix->distance = s.shape[0] > 1 ? s.strides[0] : 0;
  return *matrix;
}

/// The distance between the rows of X, which are its sequences within its elements. X is packed if
/// they lie in another way.
std::int64_t leading_of_x(inference& inference, const operand& operand, const tensor_spec& x,
                          std::size_t time, std::size_t batch) {
  const auto is_matrix = [&] {
    const bool has_gaps = x.shape[2] > 1 && x.strides[2] != 1;
    const bool is_one = x.shape[time] == 1 || x.shape[batch] == 1 ||
                        x.strides[time] == x.shape[batch] * x.strides[batch];
    const auto leading = x.strides[x.shape[batch] > 1 ? batch : time];
    const bool has_rows = x.shape[time] * x.shape[batch] == 1 || leading >= x.shape[2];
    return !has_gaps && is_one && has_rows;
  };
  if (!is_matrix()) {
    inference.pack(
        operand, x.shape,
        time == 0 ? extents{}
                  : extents{static_cast<std::int64_t>(time), static_cast<std::int64_t>(batch), 2});
  }
  return std::max<std::int64_t>({x.strides[x.shape[batch] > 1 ? batch : time], x.shape[2], 1});
}

/// The results and the strides of the states.
template <class Operation>
void take_states(const Operation& op, inference& inference, element_type type,
                 recurrent_layer_call& call) {
  const bool is_time_major = op.layout == sequence_layout::time_major;
  const std::int64_t directions = call.directions;
  const auto& y =
      is_time_major
          ? inference.result(op.y, type, {call.steps, directions, call.batch, call.hidden},
                             {0, 2, 1, 3})
          : inference.result(op.y, type, {call.batch, call.steps, directions, call.hidden});
  const std::size_t order[] = {is_time_major ? 0U : 1U, is_time_major ? 1U : 2U,
                               is_time_major ? 2U : 0U, 3U};
  for (std::size_t i = 0; i < 4; ++i) call.y[i] = y.strides[order[i]];
  const auto shape = is_time_major ? extents{directions, call.batch, call.hidden}
                                   : extents{call.batch, directions, call.hidden};
  const auto take_state = [&](const operand& initial, const operand& last,
                              std::int64_t* initial_strides, std::int64_t* last_strides) {
    inference.allow_in_place(last, initial);
    take_strides(inference, initial, type, shape, initial_strides);
    const auto& result = inference.result(last, type, shape);
    std::copy_n(result.strides.begin(), 3, last_strides);
    if (is_time_major) return;
    std::swap(initial_strides[0], initial_strides[1]);
    std::swap(last_strides[0], last_strides[1]);
  };
  take_state(op.initial_h, op.y_h, call.initial_h, call.y_h);
  if constexpr (has_cell_state<Operation>) {
    take_state(op.initial_c, op.y_c, call.initial_c, call.y_c);
  }
}

template <class Operation>
recurrent_layer_call infer_layer(const Operation& op, inference& inference) {
  const auto& x = inference.require(op.x);
  const auto& w = inference.require(op.w);
  const auto& r = inference.require(op.r);
  operations::require_element(inference, op.x, x.type, operations::element_set::real,
                              "a recurrent layer");
  operations::require_same_type(inference, op.w, w, x.type, "x");
  operations::require_same_type(inference, op.r, r, x.type, "x");
  operations::require_enumerator("direction", op.direction, recurrent_direction::bidirectional);
  operations::require_enumerator("layout", op.layout, sequence_layout::batch_major);
  recurrent_layer_call call;
  call.cell = cell_of<Operation>;
  call.type = operations::storage_of(x.type);
  call.clip = bound_of(op.clip);
  take_parameters(op, call);
  const bool is_time_major = op.layout == sequence_layout::time_major;
  require_rank(inference, op.x, x,
               is_time_major ? "elements, sequences, numbers" : "sequences, elements, numbers");
  require_rank(inference, op.r, r, "directions, rows, numbers");
  const std::size_t time = is_time_major ? 0 : 1;
  const std::size_t batch = 1 - time;
  inference.couple(op.x, time);
  inference.couple(op.x, 2);
  inference.couple_from(op.w, 0);
  inference.couple_from(op.r, 0);
  call.steps = x.shape[time];
  call.batch = x.shape[batch];
  call.input = x.shape[2];
  call.hidden = r.shape[2];
  call.directions = op.direction == recurrent_direction::bidirectional ? 2 : 1;
  call.first_is_reverse = op.direction == recurrent_direction::reverse;
  std::int64_t rows = 0;
  if (__builtin_mul_overflow(call.gate_count(), call.hidden, &rows)) {
    throw inference.refusal(op.r, "has the shape ", r.shape, ", whose last extent is too large");
  }
  require_shape(inference, op.r, r, {call.directions, rows, call.hidden});
  require_shape(inference, op.w, w, {call.directions, rows, call.input});
  take_strides(inference, op.input_bias, x.type, {call.directions, rows}, call.input_bias);
  take_strides(inference, op.recurrent_bias, x.type, {call.directions, rows}, call.recurrent_bias);
  if constexpr (has_cell_state<Operation>) {
    take_strides(inference, op.peepholes, x.type, {call.directions, 3 * call.hidden},
                 call.peepholes);
  }
  if (inference.given(op.lengths) != nullptr) {
    const auto& lengths = operations::require_indices(inference, op.lengths);
    require_shape(inference, op.lengths, lengths, {call.batch});
    call.length_type = operations::storage_of(lengths.type);
    call.lengths = lengths.strides[0];
  }
  take_states(op, inference, x.type, call);
  if (inference.require(op.y_h).size() == 0) {
    for (const auto& u : inference.uses()) inference.ignore(*u.operand.value);
    return {};
  }
  if (call.steps == 0) {
    for (const auto* operand :
         {&op.x, &op.w, &op.r, &op.input_bias, &op.recurrent_bias, &op.lengths, &op.y}) {
      inference.ignore(*operand);
    }
    if constexpr (has_cell_state<Operation>) inference.ignore(op.peepholes);
  } else {
    call.r = matrices(inference, op.r, r);
    if (call.input == 0) {
      inference.ignore(op.x);
      inference.ignore(op.w);
    } else {
      call.w = matrices(inference, op.w, w);
      call.x_leading = leading_of_x(inference, op.x, x, time, batch);
    }
  }
  call.key.workspace_bytes = operations::rounded_workspace(gpu_layout(call).bytes);
  call.host.workspace_bytes = operations::rounded_workspace(host_layout(call).bytes);
  return call;
}

template <class Operation>
operations::recurrent_addresses addresses_of(const launch_of<Operation>& launch) {
  operations::recurrent_addresses addresses;
  addresses.x = launch.template get<const void>(&Operation::x);
  addresses.w = launch.template get<const void>(&Operation::w);
  addresses.r = launch.template get<const void>(&Operation::r);
  addresses.input_bias = launch.template get<const void>(&Operation::input_bias);
  addresses.recurrent_bias = launch.template get<const void>(&Operation::recurrent_bias);
  addresses.lengths = launch.template get<const void>(&Operation::lengths);
  addresses.initial_h = launch.template get<const void>(&Operation::initial_h);
  addresses.y = launch.template get<void>(&Operation::y);
  addresses.y_h = launch.template get<void>(&Operation::y_h);
  if constexpr (has_cell_state<Operation>) {
    addresses.initial_c = launch.template get<const void>(&Operation::initial_c);
    addresses.peepholes = launch.template get<const void>(&Operation::peepholes);
    addresses.y_c = launch.template get<void>(&Operation::y_c);
  }
  return addresses;
}
template <class Operation>
void compute_layer(const recurrent_layer_call& call, const launch_of<Operation>& launch) {
  if (call.batch == 0) return;
  host::compute_recurrent(call, addresses_of(launch),
                          {launch.is_prepacked(&Operation::w), launch.is_prepacked(&Operation::r)},
                          launch.workspace());
}
template <class Operation>
void enqueue_layer(lane_libraries& libraries, const recurrent_layer_call& call,
                   const launch_of<Operation>& launch) {
  if (call.batch == 0) return;
  cuda::enqueue_recurrent(libraries, call, addresses_of(launch), launch.workspace());
}

std::shared_ptr<const operation_plan> make_host_plan(lane_libraries&,
                                                     const recurrent_layer_call& call) {
  return std::make_shared<operations::workspace_plan>(
      static_cast<std::size_t>(call.host.workspace_bytes));
}

template <class Operation>
prepacked_layout prepacked(const recurrent_layer_call& call, const operation_plan*,
                           operand Operation::*input) {
  if (call.batch == 0) return {};
  if (input == &Operation::w) return host::layout_of_w(call);
  return input == &Operation::r ? host::layout_of_r(call) : prepacked_layout();
}
template <class Operation>
void prepack_matrix(lane_libraries&, const recurrent_layer_call& call,
                    const prepacking_of<Operation>& packing) {
  const auto pack = packing.input == &Operation::w ? host::prepack_w : host::prepack_r;
  pack(call, packing.source, packing.copy);
}

template <class Operation>
const operation_descriptor& layer_descriptor(std::string_view name) {
  static const typed_operation_descriptor<Operation, recurrent_layer_call> instance(
      {.name = name,
       .infer = infer_layer<Operation>,
       .host = {.library = "OpenBLAS",
                .version = host::blas_version,
                .check = host::check_recurrent,
                .make_plan = make_host_plan,
                .prepacked = prepacked<Operation>,
                .prepack = prepack_matrix<Operation>},
       .compute = compute_layer<Operation>,
       .cuda = {.library = "cuBLAS",
                .version = operations::with_cuda<cuda::blas_version>(),
                .prepare = operations::with_cuda<cuda::prepare_recurrent>(),
                .make_plan = operations::make_workspace_plan<recurrent_layer_call>},
       .enqueue = operations::with_cuda<enqueue_layer<Operation>>(),
       .can_be_captured = true});
  return instance;
}

}  // namespace

const operation_descriptor& descriptor_of(operation_type<lstm>) {
  return layer_descriptor<lstm>("lstm");
}
const operation_descriptor& descriptor_of(operation_type<gru>) {
  return layer_descriptor<gru>("gru");
}
const operation_descriptor& descriptor_of(operation_type<rnn>) {
  return layer_descriptor<rnn>("rnn");
}

}  // namespace sluice
