// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "operations/program/program_inference.hpp"

#include <sluice/operations/program.hpp>

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace sluice::detail {

/// The inputs, constants, steps and views of a program. Values are numbered in the order in which
/// they were added, so each one comes after those that it depends on.
class program_graph {
 public:
  /// Stands for "not given" among the operands of a step.
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  enum class value_kind : std::uint8_t { input, constant, result, view };
  struct value {
    value_kind kind;
    std::uint32_t of;  ///< number of the input, constant or step, or of the value that is viewed
    std::function<tensor_layout(const tensor_layout&)> view{};
    std::string text{};  ///< of a view: "transposed()"
  };
  struct step {
    std::unique_ptr<program_step> operation;
    std::vector<std::uint32_t> operands;  ///< values, or `none`
    std::size_t output = 0;               ///< the operand that is written
    std::uint32_t result = 0;             ///< its value
  };
  struct constant {
    tensor value;
    std::string name;  ///< of the first operand that it is: "mel.a"
  };

  program_graph();

  [[nodiscard]] std::uint32_t add_input(std::string name);
  [[nodiscard]] std::uint32_t add_step(std::unique_ptr<program_step> operation);
  [[nodiscard]] std::uint32_t add_view(std::uint32_t of, std::string text,
                                       std::function<tensor_layout(const tensor_layout&)> view);
  void build(std::vector<std::uint32_t> outputs);

  /// What is known of a run with inputs and outputs of these properties. Thread-safe.
  /// @throws error what a step refuses, with its name
  [[nodiscard]] std::shared_ptr<const operations::program_inference> infer(
      std::span<const tensor_spec> inputs, std::span<const operations::given_output> outputs) const;
  [[nodiscard]] std::string text() const;
  /// The name of a value: "clip", "mel.a" for a constant, "power.transposed()" for a view.
  [[nodiscard]] std::string name_of(std::uint32_t number) const;

  [[nodiscard]] std::uint64_t id() const noexcept { return id_; }
  [[nodiscard]] const std::vector<std::string>& inputs() const noexcept { return inputs_; }
  [[nodiscard]] const std::vector<constant>& constants() const noexcept { return constants_; }
  [[nodiscard]] const std::vector<step>& steps() const noexcept { return steps_; }
  [[nodiscard]] const std::vector<value>& values() const noexcept { return values_; }
  [[nodiscard]] const std::vector<std::uint32_t>& outputs() const noexcept { return outputs_; }
  /// The name of an output in errors: "outputs[0]".
  [[nodiscard]] const std::string& output_name(std::size_t number) const noexcept {
    return output_names_[number];
  }
  /// The value that `of` is a view of, directly or through other views.
  [[nodiscard]] std::uint32_t viewed(std::uint32_t of) const noexcept {
    while (values_[of].kind == value_kind::view) of = values_[of].of;
    return of;
  }

 private:
  void require_open() const;
  [[nodiscard]] std::uint32_t add(value one);
  [[nodiscard]] std::uint32_t value_of(const named_operand& of, const std::string& user);

  std::uint64_t id_;
  std::vector<std::string> inputs_;
  std::vector<constant> constants_;
  std::vector<step> steps_;
  std::vector<value> values_;
  std::vector<std::uint32_t> outputs_;
  std::vector<std::string> output_names_;
  bool built_ = false;

  // The inferences that were used last.
  static constexpr std::size_t most_recent = 16;
  mutable std::mutex mutex_;
  mutable std::vector<std::shared_ptr<const operations::program_inference>> recent_;
};

}  // namespace sluice::detail
