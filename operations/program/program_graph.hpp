// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"
#include "operations/program/program_view.hpp"
#include "operations/program/uploaded_constants.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/program.hpp>

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace sluice::detail {

/// The inputs, constants, steps and views of a program. Values are numbered in the order in which
/// they were added, so each one comes after those that it depends on.
class program_graph {
 public:
  /// Stands for "not given" among the operands of a step.
  static constexpr std::uint32_t none = ~std::uint32_t{0};
  /// The largest `program_options::max_in_batch`.
  static constexpr std::size_t max_runs_in_batch = 128;

  enum class value_kind : std::uint8_t { input, constant, result, view };
  /// A `program_view`, unless a test replaces it.
  using view_function = std::function<tensor_layout(const tensor_layout&)>;
  struct value {
    value_kind kind;
    std::uint32_t source;  ///< number of the input, constant or result, or of the viewed value
    view_function view{};
    std::string text{};        ///< of a view: "transposed()"; empty if it only checks the layout
    std::uint32_t viewed = 0;  ///< the value that it is a view of, through all views; or itself
  };
  /// What a program does with a value and its views.
  struct value_use {
    std::uint32_t steps = 0;      ///< the number of the last step that has it as an operand, plus 1
    std::uint32_t outputs = 0;    ///< how many outputs are in it
    std::uint32_t output = none;  ///< the first of them
  };
  struct step {
    std::string name{};
    std::shared_ptr<const program_step> operation{};
    std::vector<std::uint32_t> operands{};  ///< values, or `none`
    std::vector<scalar> scalars{};          ///< numbers, or scalars of this program
    std::uint32_t first_result = 0;         ///< number of its first result
    std::vector<std::uint32_t> outputs{};   ///< by result: the operand that is written
    /// The number, among its results, of the one that an operand is; nothing if it is an input.
    [[nodiscard]] std::optional<std::uint32_t> result_at(std::size_t operand) const noexcept;
  };
  /// What a step makes in one of its outputs.
  struct step_result {
    std::uint32_t step = 0;
    std::uint32_t operand = 0;  ///< the output, among the operands of the step
    std::uint32_t value = 0;
  };
  struct constant {
    std::string name{};     ///< its own, or that of the first operand that it is: "mel.a"
    tensor on_device{};     ///< or
    host_tensor on_host{};  ///< which each device gets a copy of
    operations::constant_place place{};  ///< of this copy
    [[nodiscard]] tensor_spec spec() const;
  };

  program_graph();
  /// A copy of a built graph with other marks, by input, and another `max_in_batch`. See
  /// `run_axis`.
  program_graph(const program_graph& source, std::vector<std::optional<std::size_t>> run_axes,
                std::size_t max_in_batch);

  [[nodiscard]] std::uint32_t add_input(std::string name,
                                        std::optional<std::size_t> run_axis = std::nullopt,
                                        int padded_axis = 0);
  [[nodiscard]] scalar add_scalar(std::string name);
  [[nodiscard]] std::uint32_t add_constant(constant new_constant);
  /// Returns the values of its outputs, which follow each other.
  [[nodiscard]] std::vector<std::uint32_t> add_step(std::string name,
                                                    std::shared_ptr<program_step> operation);
  /// The name `operation`, with a number behind it if a step has this name.
  [[nodiscard]] std::string new_step_name(const std::string& operation) const;
  [[nodiscard]] std::uint32_t add_view(std::uint32_t source, const program_view& view);
  /// Adds the steps of another program. Returns its outputs.
  [[nodiscard]] std::vector<std::uint32_t> add_program(const std::string& name,
                                                       const program_graph& inner,
                                                       const std::vector<operand>& inputs,
                                                       const std::vector<scalar>& scalars);
  void build(std::vector<std::uint32_t> outputs, const program_options& options);

  /// What is known of a run with inputs and outputs of these properties, and with these numbers.
  /// Thread-safe.
  /// @throws error what a step refuses, with its name
  [[nodiscard]] operations::inferred_run infer(
      std::span<const tensor_spec> inputs, std::span<const scalar> scalars,
      std::span<const operations::given_output> outputs) const;
  /// Whether runs like `alone` touch so few tensors that they can be launched together.
  [[nodiscard]] bool fits_batch(const operations::program_inference& alone) const noexcept;
  /// @throws error `invalid_argument` unless a run takes so many inputs and scalars
  void require_counts(std::size_t inputs, std::size_t scalars) const;
  /// The copies of the constants on the host, on the device of a runtime; nullptr if there are
  /// none.
  [[nodiscard]] std::shared_ptr<const operations::uploaded_constants> find_constants(
      device_runtime& runtime) const {
    return uploaded_.find(runtime);
  }
  /// Makes them, as `constants_on_devices::upload` states. May take long.
  [[nodiscard]] std::shared_ptr<const operations::uploaded_constants> upload_constants(
      lane_libraries& libraries, const operations::program_inference& inferred,
      const operations::folding& folded, std::span<const std::size_t> spare_sizes) const {
    return uploaded_.upload(libraries, *this, inferred, folded, spare_sizes);
  }
  /// The size of these copies, in bytes.
  [[nodiscard]] std::size_t host_constants_bytes() const noexcept { return host_constants_bytes_; }
  /// The size of those of them that lie together in the block of the program, in bytes.
  [[nodiscard]] std::size_t own_constants_bytes() const noexcept { return own_constants_bytes_; }
  /// The others, which programs share if the elements are fixed, in the order of their blocks.
  [[nodiscard]] std::span<const std::shared_ptr<const operations::shared_constant>>
  shared_constants() const noexcept {
    return shared_constants_;
  }
  /// The size of a built program in host memory, with its constants there, in bytes.
  [[nodiscard]] std::size_t bytes() const noexcept { return bytes_; }
  [[nodiscard]] std::string text() const;
  /// A step in words: the operation with its operands and the parameters that a run gives.
  [[nodiscard]] std::string text_of(const step& s) const;
  /// The name of a value: "clip", "mel.a" for a constant, "power" for the result of a step,
  /// "best.indices" for one of several, "power.transposed()" for a view.
  [[nodiscard]] std::string name_of(std::uint32_t number) const;
  /// The name of a result, without views.
  [[nodiscard]] std::string name_of_result(std::size_t number) const;

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] capture_policy capture() const noexcept { return options_.capture; }
  [[nodiscard]] std::size_t max_in_batch() const noexcept { return options_.max_in_batch; }
  [[nodiscard]] bool fuses() const noexcept { return options_.fuse; }
  [[nodiscard]] const std::vector<std::string>& inputs() const noexcept { return inputs_; }
  /// The axis along which each run gives a part of the input; nothing if it is the same for all.
  [[nodiscard]] std::optional<std::size_t> run_axis(std::size_t input) const noexcept {
    return run_axes_[input];
  }
  /// Whether each run gives a part of the input.
  [[nodiscard]] bool is_per_request(std::size_t input) const noexcept {
    return run_axes_[input].has_value();
  }
  /// The axis along which an input may be padded, as the author states it; 0: none.
  [[nodiscard]] int padded_axis(std::size_t input) const noexcept { return padded_axes_[input]; }
  /// Whether an input may be padded.
  [[nodiscard]] bool pads() const noexcept;
  [[nodiscard]] const std::vector<std::string>& scalars() const noexcept { return scalars_; }
  [[nodiscard]] const std::deque<constant>& constants() const noexcept { return constants_; }
  [[nodiscard]] const std::vector<step>& steps() const noexcept { return steps_; }
  [[nodiscard]] const std::vector<step_result>& results() const noexcept { return results_; }
  [[nodiscard]] const std::vector<value>& values() const noexcept { return values_; }
  [[nodiscard]] const std::vector<std::uint32_t>& outputs() const noexcept { return outputs_; }
  /// The name of an output in errors: "outputs[0]".
  [[nodiscard]] const std::string& output_name(std::size_t number) const noexcept {
    return output_names_[number];
  }
  /// The names of the steps, for traces: "frames, fft, power, mel".
  [[nodiscard]] const std::shared_ptr<const std::string>& step_names() const noexcept {
    return step_names_;
  }
  /// The value that `number` is a view of, directly or through other views.
  [[nodiscard]] std::uint32_t viewed(std::uint32_t number) const noexcept {
    return values_[number].viewed;
  }
  /// The function and the parameters of a view.
  [[nodiscard]] const program_view& view_of(std::uint32_t number) const noexcept {
    return *values_[number].view.target<program_view>();
  }
  /// The number of the value that is an input.
  [[nodiscard]] std::uint32_t value_of_input(std::size_t input) const noexcept {
    return input_values_[input];
  }
  /// What a built program does with a value that is no view.
  [[nodiscard]] const value_use& use_of(std::uint32_t number) const noexcept {
    return uses_[number];
  }

 private:
  class addition;
  /// Orders tensors by the memory that they view.
  struct by_memory {
    [[nodiscard]] bool operator()(const tensor* a, const tensor* b) const noexcept;
  };

  /// How a GPU computes runs like `alone` with rounded extents; nullptr if it does not.
  [[nodiscard]] std::shared_ptr<const operations::batch_layout> padded_runs(
      const operations::program_inference& alone) const;
  /// @throws error `invalid_argument` if runs cannot be computed together so
  void require_batches(std::size_t max_in_batch) const;
  /// Adds up what is counted as `bytes`.
  [[nodiscard]] std::size_t count_bytes() const noexcept;
  void require_open() const;
  /// Gives each constant in host memory a place on a device.
  void place_constants();
  [[nodiscard]] std::uint32_t add(value new_value);
  /// Within an `addition`. Returns the values of its outputs.
  [[nodiscard]] std::vector<std::uint32_t> add(step new_step);
  /// The value that `operand` is. A tensor becomes a constant.
  [[nodiscard]] std::uint32_t value_of(const operand& operand, std::string_view name,
                                       const std::string& constant_name);
  void require_own(const scalar& number, std::string_view name) const;

  std::uint64_t id_;
  std::vector<std::string> inputs_;
  std::vector<std::optional<std::size_t>> run_axes_;  // by input
  std::vector<int> padded_axes_;                      // likewise; 0: none
  std::vector<std::string> scalars_;
  std::deque<constant> constants_;
  std::vector<step> steps_;
  std::vector<step_result> results_;
  std::vector<value> values_;
  std::vector<std::uint32_t> input_values_;
  std::map<const tensor*, std::uint32_t, by_memory> constant_values_;  // until it is built
  std::vector<value_use> uses_;                                        // by value, once it is built
  std::vector<std::uint32_t> outputs_;
  std::vector<std::string> output_names_;
  std::shared_ptr<const std::string> step_names_;
  std::size_t host_constants_bytes_ = 0;
  std::size_t own_constants_bytes_ = 0;
  std::vector<std::shared_ptr<const operations::shared_constant>> shared_constants_;
  std::size_t bytes_ = 0;
  program_options options_;
  bool built_ = false;

  // What was used last.
  static constexpr std::size_t most_recent = 16;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const operations::program_inference>> recent_;
  mutable std::vector<std::shared_ptr<const operations::batch_layout>> recent_layouts_;
  mutable operations::constants_on_devices uploaded_;
};

}  // namespace sluice::detail
