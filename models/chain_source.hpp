// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/chain_connections.hpp"
#include "models/import_source.hpp"

#include <sluice/models/model_chain.hpp>

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace sluice::models {

/// A chain of models. All of them add their steps to one graph.
class chain_source final : public import_source {
 public:
  /// @throws error as `model::chain`
  explicit chain_source(const model_chain& description);

  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] const std::vector<model_value>& inputs() const noexcept override {
    return connections_.declared_inputs;
  }
  [[nodiscard]] const std::vector<model_value>& outputs() const noexcept override {
    return connections_.declared_outputs;
  }
  [[nodiscard]] model_summary summary() const override;
  void require_tensor(std::size_t input) const override;
  [[nodiscard]] results import(const import_target& target,
                               std::map<std::string, value> inputs) const override;
  void drop_unused_constants() const noexcept override;

 private:
  /// The values so far, by number; nothing if one depends on a node that has been refused.
  using known_values = std::vector<std::optional<value>>;

  /// The name of a step and its model.
  struct step_source {
    std::string label{};
    std::string name{};
    std::shared_ptr<const import_source> source{};
  };

  void import_step(const connected_step& step, const import_target& target,
                   known_values& values) const;
  static void add_results(const connected_step& step, const import_source& source,
                          const import_target& target, known_values& values);

  std::string name_;
  chain_connections connections_;
  std::vector<step_source> sources_;  // in the order of the description
};

}  // namespace sluice::models
