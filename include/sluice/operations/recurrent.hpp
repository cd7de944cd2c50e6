// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/activation.hpp>
#include <sluice/operations/members.hpp>
#include <sluice/operations/operation_type.hpp>

#include <cstdint>
#include <tuple>

namespace sluice {

/// In which order a recurrent layer takes the elements of a sequence.
enum class recurrent_direction : std::uint8_t {
  forward,        ///< from the first to the last
  reverse,        ///< from the last to the first
  bidirectional,  ///< both, with weights of their own: direction 0 is forward and 1 is reverse
};

/// How the sequences of a batch lie in the shapes of a recurrent layer: the `layout` of ONNX.
enum class sequence_layout : std::uint8_t {
  time_major,   ///< X (T, N, I), Y (T, D, N, H), states (D, N, H); layout 0
  batch_major,  ///< X (N, T, I), Y (N, T, D, H), states (N, D, H); layout 1
};

/// The order of the gates in weights and biases.
enum class gate_order : std::uint8_t {
  onnx,     ///< `lstm`: input, output, forget, cell. `gru`: update, reset, hidden
  pytorch,  ///< `lstm`: input, forget, cell, output. `gru`: reset, update, hidden
};

/// A layer of an LSTM: Hochreiter and Schmidhuber, "Long short-term memory", 1997, and LSTM of ONNX
/// (opset 22). For each sequence and element t, in the order of the direction:
///
///     i = f(X[t] · Wiᵀ + H · Riᵀ + Wbi + Rbi + Pi ∘ C)
///     f = f(X[t] · Wfᵀ + H · Rfᵀ + Wbf + Rbf + Pf ∘ C), or 1 - i with `input_forget`
///     c = g(X[t] · Wcᵀ + H · Rcᵀ + Wbc + Rbc)
///     C = f ∘ C + i ∘ c
///     o = f(X[t] · Woᵀ + H · Roᵀ + Wbo + Rbo + Po ∘ C)
///     H = o ∘ h(C), and Y[t] = H
///
///     const tensors states = …  // the answer to lstm{.x = words, .w = w, .r = r,
///                               //   .input_bias = wb, .recurrent_bias = rb, .lengths = lengths}
///     states[0]                 // Y: the states of all elements
///     states[1]                 // the last H of each sequence
///     states[2]                 // the last C of each sequence
///
/// With T elements of a sequence, N sequences, I inputs, H hidden numbers and D directions, W has
/// the shape (D, 4 · H, I), R (D, 4 · H, H), each bias (D, 4 · H) and P (D, 3 · H), in the order
/// input, output, forget. B of ONNX is the input bias beside the recurrent one: two slices of it.
/// The weights of PyTorch are those of one direction.
///
/// `lengths`, of the shape (N), of type i32 or i64, are numbers of elements. Beyond its length, a
/// sequence keeps its state and Y is 0; the reverse direction begins with the last element within
/// it. The lengths stay on the device, so none is refused: one below 0 is 0, and one above T is T.
///
/// `clip` bounds the argument of every function f, g and h to [-clip, clip].
///
/// An operation is one layer. Several layers are steps of a program, with the Y of one as the X of
/// the next: in the layout `batch_major`, `y.reshape({n, t, d * h})`, and in the layout
/// `time_major`, `y.permute({0, 2, 1, 3}).reshape({t, n, d * h})`. A new Y lies in memory so that
/// neither copies anything.
///
/// Types: f16, bf16, f32 and f64, one for all operands but the lengths. Sums and C are f64 for f64
/// and f32 for the others; H is rounded to the type at each element. All operands have any strides.
/// X must lie with the elements of a sequence outside and the sequences inside, and rows of W and R
/// without gaps between their numbers, or in columns; otherwise the launch uses packed copies. The
/// last H and C may be the same views as the initial ones. Otherwise, results share no bytes with
/// other operands. Those that are not given are new tensors. The answer is `tensors`: y, y_h, y_c.
struct lstm {
  operand x{};               ///< X, the sequences
  operand w{};               ///< W, the weights of X
  operand r{};               ///< R, the weights of H
  operand input_bias{};      ///< Wb; 0 if not given
  operand recurrent_bias{};  ///< Rb; 0 if not given
  operand lengths{};         ///< of the sequences; T if not given
  operand initial_h{};       ///< H before the first element; 0 if not given
  operand initial_c{};       ///< C before the first element; 0 if not given
  operand peepholes{};       ///< P, the weights of C; 0 if not given
  recurrent_direction direction = recurrent_direction::forward;  ///< order of the elements
  sequence_layout layout = sequence_layout::time_major;          ///< of X, Y and the states
  gate_order order = gate_order::onnx;                           ///< in W, R and the biases
  activation gate_activation = activation::sigmoid;              ///< f
  activation cell_activation = activation::tanh;                 ///< g
  activation output_activation = activation::tanh;               ///< h
  double clip = 0;            ///< bound of the arguments of functions; 0: none
  bool input_forget = false;  ///< whether the forget gate is 1 - i
  operand y{};                ///< Y, H after each element
  operand y_h{};              ///< H after the last element
  operand y_c{};              ///< C after the last element

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &lstm::x), input("w", &lstm::w), input("r", &lstm::r),
        input("input_bias", &lstm::input_bias), input("recurrent_bias", &lstm::recurrent_bias),
        input("lengths", &lstm::lengths), input("initial_h", &lstm::initial_h),
        input("initial_c", &lstm::initial_c), input("peepholes", &lstm::peepholes),
        parameter("direction", &lstm::direction), parameter("layout", &lstm::layout),
        parameter("order", &lstm::order), parameter("gate_activation", &lstm::gate_activation),
        parameter("cell_activation", &lstm::cell_activation),
        parameter("output_activation", &lstm::output_activation), parameter("clip", &lstm::clip),
        parameter("input_forget", &lstm::input_forget), output("y", &lstm::y),
        output("y_h", &lstm::y_h), output("y_c", &lstm::y_c));
  }
};

