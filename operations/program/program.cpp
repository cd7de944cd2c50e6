// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/program/program_graph.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/runtime/error.hpp>

#include <utility>

namespace sluice {

using detail::program_graph;
using view_function = detail::program_view::function;

program_value::operator operand() const noexcept {
  return operand(value_reference{graph_->id(), index_});
}
program_value program_value::reshape(const extents& shape) const {
  return {graph_, graph_->add_view(index_, {view_function::reshape, shape})};
}
program_value program_value::permute(const extents& axes) const {
  return {graph_, graph_->add_view(index_, {view_function::permute, axes})};
}
program_value program_value::transposed() const {
  return {graph_, graph_->add_view(index_, {view_function::transposed})};
}
program_value program_value::slice(std::size_t axis, std::int64_t first,
                                   std::optional<std::int64_t> last, std::int64_t step) const {
  extents numbers{static_cast<std::int64_t>(axis), first, step};
  if (last) numbers.push_back(*last);
  return {graph_, graph_->add_view(index_, {view_function::slice, numbers})};
}
program_value program_value::select(std::size_t axis, std::int64_t index) const {
  return {graph_, graph_->add_view(
                      index_, {view_function::select, {static_cast<std::int64_t>(axis), index}})};
}
program_value program_value::unsqueeze(std::size_t axis) const {
  return {graph_,
          graph_->add_view(index_, {view_function::unsqueeze, {static_cast<std::int64_t>(axis)}})};
}
program_value program_value::broadcast_to(const extents& shape) const {
  return {graph_, graph_->add_view(index_, {view_function::broadcast_to, shape})};
}
program_value program_value::reinterpret(element_type type) const {
  return {graph_, graph_->add_view(index_, {view_function::reinterpret, {}, type})};
}

program_builder::program_builder() : graph_(std::make_shared<program_graph>()) {}

program_value program_builder::input(std::string name) {
  return {graph_, graph_->add_input(std::move(name))};
}
program_value program_builder::input(std::string name, element_type type, const extents& shape) {
  const auto number = graph_->add_input(std::move(name));
  return {graph_, graph_->add_view(number, {view_function::require, shape, type})};
}
program_value program_builder::input(std::string name, per_request_t mark) {
  return {graph_, graph_->add_input(std::move(name), mark.axis)};
}
program_value program_builder::input(std::string name, per_request_t mark, padded along) {
  if (along.axis == 0)
    throw invalid_argument(name, "padded: axis is 0, which numbers the requests");
  if (mark.axis != 0) {
    throw invalid_argument(name,
                           "is padded, so its parts must lie along axis 0, but they lie along "
                           "axis " +
                               std::to_string(mark.axis));
  }
  return {graph_, graph_->add_input(std::move(name), mark.axis, along.axis)};
}
scalar program_builder::scalar(std::string name) {
  return graph_->add_scalar(std::move(name));
}
program_value program_builder::constant(std::string name, tensor value) {
  if (!value) throw invalid_argument(name, "is no tensor");
  return {graph_, graph_->add_constant({.name = std::move(name), .on_device = std::move(value)})};
}
program_value program_builder::constant(std::string name, host_tensor value) {
  if (!value) throw invalid_argument(name, "is no tensor");
  return {graph_, graph_->add_constant({.name = std::move(name), .on_host = std::move(value)})};
}
std::string program_builder::step_name(const operation_descriptor& descriptor) const {
  return graph_->new_step_name(std::string(descriptor.name()));
}
std::vector<program_value> program_builder::add_step(std::string name,
                                                     const operation_descriptor& descriptor,
                                                     void* operation) {
  std::shared_ptr<detail::program_step> step;
  operations::naming_step(name, [&] { step = descriptor.make_step(operation); });
  std::vector<program_value> results;
  for (const auto value : graph_->add_step(std::move(name), std::move(step))) {
    results.push_back({graph_, value});
  }
  return results;
}
std::vector<program_value> program_builder::add(const std::string& name, const program& inner,
                                                const std::vector<operand>& inputs,
                                                const std::vector<sluice::scalar>& scalars) {
  if (!inner) throw invalid_argument(name, "is no program");
  std::vector<program_value> outputs;
  for (const auto output : graph_->add_program(name, *inner.graph(), inputs, scalars)) {
    outputs.push_back({graph_, output});
  }
  return outputs;
}
program program_builder::build(const std::vector<program_value>& outputs,
                               const program_options& options) && {
  operations::require_enumerator("capture", options.capture, capture_policy::at_prepare);
  std::vector<std::uint32_t> numbers;
  for (const auto& output : outputs) {
    if (output.graph_ != graph_) {
      throw invalid_argument(
          "outputs", "output " + std::to_string(numbers.size()) + " is a value of another program");
    }
    numbers.push_back(output.index_);
  }
  graph_->build(std::move(numbers), options);
  return program(graph_);
}

std::size_t program::inputs() const noexcept {
  return graph_ ? graph_->inputs().size() : 0;
}
std::size_t program::scalars() const noexcept {
  return graph_ ? graph_->scalars().size() : 0;
}
std::size_t program::outputs() const noexcept {
  return graph_ ? graph_->outputs().size() : 0;
}
std::size_t program::steps() const noexcept {
  return graph_ ? graph_->steps().size() : 0;
}
std::string program::text() const {
  return graph_ ? graph_->text() : std::string();
}

}  // namespace sluice
