// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/operand.hpp>
#include <sluice/operations/operation_result.hpp>
#include <sluice/operations/operation_type.hpp>
#include <sluice/operations/scalar.hpp>
#include <sluice/runtime/element_type.hpp>
#include <sluice/runtime/extents.hpp>
#include <sluice/runtime/tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice {

class program;
class program_builder;
struct batch_axes;

namespace detail {

class program_graph;

}  // namespace detail

/// Whether runs of a program are captured: launched as one graph of the device (`cudaGraph_t`),
/// which takes less time than the calls of all steps.
///
/// Only GPUs have graphs; on another device no policy has an effect. Runs are not captured if the
/// program takes scalars, if an input or a given output is not dense, if a step updates an input in
/// place, or if an operation does not allow it (`operation_functions::can_be_captured`).
/// `prepared::not_captured` has the reason.
///
/// A program is captured in a green context of the GPU, so no call of another thread fails because
/// of it. With a driver or a CUDA toolkit older than 12.4 there is no such context: `automatic`
/// then captures nothing, and during a capture of `at_prepare`, for a fraction of a millisecond,
/// `cudaDeviceSynchronize` fails in all threads with `cudaErrorStreamCaptureUnsupported`.
enum class capture_policy : std::uint8_t {
  never,  ///< no run is captured
  /// After the fourth run of an executable, if then launching takes less time. Programs of fewer
  /// than three device commands, or with more than 64 MiB of inputs and outputs or of intermediate
  /// values, are not captured, nor are those with more than 1 MiB of inputs and outputs whose graph
  /// would copy these.
  automatic,
  /// When the executable is made. Programs with more than 1 GiB of inputs and outputs, or of
  /// intermediate values, are not captured.
  at_prepare,
};

/// Options of a program.
struct program_options {
  capture_policy capture = capture_policy::automatic;  ///< whether runs are captured
  /// The largest number of runs that a GPU computes together, up to 128; see `per_request`.
  std::size_t max_in_batch = 1;
  /// Whether neighbouring element-wise steps are computed as one, with the same results. Products,
  /// convolutions and reductions join their neighbours, within the bounds of the operation.
  bool fuse = true;
};

/// The type of `per_request`.
struct per_request_t {
  std::size_t axis = 0;  ///< along which the parts of the runs lie
  /// The mark of an input of which each run gives a part along another axis than 0.
  [[nodiscard]] constexpr per_request_t along(std::size_t other_axis) const noexcept {
    return {other_axis};
  }
};
/// Marks an input of a program that computes the parts of its inputs along an axis independently of
/// each other, so that the runs of several requests can be computed together.
///
///     const auto clip = p.input("clip", per_request);  // of shape (1, samples)
///     ...
///     std::move(p).build({mel}, {.max_in_batch = 64})  // of shape (1, mels, frames)
///
/// The axis is 0 unless the mark says otherwise. It may differ from input to input:
///
///     const auto state = p.input("state", per_request.along(1));  // of shape (2, 1, 128)
///
/// On a GPU, runs that wait together and have inputs of equal properties are launched as one: their
/// inputs are put one behind the other along the axis, the program runs once, and each run gets its
/// part of the results. A batch is cut into pieces of 2, 4, 8 … runs; a piece is rounded up,
/// with inputs of zeros, if at most a quarter of it is missing. The executable for n runs is made
/// in idle time of the planner once n runs have waited together, or by `prepare`. All outputs are
/// per request: each has one axis whose extent is proportional to the number of runs, which may be
/// another one than that of the inputs. A step that mixes the parts, such as a softmax along the
/// axis of the runs, is refused when a run or `prepare` states the shapes. An input that is not per
/// request must be the same tensor in all of them.
///
/// The last bits of a result may depend on the other runs; see `request_options::bits`. A run is
/// launched alone if it takes scalars, a shared input in memory of the process, a given output that
/// shares memory with an input, inputs or outputs that are not in row-major order without gaps, or
/// more than `max_tensors_in_batch` tensors in all.
inline constexpr per_request_t per_request{};
/// The most tensors of a run that is launched together with others: its inputs, its outputs, and
/// its constants that were given as tensors on a device.
inline constexpr std::size_t max_tensors_in_batch = 16;

/// Marks an axis of a `per_request` input along which the runs of a batch may have different
/// extents: recordings of different lengths, for example.
///
///     const auto clip = p.input("clip", per_request, padded{1});  // of shape (1, samples)
///
/// A GPU computes such runs with an extent that is rounded up, with zeros behind the elements of
/// the input, and cuts each result to the extents that it has without them. It rounds up to 2^k or
/// 1.5 * 2^k, and to one of eight extents from 2^k to 2^(k+1) where the input takes more than
/// 128 KiB at an extent of 2^k. Runs whose extents are rounded to the same one share an executable
/// and batches. The elements that remain must not depend on the zeros: a step that reduces along
/// this axis or reverses it does not fit.
///
/// The extents of a run are not rounded if a step refuses the rounded ones, if two axes of an
/// output depend on them, if its inputs take more than 64 MiB or its outputs more than 256 MiB,
/// with `result_bits::as_if_alone`, or if the run would not be part of a batch for one of the
/// reasons that `per_request` states. A single run with rounded extents is not captured. In a
/// program with such an input, the parts of the runs lie along axis 0 of every input and output.
struct padded {
  int axis = 0;  ///< not 0; negative: from the last
};

