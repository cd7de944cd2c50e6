// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_envelope.hpp>
#include <sluice/operations/inference.hpp>
#include <sluice/operations/operation.hpp>
#include <sluice/operations/program.hpp>
#include <sluice/runtime/error.hpp>
#include <sluice/runtime/tensor_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace sluice::detail {
class program_graph;
}  // namespace sluice::detail

namespace sluice::operations {

/// An output of a run, as far as the executable depends on it.
struct given_output {
  std::optional<tensor_spec> spec{};     ///< nothing if the output is new
  std::vector<std::uint32_t> same_as{};  ///< the inputs that are the same tensor, in order
  bool overlaps_input = false;           ///< it shares bytes with another one; `same_as` is empty
  /// It is new and downloaded, so its elements lie in row-major order without gaps.
  bool is_downloaded = false;
  [[nodiscard]] bool operator==(const given_output&) const noexcept = default;
};

/// Refuses a given output that does not fit the result.
/// @throws error `invalid_argument` with the name `name`
void require_fit(const std::string& name, const tensor_spec& output, const tensor_spec& result);

struct batch_layout;

/// What a run of a program computes, once the properties of its inputs and outputs are known: the
/// shapes of all values and the calls of all steps, without memory and without a device. Immutable.
///
/// A *root* is memory of its own: that of an input, a constant or a result of a step, numbered in
/// this order. Views lie in the root of what they view.
struct program_inference {
  /// Where a value lies. A result that its step does not make lies nowhere.
  struct located {
    static constexpr std::uint32_t nowhere = ~std::uint32_t{0};
    std::uint32_t root = nowhere;
    tensor_layout layout{};     ///< from the first element of an input or a constant, or the first
                                ///< byte of a result
    std::size_t alignment = 0;  ///< of the first element
    [[nodiscard]] tensor_spec spec() const;
  };
  struct step {
    const operation_descriptor* descriptor = nullptr;
    call_storage call;
    std::vector<inference::use> uses{};  ///< their operands belong to the program
  };

  /// Memory that the launch writes: a new one for the result `result`, or that of the output
  /// `output` alone. Without a result, the output is copied at the end.
  struct written_memory {
    std::optional<std::uint32_t> result{};
    std::optional<std::uint32_t> output{};
    tensor_spec spec{};
    bool updates_input = false;  ///< the step finds the operand that it updates there
  };

  /// A step with parameters that each run gives.
  struct varying_step {
    std::uint32_t number = 0;
    /// What the executable takes from its call: the launch key, the commands and the uses. Runs
    /// with other numbers have another executable if it differs.
    std::string structure{};
  };

  std::string key{};  ///< the program, the properties of its inputs and outputs, and `structure`
  std::vector<tensor_spec> inputs{};
  std::vector<given_output> outputs{};
  std::vector<located> values{};
  std::vector<step> steps{};
  std::vector<varying_step> varying{};
  std::vector<written_memory> written{};
  /// By output: the number of the memory, among `written`, that holds it.
  std::vector<std::uint32_t> memory_of_output{};
  /// Of the inputs, the constants and `written`, in this order. Their operands belong to the run.
  std::vector<inference::use> uses{};
  /// By output: the axis along which several of these runs lie in it. Empty if that has not been
  /// checked, because they are launched alone for another reason.
  std::vector<std::size_t> output_axes{};
  bool stacks = false;  ///< several of these runs may be launched as one; see `per_request`
  /// How a GPU computes such runs with rounded extents; nullptr if it does not. See `padded`.
  std::shared_ptr<const batch_layout> padded{};
  std::size_t bytes = 0;                           ///< its size in host memory
  double work = 0;                                 ///< of all steps; see `request_limits`
  error_detection errors = error_detection::none;  ///< where one of the steps may find an error
};

/// Calls `work`. The text of its error becomes `text(error)`.
template <class Text, class Work>
void explaining(const Text& text, const Work& work) {
  try {
    work();
  } catch (const nothing_enqueued& e) {
    throw nothing_enqueued(error(e.code(), text(e), e.status(), e.where()));
  } catch (...) {
    const auto e = current_error();
    throw error(e.code(), text(e), e.status(), e.where());
  }
}
/// Calls `work` and puts `label()` in front of the text of its error.
template <class Where, class Work>
void naming(const Where& label, const Work& work) {
  explaining([&](const error& e) { return label() + ": " + e.what(); }, work);
}
/// Calls `work` and names the step `name` in its error.
template <class Work>
void naming_step(const std::string& name, const Work& work) {
  naming([&] { return "step '" + name + "'"; }, work);
}

/// The call of a step of one run.
struct step_call {
  std::uint32_t step = 0;
  call_storage call;
};

/// What is known of one run: what it shares with others, and the calls of its varying steps, in
/// order.
struct inferred_run {
  std::shared_ptr<const program_inference> shared{};
  std::vector<step_call> calls{};
};

/// Several runs like `alone` that are worked out as one.
struct run_stack {
  const program_inference& alone;
  std::int64_t count;
  /// By input: the axis along which the runs lie, one behind the other; nothing if the input is the
  /// same for all.
  std::vector<std::optional<std::size_t>> axes{};
};

/// Works out a run of `graph` for inputs and outputs with these properties, and with these numbers.
/// With a `stack`, the inputs are those of several runs. Views are then those of each run; see
/// `view_of_runs`.
/// @throws error what a step refuses, with its name
/// @throws error `invalid_argument` with the name of an output that does not fit its result
[[nodiscard]] program_inference infer_program(const detail::program_graph& graph,
                                              std::span<const tensor_spec> inputs,
                                              std::span<const scalar> scalars,
                                              std::span<const given_output> outputs,
                                              const run_stack* stack = nullptr);
/// The properties of an output of a run in the memory that holds it.
[[nodiscard]] tensor_spec spec_of_output(const detail::program_graph& graph,
                                         const program_inference& run, std::uint32_t output);
/// Checks each step for devices of this kind.
/// @throws error what a step refuses, with its name
void check_steps(const detail::program_graph& graph, const program_inference& inferred,
                 device_kind kind);
/// The calls of the varying steps for other numbers. Nothing if they need another executable.
/// @throws error what a step refuses, with its name
[[nodiscard]] std::optional<std::vector<step_call>> calls_for(const detail::program_graph& graph,
                                                              const program_inference& inferred,
                                                              std::span<const scalar> scalars);
/// The calls of the varying steps for the numbers with which `inferred` was worked out.
[[nodiscard]] std::vector<step_call> calls_of(const program_inference& inferred);

}  // namespace sluice::operations
