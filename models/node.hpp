// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"
#include "models/step_scope.hpp"
#include "models/value.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/math_mode.hpp>
#include <sluice/runtime/error.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace sluice::models {

class model_file;

/// The attributes of a node, by name.
using attribute_map = std::map<std::string, const onnx::AttributeProto*, std::less<>>;

/// Adds the steps of a graph within a node, which sees the values around the node. Returns its
/// outputs.
using subgraph_import =
    std::function<results(const onnx::GraphProto& graph, const std::vector<value>& inputs)>;

/// A node of a graph, for the function that imports its operator. Inputs are numbered from 0, and
/// names of inputs and attributes are those of the operator's definition.
class node {
 public:
  node(step_scope& scope, const onnx::NodeProto& message, attribute_map attributes,
       std::vector<std::optional<value>> inputs, std::int64_t opset,
       const std::vector<std::string>& input_names, const model_file& file,
       subgraph_import import_subgraph, math_mode math = math_mode::f32)
      : scope_(scope),
        message_(message),
        attributes_(std::move(attributes)),
        inputs_(std::move(inputs)),
        opset_(opset),
        input_names_(input_names),
        file_(file),
        import_subgraph_(std::move(import_subgraph)),
        math_(math) {}

  /// The version of the operator set.
  [[nodiscard]] std::int64_t opset() const noexcept { return opset_; }
  [[nodiscard]] std::string_view op_type() const noexcept { return message_.op_type(); }
  /// The number of outputs with a name, up to the last one.
  [[nodiscard]] std::size_t output_count() const noexcept {
    return static_cast<std::size_t>(message_.output_size());
  }
  /// Whether an output is wanted.
  [[nodiscard]] bool has_output(int number) const noexcept {
    return number < message_.output_size() && !message_.output(number).empty();
  }

  [[nodiscard]] std::size_t input_count() const noexcept { return inputs_.size(); }
  [[nodiscard]] bool has_input(std::size_t number) const noexcept {
    return number < inputs_.size() && inputs_[number].has_value();
  }
  /// @throws error `invalid_argument` if the input is not given
  [[nodiscard]] const value& input(std::size_t number) const;
  /// The input as an operand; nothing if it is not given.
  [[nodiscard]] operand optional_input(std::size_t number) const;
  /// All inputs. @throws error `invalid_argument` if one is not given, or there is none
  [[nodiscard]] std::vector<value> all_inputs() const;

