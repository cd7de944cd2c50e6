// SPDX-License-Identifier: Apache-2.0
#include "models/export/program_writer.hpp"

#include "models/element_types.hpp"
#include "models/export/declarations.hpp"
#include "models/export/implied_copies.hpp"
#include "models/export/operation_form.hpp"
#include "models/export/standard_form.hpp"
#include "models/model_file.hpp"
#include "operations/seam.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/version.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace sluice::models {

namespace {

using sluice::detail::program_graph;
using value_kind = program_graph::value_kind;
using view_function = sluice::detail::program_view::function;

/// The versions that files state. Old runtimes know them.
///@{
constexpr std::int64_t written_format = 9;
constexpr std::int64_t written_opset = 20;
///@}

/// Names of which no two are equal.
class unique_names {
 public:
  /// The name, with a number after it if it is taken.
  /// @throws error `invalid_argument` if it is not UTF-8
  std::string take(const std::string& name) {
    require_utf8(name);
    auto unique = name;
    while (!taken_.try_emplace(unique, 2).second) {
      unique = name + ' ' + std::to_string(taken_[name]++);
    }
    return unique;
  }
  [[nodiscard]] bool has(const std::string& name) const { return taken_.contains(name); }

 private:
  std::unordered_map<std::string, std::size_t> taken_;  // and the next number after the name
};

class program_writer {
 public:
  program_writer(const program_graph& graph, const model_write_options& options)
      : graph_(graph), names_(graph.values().size()) {
    if (!graph.scalars().empty()) {
      throw error(errc::unsupported,
                  "scalar '" + graph.scalars().front() +
                      "': is a number that each run gives, which no file states");
    }
    declare_inputs(options.inputs);
    declare_outputs(options.outputs);
    infer();
    copies_.emplace(graph_, specs_);
    message().set_ir_version(written_format);
    message().set_producer_name("sluice");
    message().set_producer_version(std::string(version));
    message().add_opset_import()->set_version(written_opset);
    auto& own_operators = *message().add_opset_import();
    own_operators.set_domain(std::string(own_domain));
    own_operators.set_version(own_domain_version);
    auto& steps_are_stated = *message().add_metadata_props();
    steps_are_stated.set_key(std::string(model_file::steps_key));
    steps_are_stated.set_value(std::string(model_file::steps_value));
    nodes().set_name("program");
  }

  [[nodiscard]] written_program write() && {
    for (std::uint32_t i = 0; i < graph_.values().size(); ++i) write_value(i);
    for (const auto& input : inputs_) declare(input, *nodes().add_input());
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      declare(outputs_[i], *nodes().add_output());
      const auto& name = names_[graph_.outputs()[i]];
      if (name == outputs_[i].name) continue;
      // The same value is an output twice.
      auto& node = *nodes().add_node();
      node.set_op_type("Identity");
      node.add_input(name);
      node.add_output(outputs_[i].name);
    }
    return std::move(written_);
  }

 private:
  [[nodiscard]] onnx::ModelProto& message() noexcept { return written_.message; }
  [[nodiscard]] onnx::GraphProto& nodes() noexcept { return *written_.message.mutable_graph(); }
  std::string take_name(const std::string& name) { return value_names_.take(name); }

