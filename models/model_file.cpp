// SPDX-License-Identifier: Apache-2.0
#include "models/model_file.hpp"

#include "models/element_types.hpp"
#include "models/graph_import.hpp"
#include "models/tensor_reader.hpp"
#include "operations/seam.hpp"

#include <set>
#include <utility>

namespace sluice::models {

namespace {

/// The attributes of a function that have a value if a node does not give them. ONNX 1.12 does not
/// know them, and keeps them as unknown fields.
template <class Function>
std::deque<onnx::AttributeProto> read_defaults(const std::string& model, const Function& function) {
  std::deque<onnx::AttributeProto> defaults;
  if constexpr (requires { function.attribute_proto(); }) {
    for (const auto& attribute : function.attribute_proto()) defaults.push_back(attribute);
  } else {
    constexpr int number = 11;  // onnx.in.proto, FunctionProto.attribute_proto
    const auto& fields = function.GetReflection()->GetUnknownFields(function);
    for (int i = 0; i < fields.field_count(); ++i) {
      const auto& field = fields.field(i);
      const bool fits = field.number() == number &&
                        field.type() == google::protobuf::UnknownField::TYPE_LENGTH_DELIMITED;
      if (fits && !defaults.emplace_back().ParseFromString(field.length_delimited())) {
        throw invalid_argument(model, "a default of an attribute of a function cannot be read");
      }
    }
  }
  return defaults;
}

model_value read_declaration(const onnx::ValueInfoProto& message) {
  model_value result{.name = message.name()};
  if (!message.type().has_tensor_type()) return result;
  const auto& type = message.type().tensor_type();
  result.type = find_element_type(type.elem_type());
  if (!type.has_shape()) return result;
  auto& shape = result.shape.emplace();
  for (const auto& dimension : type.shape().dim()) {
    auto& extent = shape.emplace_back();
    // PaddlePaddle writes -1 or "?" for a free extent.
    if (dimension.has_dim_value() && dimension.dim_value() >= 0) {
      extent.extent = dimension.dim_value();
    }
    if (dimension.dim_param() != "?") extent.symbol = dimension.dim_param();
  }
  return result;
}

}  // namespace

model_file::model_file(model_contents contents, std::string name,
                       std::optional<std::filesystem::path> folder)
    : message_(std::move(contents.message)), name_(std::move(name)), folder_(std::move(folder)) {
  if (!message_.has_graph()) throw invalid_argument(name_, "is not a model, or has no graph");
  for (std::size_t i = 0; i < contents.raw_data.size(); ++i) {
    if (!contents.raw_data[i]) continue;
    sluice::detail::fixed_elements::fix(contents.raw_data[i]);
    constants_.emplace(&graph().initializer(static_cast<int>(i)), std::move(contents.raw_data[i]));
  }
  std::set<std::string_view> initialized;
  for (const auto& tensor : graph().initializer()) initialized.insert(tensor.name());
  for (const auto& input : graph().input()) {
    if (initialized.contains(input.name())) continue;
    inputs_.push_back(read_declaration(input));
    declarations_.push_back(&input);
  }
  for (const auto& output : graph().output()) outputs_.push_back(read_declaration(output));
  for (const auto& entry : message_.metadata_props()) {
    if (entry.key() == steps_key && entry.value() == steps_value) states_steps_ = true;
  }
  for (const auto& function : message_.functions()) {
    functions_.emplace(std::pair(function.domain(), function.name()), &function);
    defaults_.emplace(&function, read_defaults(name_, function));
  }
}

void model_file::require_tensor(std::size_t input) const {
  const auto& declaration = *declarations_[input];
  // Old files leave the type out.
  if (declaration.type().value_case() == onnx::TypeProto::VALUE_NOT_SET) return;
  if (!declaration.type().has_tensor_type()) {
    throw error(errc::unsupported, declaration.name() + ": the input is not declared as a tensor");
  }
  const auto type = declaration.type().tensor_type().elem_type();
  if (type == onnx::TensorProto::UNDEFINED) return;
  try {
    (void)require_element_type(type);
  } catch (const error& e) {
    throw error(e.code(), declaration.name() + ": has " + e.what(), e.status(), e.where());
  }
}

results model_file::import(const import_target& target, std::map<std::string, value> inputs) const {
  return graph_import(*this, *target.scope, target.input_names, target.refused, target.precision)
      .import_model(std::move(inputs));
}

host_tensor model_file::constant(const onnx::TensorProto& tensor) const {
  const std::lock_guard lock(mutex_);
  auto& elements = constants_[&tensor];
  if (!elements) {
    elements = read_tensor(tensor, folder_);
    sluice::detail::fixed_elements::fix(elements);
  }
  return elements;
}

const onnx::FunctionProto* model_file::find_function(const std::string& domain,
                                                     const std::string& name) const {
  const auto found = functions_.find({domain, name});
  return found != functions_.end() ? found->second : nullptr;
}

}  // namespace sluice::models