/// A value of a program that is being built: an input, a constant, the result of a step, or a view
/// of one of these. It stands where an operation takes an operand. It has no shape until the
/// program runs.
///
/// The views are those of `tensor`. Their errors come when a run states the shapes. Not
/// thread-safe.
class SLUICE_EXPORT program_value {
 public:
  /// The value as an operand of an operation.
  // NOLINTNEXTLINE(google-explicit-constructor): every value is an operand.
  operator operand() const noexcept;

  /// The same elements in row-major order with another shape; see `tensor::reshape`. A value may
  /// lie in another order, as a new result lies as its operands do. `strided_copy` makes it
  /// row-major.
  [[nodiscard]] program_value reshape(const extents& shape) const;
  /// The dimensions in another order; see `tensor::permute`.
  [[nodiscard]] program_value permute(const extents& axes) const;
  /// The last two dimensions exchanged.
  [[nodiscard]] program_value transposed() const;
  /// The indices `first`, `first + step`, … below `last`, or to the end if `last` is left out.
  /// Negative indices do not count from the end.
  [[nodiscard]] program_value slice(std::size_t axis, std::int64_t first,
                                    std::optional<std::int64_t> last = {},
                                    std::int64_t step = 1) const;
  /// The elements with one index along a dimension, without that dimension.
  [[nodiscard]] program_value select(std::size_t axis, std::int64_t index) const;
  /// With a dimension of extent 1 in front of dimension `axis`, or behind the last one.
  [[nodiscard]] program_value unsqueeze(std::size_t axis) const;
  /// The elements repeated to `shape`; see `tensor::broadcast_to`.
  [[nodiscard]] program_value broadcast_to(const extents& shape) const;
  /// The same bytes as elements of another type; see `tensor::reinterpret`.
  [[nodiscard]] program_value reinterpret(element_type type) const;

 private:
  friend class program_builder;
  program_value(std::shared_ptr<detail::program_graph> graph, std::uint32_t index) noexcept
      : graph_(std::move(graph)), index_(index) {}

  std::shared_ptr<detail::program_graph> graph_;
  std::uint32_t index_;
};

/// Builds a program, step by step.
///
///     program_builder p;
///     const auto clip = p.input("clip");
///     const auto frames =
///         p.add("frames", frame_signal{.signal = clip, .window = window, .hop = 512});
///     const auto power =
///         p.add("power", power_spectrum{.x = p.add("fft", rfft{.x = frames})});
///     const auto mel = p.add("mel", gemm{.a = filterbank, .b = power.transposed()});
///     const program spectrogram = std::move(p).build({mel});
///
/// A tensor among the operands of a step is a constant: each run reads it as it is then. Values do
/// not change: an operation that updates an operand, as `gemm` with a beta does with `c`, makes a
/// new value. Not thread-safe.
class SLUICE_EXPORT program_builder {
 public:
  program_builder();