  /// The elements of an input that must be known.
  /// @throws unbound_inputs if they are not
  [[nodiscard]] const host_tensor& known(std::size_t number, std::string_view name) const;
  /// Likewise, as integers or real numbers.
  ///@{
  [[nodiscard]] std::vector<std::int64_t> integers(std::size_t number, std::string_view name) const;
  [[nodiscard]] std::vector<double> reals(std::size_t number, std::string_view name) const;
  ///@}
  /// The only element of an input that must be known.
  ///@{
  [[nodiscard]] std::int64_t integer(std::size_t number, std::string_view name) const;
  [[nodiscard]] double real(std::size_t number, std::string_view name) const;
  ///@}
  /// The integers of an attribute, or of an input if it is given; nothing if neither is.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> integers_of(std::size_t number,
                                                                     std::string_view name) const;

  [[nodiscard]] const attribute_map& attributes() const noexcept { return attributes_; }
  [[nodiscard]] bool has_attribute(std::string_view name) const noexcept {
    return attributes_.contains(name);
  }
  /// The value of an attribute, or `missing` if it is not given.
  /// @throws error `invalid_argument` if it has another type
  ///@{
  [[nodiscard]] std::int64_t attribute(std::string_view name, std::int64_t missing) const;
  [[nodiscard]] double attribute(std::string_view name, double missing) const;
  [[nodiscard]] std::string attribute(std::string_view name, const char* missing) const;
  [[nodiscard]] std::vector<std::int64_t> attribute(std::string_view name,
                                                    std::vector<std::int64_t> missing) const;
  ///@}
  /// The attribute itself. @throws error `invalid_argument` if it is not given
  [[nodiscard]] const onnx::AttributeProto& require_attribute(std::string_view name) const;
  /// The elements of an attribute that is a tensor, read once for all nodes that have it.
  /// @throws error `invalid_argument` if it is not given
  [[nodiscard]] host_tensor tensor(std::string_view name) const;
  /// The value of an attribute among those that it may have, or the first of them.
  /// @throws error `unsupported` with the value if it is another one
  template <class T>
  [[nodiscard]] T choice(std::string_view name,
                         std::initializer_list<std::pair<const char*, T>> choices) const {
    const auto chosen = attribute(name, choices.begin()->first);
    for (const auto& [text, value] : choices) {
      if (chosen == text) return value;
    }
    throw unsupported(name, "is '" + chosen + "'");
  }

  /// The dimension that an axis of a tensor of `rank` dimensions names.
  /// @throws error `invalid_argument` if there is none
  [[nodiscard]] std::size_t dimension(std::int64_t axis, std::size_t rank,
                                      std::string_view name = "axis") const;

  /// Adds a step with one result.
  template <class Operation>
  [[nodiscard]] value add(Operation operation) const {
    return scope_.add(with_math(std::move(operation)));
  }
  /// Adds a step that no `model_precision` changes, and returns all of its results.
  template <class Operation>
  [[nodiscard]] results add_as_stated(Operation operation) const {
    return scope_.add_all(std::move(operation));
  }
  /// Adds a step, and returns all of its results.
  template <class Operation>
  [[nodiscard]] results add_all(Operation operation) const {
    return scope_.add_all(with_math(std::move(operation)));
  }
  /// A value with known elements.
  [[nodiscard]] value constant(host_tensor elements) const { return {scope_, std::move(elements)}; }
  template <class T>
  [[nodiscard]] value constant(std::vector<T> elements) const {
    return constant(host_tensor(std::move(elements)));
  }
  /// A number of a type, without dimensions.
  [[nodiscard]] value number(element_type type, double number) const;
  /// The value in another type; itself if it has the type. See `cast::saturate`.
  [[nodiscard]] value cast_to(const value& x, element_type type, bool saturate = true) const;
  /// The value without gaps in row-major order.
  [[nodiscard]] value dense(const value& x) const;

  /// Whether values may lie in memory as it is best for a step; see `note_optimization`.
  [[nodiscard]] bool optimizes() const noexcept { return scope_.optimizes(); }
  /// Notes that a rule has been applied to this node.
  void note_optimization(std::string_view rule) const { scope_.note_optimization(rule); }

  /// Takes a turn of a loop, or so many values, from the budget of the import.
  /// @throws error `unsupported` if nothing is left of it
  ///@{
  void take_turn() const { scope_.budget().take_turn(); }
  void take_values(std::size_t count) const { scope_.budget().take_values(count); }
  ///@}

  /// Adds the steps of a graph that is an attribute.
  [[nodiscard]] results import_subgraph(std::string_view attribute,
                                        const std::vector<value>& inputs) const {
    return import_subgraph_(require_attribute(attribute).g(), inputs);
  }

  /// The error about an input or an attribute.
  [[nodiscard]] error refusal(std::string_view name, const std::string& text) const {
    return invalid_argument(name, text);
  }
  /// The error that sluice cannot compute this.
  [[nodiscard]] error unsupported(std::string_view name, const std::string& text) const {
    return {errc::unsupported, std::string(name) + ": " + text};
  }

 private:
  [[nodiscard]] const onnx::AttributeProto* find(std::string_view name, int type) const;
  template <class Operation>
  [[nodiscard]] Operation with_math(Operation operation) const {
    if constexpr (requires { operation.math = math_; }) operation.math = math_;
    return operation;
  }

  step_scope& scope_;
  const onnx::NodeProto& message_;
  attribute_map attributes_;
  std::vector<std::optional<value>> inputs_;
  std::int64_t opset_;
  const std::vector<std::string>& input_names_;  // of the model
  const model_file& file_;
  subgraph_import import_subgraph_;
  math_mode math_;  // of products
};

}  // namespace sluice::models