  void declare_inputs(const std::vector<model_value>& declarations) {
    if (!declarations.empty()) {
      require_names("inputs", declarations, graph_.inputs().size());
      inputs_ = declarations;
    }
    for (std::size_t i = 0; i < graph_.inputs().size(); ++i) {
      if (declarations.empty()) inputs_.push_back({.name = graph_.inputs()[i]});
      inputs_[i].name = take_name(inputs_[i].name);
      names_[graph_.value_of_input(i)] = inputs_[i].name;
    }
    for (std::uint32_t i = 0; i < graph_.values().size(); ++i) {
      const auto input = required_input(i);
      if (!input) continue;
      const auto& view = graph_.view_of(i);
      require_fit(inputs_[*input], view.type, view.numbers);
      set_properties(inputs_[*input], view.type, view.numbers);
    }
  }
  [[nodiscard]] bool is_requirement(std::uint32_t number) const {
    return graph_.values()[number].kind == value_kind::view &&
           graph_.view_of(number).what == view_function::require;
  }
  /// The input that must have the type and the shape that a value states; nothing if the value
  /// states none, or those of another value.
  [[nodiscard]] std::optional<std::uint32_t> required_input(std::uint32_t number) const {
    if (!is_requirement(number)) return std::nullopt;
    while (is_requirement(number)) number = graph_.values()[number].source;
    const auto& value = graph_.values()[number];
    return value.kind == value_kind::input ? std::optional(value.source) : std::nullopt;
  }
  void declare_outputs(const std::vector<model_value>& declarations) {
    if (!declarations.empty()) {
      require_names("outputs", declarations, graph_.outputs().size());
      outputs_ = declarations;
    }
    for (const auto& output : outputs_) {
      // A run names its inputs and outputs.
      if (value_names_.has(output.name))
        throw invalid_argument("outputs", "'" + output.name + "' is the name of an input");
    }
    for (std::size_t i = 0; i < graph_.outputs().size(); ++i) {
      const auto value = graph_.outputs()[i];
      if (declarations.empty()) outputs_.push_back({.name = name_of_value(value)});
      outputs_[i].name = take_name(outputs_[i].name);
      if (names_[value].empty()) names_[value] = outputs_[i].name;
    }
  }
  /// Works out the properties of all values, if those of the inputs are known.
  void infer() {
    std::vector<tensor_spec> specs;
    for (const auto& input : inputs_) {
      if (const auto spec = spec_of_declaration(input)) specs.push_back(*spec);
    }
    specs_.resize(graph_.values().size());
    if (specs.size() != inputs_.size()) return;
    specs_ = sluice::detail::specs_of_values(graph_, specs);
    for (std::size_t i = 0; i < outputs_.size(); ++i) {
      const auto& spec = specs_[graph_.outputs()[i]];
      if (spec) set_properties(outputs_[i], spec->type, spec->shape);
    }
  }

  /// The name of a value in the program. That of a view has no views in between.
  [[nodiscard]] std::string name_of_value(std::uint32_t number) const {
    const auto& value = graph_.values()[number];
    switch (value.kind) {
      case value_kind::input:
        return graph_.inputs()[value.source];
      case value_kind::constant:
        return graph_.constants()[value.source].name;
      case value_kind::view:
        return name_of_value(value.viewed) + '.' + (value.text.empty() ? "require" : value.text);
      case value_kind::result:
        break;
    }
    const auto& result = graph_.results()[value.source];
    const auto& step = graph_.steps()[result.step];
    if (step.outputs.size() == 1) return step.name;
    return step.name + '.' + std::string(step.operation->operands()[result.operand].name);
  }
  const std::string& take_name_of(std::uint32_t number) {
    if (names_[number].empty()) names_[number] = take_name(name_of_value(number));
    return names_[number];
  }

  void write_value(std::uint32_t number) {
    const auto& value = graph_.values()[number];
    switch (value.kind) {
      case value_kind::input:
        return;
      case value_kind::constant: {
        const auto& constant = graph_.constants()[value.source];
        return add_constant(take_name_of(number), constant.on_host, constant.on_device);
      }
      case value_kind::view:
        return write_view(number);
      case value_kind::result: {
        const auto& result = graph_.results()[value.source];
        const auto& step = graph_.steps()[result.step];
        if (result.operand == step.outputs.front()) write_step(step, number);
        return;
      }
    }
  }
  void add_constant(const std::string& name, const host_tensor& on_host, const tensor& on_device) {
    auto& added = written_.constants.emplace_back();
    added.on_host = on_host;
    added.on_device = on_device;
    added.header.set_name(name);
    added.header.set_data_type(onnx_number_of(on_host ? on_host.type() : on_device.type()));
    for (const auto extent : on_host ? on_host.shape() : on_device.shape())
      added.header.add_dims(extent);
  }
  /// Adds a constant that an operator of ONNX has as an input. Returns its name.
  std::string add_parameter(const std::string& name, const host_tensor& elements) {
    auto unique = take_name(name);
    add_constant(unique, elements, {});
    return unique;
  }