  /// An input of the program, which each run gives. Inputs are numbered in the order of the calls.
  [[nodiscard]] program_value input(std::string name);
  /// An input of this type and shape; a run with another one is refused. For programs that are made
  /// for one shape, because a number or a constant of theirs depends on it.
  [[nodiscard]] program_value input(std::string name, element_type type, const extents& shape);
  /// An input of which each run gives a part along an axis; see `per_request`.
  [[nodiscard]] program_value input(std::string name, per_request_t mark);
  /// Likewise, of different extents along another axis; see `padded`.
  /// @throws error `invalid_argument` if the axis of the extents is 0, or that of the parts is not
  /// 0
  [[nodiscard]] program_value input(std::string name, per_request_t mark, padded along);
  /// A number that each run gives, for parameters of type `scalar`. Scalars are numbered in the
  /// order of the calls.
  ///
  ///     p.add("noise", random_normal{.shape = extents{512}, .seed = p.scalar("seed")})
  ///
  /// Runs with different numbers share an executable, unless a number changes which operands an
  /// operation reads: `gemm` reads `c` only if its beta is not 0.
  [[nodiscard]] sluice::scalar scalar(std::string name);
  /// A constant with a name.
  ///
  /// Each run reads the elements of a tensor as they are then. The elements of a `host_tensor` are
  /// copied to each device on which the program runs, once, before the first run. Do not modify
  /// them while the program exists.
  /// @throws error `invalid_argument` if there is no tensor
  ///@{
  [[nodiscard]] program_value constant(std::string name, tensor value);
  [[nodiscard]] program_value constant(std::string name, host_tensor value);
  ///@}
  /// Adds a step and returns its result: a `program_value`, or a vector of them, in the order of
  /// the members, if the operation has several outputs. `name` appears in errors and in the text of
  /// the program. An output of the operation is given only if the operation updates it.
  ///
  ///     const auto best = p.add("best", top_k{.x = scores, .k = 5});
  ///     std::move(p).build({best[0], best[1]});
  ///
  /// @throws error `invalid_argument` with the name of an operand that is a value of another
  /// program, or if the program has been built
  /// @throws error `invalid_argument` if a list of operands has too many
  /// @throws error `unsupported` if the operation cannot be a step: it has no output, or it has a
  /// function `begin` or `enqueue_on_any`, as `upload` and `download` do
  template <class Operation>
  [[nodiscard]] auto add(std::string name, Operation operation) {
    auto results = add_step(std::move(name), detail::find_descriptor(operation), &operation);
    if constexpr (detail::has_several_results<Operation>()) {
      return results;
    } else {
      return std::move(results.front());
    }
  }
  /// Likewise. The step has the name of its operation, followed by a number if another step has
  /// this name: "multiply", "multiply 2".
  ///
  ///     const auto y = p.add(multiply(x, 0.5));
  ///
  template <class Operation>
  [[nodiscard]] auto add(Operation operation) {
    return add(step_name(detail::find_descriptor(operation)), std::move(operation));
  }
  /// Adds the steps of a program and returns its outputs. `inputs` and `scalars` are those of
  /// `inner`. Names of its steps and constants are preceded by `name` and a period.
  ///
  ///     const auto mel = p.add("mel", spectrogram, {clip}).front();
  ///
  /// @throws error `invalid_argument` if `inner` is no program, the number of inputs or scalars is
  /// not its own, or one of them is not given or belongs to another program
  [[nodiscard]] std::vector<program_value> add(const std::string& name, const program& inner,
                                               const std::vector<operand>& inputs,
                                               const std::vector<sluice::scalar>& scalars = {});
  /// The program with these outputs, each the result of a step or a view of one. No step can be
  /// added afterwards.
  /// @throws error `invalid_argument` if there is no output, one is no result of a step, an option
  /// is not one of its values, runs are to be computed together and no input is per request, or an
  /// input is padded and the parts of another one lie along another axis than 0
  [[nodiscard]] program build(const std::vector<program_value>& outputs,
                              const program_options& options = {}) &&;
  /// A builder is used up: call `std::move(p).build(...)`.
  program build(const std::vector<program_value>& outputs,
                const program_options& options = {}) & = delete;

 private:
  [[nodiscard]] std::string step_name(const operation_descriptor& descriptor) const;
  [[nodiscard]] std::vector<program_value> add_step(std::string name,
                                                    const operation_descriptor& descriptor,
                                                    void* operation);

  std::shared_ptr<detail::program_graph> graph_;
};

/// An immutable graph of operations over inputs and constants, with one or more outputs. A run of
/// it is one launch with one reply.
///
/// A program knows no shapes and no device. Copies share it. Thread-safe.
class SLUICE_EXPORT program {
 public:
  /// No program.
  program() noexcept = default;

  /// Whether there is a program.
  [[nodiscard]] explicit operator bool() const noexcept { return graph_ != nullptr; }
  /// The number of inputs.
  [[nodiscard]] std::size_t inputs() const noexcept;
  /// The number of scalars.
  [[nodiscard]] std::size_t scalars() const noexcept;
  /// The number of outputs.
  [[nodiscard]] std::size_t outputs() const noexcept;
  /// The number of steps, with those of programs that are steps.
  [[nodiscard]] std::size_t steps() const noexcept;
  /// The program in words: one line for each input, scalar, constant and step, and one for the
  /// outputs. Of the parameters of a step only those are shown that a run gives.
  [[nodiscard]] std::string text() const;
  /// The same program with inputs per request: those of which `axes` has an axis. `axes` is what
  /// `find_batch_axes` has proved for this program. A run with inputs of other properties is
  /// refused if a step mixes its runs, as `per_request` states.
  /// @throws error `invalid_argument` if runs cannot be computed together, `max_in_batch` is not
  /// from 2 to 128, or an input is padded and runs lie along another axis than 0
  [[nodiscard]] program with_batches(const batch_axes& axes, std::size_t max_in_batch) const;
  /// Whether both are the same program.
  [[nodiscard]] bool operator==(const program&) const noexcept = default;

  /// @cond for the executor
  [[nodiscard]] const std::shared_ptr<const detail::program_graph>& graph() const noexcept {
    return graph_;
  }
  /// @endcond

 private:
  friend class program_builder;
  explicit program(std::shared_ptr<const detail::program_graph> graph) noexcept
      : graph_(std::move(graph)) {}

  std::shared_ptr<const detail::program_graph> graph_;
};

}  // namespace sluice
