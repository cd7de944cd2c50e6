// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/source_sets.hpp"
#include "models/step_graph.hpp"
#include "models/value_view.hpp"

#include <sluice/operations/host_tensor.hpp>
#include <sluice/operations/operand.hpp>
#include <sluice/operations/tensor_spec.hpp>
#include <sluice/runtime/tensor_layout.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace sluice::models {

class step_scope;

/// A value of a graph: its elements, if they are known while it is imported, or the value of the
/// graph of steps that is being made. Copies share it.
///
/// It stands where an operation takes an operand; a known value then becomes a constant. The views
/// are those of `tensor`.
class value {
 public:
  /// A value with known elements. `name` is that of its constant; empty: see `name_constant`.
  value(step_scope& scope, host_tensor elements, std::string name = {});
  /// A value of the graph of steps, with its layout.
  value(step_scope& scope, step_graph::number in_graph, const tensor_layout& layout);

  [[nodiscard]] element_type type() const noexcept { return state_->layout.type(); }
  [[nodiscard]] extents shape() const noexcept { return state_->layout.shape(); }
  [[nodiscard]] std::size_t rank() const noexcept { return state_->layout.rank(); }
  [[nodiscard]] std::size_t size() const noexcept { return state_->layout.size(); }
  [[nodiscard]] std::int64_t extent(std::size_t dimension) const noexcept {
    return shape()[dimension];
  }
  /// How the elements lie in memory.
  [[nodiscard]] const tensor_layout& layout() const noexcept { return state_->layout; }

  /// The address of what copies share.
  [[nodiscard]] const void* identity() const noexcept { return state_.get(); }

  /// The elements, if they are known; otherwise no tensor.
  [[nodiscard]] const host_tensor& known() const noexcept { return state_->known; }
  /// The inputs of the model whose elements it depends on. None of a known value.
  [[nodiscard]] source_sets::set sources() const noexcept { return state_->sources; }
  /// Adds inputs to those that it depends on, unless it is known.
  void add_sources(source_sets::set sources) const;
  /// Names the constant that a known value becomes, unless it has a name.
  void name_constant(const std::string& name) const;

  /// The value of the graph of steps. A known value becomes a constant.
  [[nodiscard]] step_graph::number in_graph() const;
  // NOLINTNEXTLINE(google-explicit-constructor): every value is an operand.
  operator operand() const { return operand_of(in_graph()); }

  /// The elements in row-major order with another shape, copied if no view has it.
  [[nodiscard]] value reshape(const extents& shape) const;
  [[nodiscard]] value permute(const extents& axes) const;
  [[nodiscard]] value transposed() const;
  [[nodiscard]] value slice(std::size_t axis, std::int64_t first, std::int64_t last,
                            std::int64_t step = 1) const;
  [[nodiscard]] value select(std::size_t axis, std::int64_t index) const;
  [[nodiscard]] value broadcast_to(const extents& shape) const;
  [[nodiscard]] value reinterpret(element_type type) const;
  /// With an extent of 1 in front of dimension `axis`.
  [[nodiscard]] value unsqueeze(std::size_t axis) const;

 private:
  struct state {
    host_tensor known{};
    std::optional<step_graph::number> in_graph{};
    tensor_layout layout{};
    source_sets::set sources = 0;
    std::string name{};  ///< of the constant
  };

  [[nodiscard]] value view(const value_view& what, const tensor_layout& layout) const;

  step_scope* scope_;
  std::shared_ptr<state> state_;
};

/// The results of a node. A node with one result may return that one.
class results : public std::vector<value> {
 public:
  using std::vector<value>::vector;
  // NOLINTNEXTLINE(google-explicit-constructor)
  results(value only) { push_back(std::move(only)); }
};

}  // namespace sluice::models
