// SPDX-License-Identifier: Apache-2.0
#include "models/model_file.hpp"

#include "models/element_types.hpp"
#include "models/tensor_reader.hpp"

#include <set>

namespace sluice::models {

namespace {

model_value read_declaration(const onnx::ValueInfoProto& message) {
  model_value result{.name = message.name()};
  if (!message.type().has_tensor_type()) return result;
  const auto& type = message.type().tensor_type();
  result.type = find_element_type(type.elem_type());
  if (!type.has_shape()) return result;
  auto& shape = result.shape.emplace();
  for (const auto& dimension : type.shape().dim()) {
    auto& extent = shape.emplace_back();
    // PaddlePaddle writes -1 for a free extent.
    if (dimension.has_dim_value() && dimension.dim_value() >= 0) {
      extent.extent = dimension.dim_value();
    }
    if (dimension.has_dim_param()) extent.symbol = dimension.dim_param();
  }
  return result;
}

}  // namespace

model_file::model_file(onnx::ModelProto message, std::string name,
                       std::optional<std::filesystem::path> folder)
    : message_(std::move(message)), name_(std::move(name)), folder_(std::move(folder)) {
  if (!message_.has_graph()) throw invalid_argument(name_, "is not a model, or has no graph");
  std::set<std::string_view> initialized;
  for (const auto& tensor : graph().initializer()) initialized.insert(tensor.name());
  for (const auto& input : graph().input()) {
    if (!initialized.contains(input.name())) inputs_.push_back(read_declaration(input));
  }
  for (const auto& output : graph().output()) outputs_.push_back(read_declaration(output));
  for (const auto& function : message_.functions()) {
    functions_.emplace(std::pair(function.domain(), function.name()), &function);
  }
}

host_tensor model_file::constant(const onnx::TensorProto& tensor) const {
  const std::lock_guard lock(mutex_);
  auto& elements = constants_[&tensor];
  if (!elements) elements = read_tensor(tensor, folder_);
  return elements;
}

const onnx::FunctionProto* model_file::find_function(const std::string& domain,
                                                     const std::string& name) const {
  const auto found = functions_.find({domain, name});
  return found != functions_.end() ? found->second : nullptr;
}

}  // namespace sluice::models
