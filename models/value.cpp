// SPDX-License-Identifier: Apache-2.0
#include "models/value.hpp"

#include "models/step_scope.hpp"

#include <sluice/operations/elementwise.hpp>
#include <sluice/runtime/error.hpp>

#include <algorithm>

namespace sluice::models {

using function = value_view::function;

value::value(step_scope& scope, host_tensor elements, std::string name)
    : scope_(&scope), state_(std::make_shared<state>()) {
  state_->name = std::move(name);
  state_->layout = tensor_layout(elements.type(), elements.shape());
  state_->known = std::move(elements);
}

value::value(step_scope& scope, step_graph::number in_graph, const tensor_layout& layout)
    : scope_(&scope), state_(std::make_shared<state>()) {
  state_->in_graph = in_graph;
  state_->layout = layout;
}

void value::add_sources(source_sets::set sources) const {
  if (!state_->known) state_->sources = scope_->sources().join(state_->sources, sources);
}

void value::name_constant(const std::string& name) const {
  if (state_->known && state_->name.empty()) state_->name = name;
}

step_graph::number value::in_graph() const {
  if (!state_->in_graph) state_->in_graph = scope_->constant(state_->known, state_->name);
  return *state_->in_graph;
}

value value::view(const value_view& what, const tensor_layout& layout) const {
  value result(*scope_, scope_->add_view(in_graph(), what, layout), layout);
  result.state_->sources = state_->sources;
  return result;
}

value value::reshape(const extents& shape) const {
  if (shape == this->shape()) return *this;
  if (state_->known) {
    const auto target = state_->layout.reshape(shape).shape();
    return {*scope_, state_->known.reshape(target), state_->name};
  }
  std::optional<tensor_layout> reshaped;
  try {
    reshaped = state_->layout.reshape(shape);
  } catch (const error& e) {
    if (e.code() != errc::unsupported) throw;
  }
  if (reshaped) return view({function::reshape, reshaped->shape()}, *reshaped);
  const auto copy = scope_->add(strided_copy{.x = *this});
  copy.add_sources(state_->sources);
  return copy.reshape(shape);
}
value value::permute(const extents& axes) const {
  return view({function::permute, axes}, state_->layout.permute(axes));
}
value value::transposed() const {
  return view({function::transposed}, state_->layout.transposed());
}
value value::slice(std::size_t axis, std::int64_t first, std::int64_t last,
                   std::int64_t step) const {
  return view({function::slice, {static_cast<std::int64_t>(axis), first, last, step}},
              state_->layout.slice(axis, first, last, step));
}
value value::select(std::size_t axis, std::int64_t index) const {
  return view({function::select, {static_cast<std::int64_t>(axis), index}},
              state_->layout.select(axis, index));
}
value value::broadcast_to(const extents& shape) const {
  return view({function::broadcast_to, shape}, state_->layout.broadcast_to(shape));
}
value value::reinterpret(element_type type) const {
  return view({function::reinterpret, {}, type}, state_->layout.reinterpret(type));
}
value value::unsqueeze(std::size_t axis) const {
  auto shape = this->shape();
  shape.push_back(1);
  std::copy_backward(shape.begin() + axis, shape.end() - 1, shape.data() + shape.size());
  shape[axis] = 1;
  if (state_->known) return reshape(shape);
  return view({function::unsqueeze, {static_cast<std::int64_t>(axis)}},
              state_->layout.reshape(shape));
}

}  // namespace sluice::models