  void write_view(std::uint32_t number) {
    const auto& value = graph_.values()[number];
    const auto& view = graph_.view_of(number);
    if (is_requirement(number) && (required_input(number) || specs_[number])) {
      // The declarations of the inputs state as much.
      names_[number] = names_[value.source];
      return;
    }
    auto& node = *nodes().add_node();
    node.add_input(names_[value.source]);
    node.add_output(take_name_of(number));
    if (const auto name = copies_->step_of(number); !name.empty())
      node.set_name(node_names_.take(name));
    const auto parameter = [&](const char* name, const host_tensor& elements) {
      return add_parameter(names_[number] + '.' + name, elements);
    };
    if (write_standard_view(view, {specs_[value.source], parameter}, node)) return;
    node.set_op_type(write_view_parameters(view, node));
    node.set_domain(std::string(own_domain));
  }
  void write_step(const program_graph::step& step, std::uint32_t first_result) {
    const auto& operation = *step.operation;
    const auto name = operation.descriptor().name();
    const auto with_step = [&](const error& e) {
      return error(e.code(), "step '" + step.name + "': " + e.what(), e.status(), e.where());
    };
    auto& node = *nodes().add_node();
    step_description description{.operation = operation, .scalars = step.scalars};
    for (std::size_t i = 0; i < step.operands.size(); ++i) {
      const auto operand = step.operands[i];
      const bool is_given = operand != program_graph::none;
      description.inputs.push_back(is_given ? names_[operand] : std::string());
      description.specs.push_back(is_given ? specs_[operand] : std::nullopt);
    }
    for (std::uint32_t i = 0; i < step.outputs.size(); ++i) {
      node.add_output(take_name_of(first_result + i));
      description.results.push_back(specs_[first_result + i]);
    }
    description.add_parameter = [&](const char* parameter, const host_tensor& elements) {
      return add_parameter(step.name + '.' + parameter, elements);
    };
    try {
      if (copies_->is_implied(step, first_result)) {
        node.set_op_type("Identity");
        node.add_input(description.inputs.front());
        return;
      }
      node.set_name(node_names_.take(step.name));
      if (write_standard_step(description, node)) return;
      const auto* const form = find_form(name);
      if (form == nullptr || !form->write(operation, step.scalars, node)) {
        throw error(errc::unsupported, "the operation '" + std::string(name) +
                                           "' is not one of sluice, and has no form in a file");
      }
    } catch (const error& e) {
      throw with_step(e);
    }
    node.set_op_type(std::string(name));
    node.set_domain(std::string(own_domain));
    auto count = description.inputs.size();
    while (count > 0 && description.inputs[count - 1].empty()) --count;
    for (std::size_t i = 0; i < count; ++i) node.add_input(description.inputs[i]);
  }

  const program_graph& graph_;
  written_program written_;
  std::vector<model_value> inputs_;
  std::vector<model_value> outputs_;
  unique_names value_names_;
  unique_names node_names_;
  std::vector<std::string> names_;                 // by value; empty until it has one
  std::vector<std::optional<tensor_spec>> specs_;  // likewise; nothing if it is not known
  std::optional<implied_copies> copies_;
};

}  // namespace

written_program describe_program(const program& program, const model_write_options& options) {
  if (!program) throw invalid_argument("program", "is empty");
  return program_writer(*program.graph(), options).write();
}

}  // namespace sluice::models