/// A layer of gated recurrent units: Cho et al., "Learning phrase representations using RNN
/// encoder-decoder", 2014, and GRU of ONNX (opset 22). For each sequence and element t:
///
///     z = f(X[t] · Wzᵀ + H · Rzᵀ + Wbz + Rbz)
///     r = f(X[t] · Wrᵀ + H · Rrᵀ + Wbr + Rbr)
///     h = g(X[t] · Whᵀ + (r ∘ H) · Rhᵀ + Wbh + Rbh), or with `linear_before_reset`
///     h = g(X[t] · Whᵀ + r ∘ (H · Rhᵀ + Rbh) + Wbh)
///     H = (1 - z) ∘ h + z ∘ H, and Y[t] = H
///
/// GRU of PyTorch and cuDNN is that with `linear_before_reset`. Without it, a GPU rounds r ∘ H to
/// the type of the operands. W has the shape (D, 3 · H, I), R (D, 3 · H, H) and each bias
/// (D, 3 · H). The rest is as for `lstm`. The answer is `tensors`: y, y_h.
struct gru {
  operand x{};               ///< X, the sequences
  operand w{};               ///< W, the weights of X
  operand r{};               ///< R, the weights of H
  operand input_bias{};      ///< Wb; 0 if not given
  operand recurrent_bias{};  ///< Rb; 0 if not given
  operand lengths{};         ///< of the sequences; T if not given
  operand initial_h{};       ///< H before the first element; 0 if not given
  recurrent_direction direction = recurrent_direction::forward;  ///< order of the elements
  sequence_layout layout = sequence_layout::time_major;          ///< of X, Y and the states
  gate_order order = gate_order::onnx;                           ///< in W, R and the biases
  activation gate_activation = activation::sigmoid;              ///< f
  activation hidden_activation = activation::tanh;               ///< g
  double clip = 0;                   ///< bound of the arguments of functions; 0: none
  bool linear_before_reset = false;  ///< whether the reset gate applies to the product with R
  operand y{};                       ///< Y, H after each element
  operand y_h{};                     ///< H after the last element

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &gru::x), input("w", &gru::w), input("r", &gru::r),
        input("input_bias", &gru::input_bias), input("recurrent_bias", &gru::recurrent_bias),
        input("lengths", &gru::lengths), input("initial_h", &gru::initial_h),
        parameter("direction", &gru::direction), parameter("layout", &gru::layout),
        parameter("order", &gru::order), parameter("gate_activation", &gru::gate_activation),
        parameter("hidden_activation", &gru::hidden_activation), parameter("clip", &gru::clip),
        parameter("linear_before_reset", &gru::linear_before_reset), output("y", &gru::y),
        output("y_h", &gru::y_h));
  }
};

/// A layer of plain recurrent units: Elman, "Finding structure in time", 1990, and RNN of ONNX
/// (opset 22). For each sequence and element t:
///
///     H = f(X[t] · Wᵀ + H · Rᵀ + Wb + Rb), and Y[t] = H
///
/// W has the shape (D, H, I), R (D, H, H) and each bias (D, H). The rest is as for `lstm`. The
/// answer is `tensors`: y, y_h.
struct rnn {
  operand x{};               ///< X, the sequences
  operand w{};               ///< W, the weights of X
  operand r{};               ///< R, the weights of H
  operand input_bias{};      ///< Wb; 0 if not given
  operand recurrent_bias{};  ///< Rb; 0 if not given
  operand lengths{};         ///< of the sequences; T if not given
  operand initial_h{};       ///< H before the first element; 0 if not given
  recurrent_direction direction = recurrent_direction::forward;  ///< order of the elements
  sequence_layout layout = sequence_layout::time_major;          ///< of X, Y and the states
  sluice::activation activation = sluice::activation::tanh;      ///< f
  double clip = 0;  ///< bound of the argument of f; 0: none
  operand y{};      ///< Y, H after each element
  operand y_h{};    ///< H after the last element

  /// All members, in order.
  template <class = void>
  static constexpr auto members() {
    return std::make_tuple(
        input("x", &rnn::x), input("w", &rnn::w), input("r", &rnn::r),
        input("input_bias", &rnn::input_bias), input("recurrent_bias", &rnn::recurrent_bias),
        input("lengths", &rnn::lengths), input("initial_h", &rnn::initial_h),
        parameter("direction", &rnn::direction), parameter("layout", &rnn::layout),
        parameter("activation", &rnn::activation), parameter("clip", &rnn::clip),
        output("y", &rnn::y), output("y_h", &rnn::y_h));
  }
};

/// The functions behind the operations.
///@{
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<lstm>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<gru>);
[[nodiscard]] SLUICE_EXPORT const operation_descriptor& descriptor_of(operation_type<rnn>);
///@}

}  // namespace sluice
