// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/host_evaluation.hpp"
#include "models/import_source.hpp"
#include "models/messages.hpp"
#include "models/model_reader.hpp"

#include <sluice/models/model.hpp>
#include <sluice/operations/host_tensor.hpp>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <filesystem>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice::models {

/// A model that has been read. Immutable, and thread-safe.
class model_file final : public import_source {
 public:
  /// `folder` may have files with elements of constants.
  /// @throws error `invalid_argument` if the message is not a model
  model_file(model_contents contents, std::string name,
             std::optional<std::filesystem::path> folder = {});

  [[nodiscard]] const std::string& name() const noexcept override { return name_; }
  [[nodiscard]] const onnx::ModelProto& message() const noexcept { return message_; }
  [[nodiscard]] const onnx::GraphProto& graph() const noexcept { return message_.graph(); }
  [[nodiscard]] const std::vector<model_value>& inputs() const noexcept override { return inputs_; }
  [[nodiscard]] const std::vector<model_value>& outputs() const noexcept override {
    return outputs_;
  }
  [[nodiscard]] model_summary summary() const override;
  /// The function of the model with this name; nullptr if there is none.
  [[nodiscard]] const onnx::FunctionProto* find_function(const std::string& domain,
                                                         const std::string& name) const;
  /// The attributes of a function of this model that have a value if a node does not give them.
  [[nodiscard]] const std::deque<onnx::AttributeProto>& defaults_of(
      const onnx::FunctionProto& function) const {
    return defaults_.at(&function);
  }
  void require_tensor(std::size_t input) const override;
  [[nodiscard]] results import(const import_target& target,
                               std::map<std::string, value> inputs) const override;
  /// The elements of a constant of this model, read once and shared by its programs. Nobody writes
  /// them.
  /// @throws error as `read_tensor`
  [[nodiscard]] host_tensor constant(const onnx::TensorProto& tensor) const;
  /// Whether each node is a step or a view of a program that `write_model` has written, so that
  /// none is computed while the program is made.
  [[nodiscard]] bool states_steps() const noexcept { return states_steps_; }
  /// The key and the value of the metadata that say so.
  ///@{
  static constexpr std::string_view steps_key = "sluice.steps";
  static constexpr std::string_view steps_value = "1";
  ///@}
  /// Computes constants.
  [[nodiscard]] host_evaluation& evaluation() const noexcept { return evaluation_; }

 private:
  onnx::ModelProto message_;
  std::string name_;
  std::optional<std::filesystem::path> folder_;
  std::vector<model_value> inputs_;
  std::vector<const onnx::ValueInfoProto*> declarations_;  // of the inputs
  std::vector<model_value> outputs_;
  bool states_steps_ = false;
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions_;
  std::map<const onnx::FunctionProto*, std::deque<onnx::AttributeProto>> defaults_;
  mutable std::mutex mutex_;
  mutable std::unordered_map<const onnx::TensorProto*, host_tensor> constants_;
  mutable host_evaluation evaluation_;
};

}  // namespace sluice::models
