// SPDX-License-Identifier: Apache-2.0
#include "operations/core/enumerators.hpp"
#include "operations/program/program_graph.hpp"

#include <sluice/operations/program.hpp>
#include <sluice/runtime/error.hpp>

#include <utility>

namespace sluice {

using detail::program_graph;

namespace {

tensor_layout unsqueezed(const tensor_layout& layout, std::size_t axis) {
  if (axis > layout.rank() || layout.rank() == extents::max_rank) {
    throw invalid_argument("unsqueeze", "there is no place " + std::to_string(axis) +
                                            " for a dimension in the shape " +
                                            to_string(layout.shape()));
  }
  extents shape;
  extents strides;
  for (std::size_t d = 0; d <= layout.rank(); ++d) {
    if (d == axis) {
      shape.push_back(1);
      strides.push_back(1);
    }
    if (d == layout.rank()) break;
    shape.push_back(layout.shape()[d]);
    strides.push_back(layout.strides()[d]);
  }
  return {layout.type(), shape, strides, layout.offset()};
}

}  // namespace

program_value::operator operand() const noexcept {
  return operand(value_reference{graph_->id(), index_});
}
program_value program_value::reshape(const extents& shape) const {
  return {graph_, graph_->add_view(index_, "reshape(" + to_string(shape) + ")",
                                   [shape](const auto& layout) { return layout.reshape(shape); })};
}
program_value program_value::permute(const extents& axes) const {
  return {graph_, graph_->add_view(index_, "permute(" + to_string(axes) + ")",
                                   [axes](const auto& layout) { return layout.permute(axes); })};
}
program_value program_value::transposed() const {
  return {graph_, graph_->add_view(index_, "transposed()",
                                   [](const auto& layout) { return layout.transposed(); })};
}
program_value program_value::slice(std::size_t axis, std::int64_t first,
                                   std::optional<std::int64_t> last, std::int64_t step) const {
  const auto text = "slice(" + std::to_string(axis) + ", " + std::to_string(first) + ", " +
                    (last ? std::to_string(*last) : "end") + ", " + std::to_string(step) + ")";
  return {graph_, graph_->add_view(index_, text, [=](const auto& layout) {
            return layout.slice(axis, first, last, step);
          })};
}
program_value program_value::select(std::size_t axis, std::int64_t index) const {
  return {graph_, graph_->add_view(
                      index_, "select(" + std::to_string(axis) + ", " + std::to_string(index) + ")",
                      [=](const auto& layout) { return layout.select(axis, index); })};
}
program_value program_value::unsqueeze(std::size_t axis) const {
  return {graph_,
          graph_->add_view(index_, "unsqueeze(" + std::to_string(axis) + ")",
                           [axis](const auto& layout) { return unsqueezed(layout, axis); })};
}
program_value program_value::broadcast_to(const extents& shape) const {
  return {graph_,
          graph_->add_view(index_, "broadcast_to(" + to_string(shape) + ")",
                           [shape](const auto& layout) { return layout.broadcast_to(shape); })};
}
program_value program_value::reinterpret(element_type type) const {
  return {graph_,
          graph_->add_view(index_, "reinterpret(" + std::string(to_string(type)) + ")",
                           [type](const auto& layout) { return layout.reinterpret(type); })};
}

program_builder::program_builder() : graph_(std::make_shared<program_graph>()) {}

program_value program_builder::input(std::string name) {
  return {graph_, graph_->add_input(std::move(name))};
}
program_value program_builder::input(std::string name, element_type type, const extents& shape) {
  const auto number = graph_->add_input(std::move(name));
  return {graph_, graph_->add_view(number, {}, [type, shape](const tensor_layout& input) {
            if (input.type() == type && input.shape() == shape) return input;
            throw error(errc::invalid_argument,
                        "has the type " + std::string(to_string(input.type())) + " and the shape " +
                            to_string(input.shape()) + ", but the program is for " +
                            std::string(to_string(type)) + " and " + to_string(shape));
          })};
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
