// SPDX-License-Identifier: Apache-2.0
#include "models/graph_import.hpp"
#include "models/model_file.hpp"

#include <sluice/models/model.hpp>

#include <algorithm>
#include <fstream>
#include <limits>
#include <utility>

namespace sluice {

namespace {

/// @throws error `invalid_argument` if a tensor does not fit the declaration of an input
void require_fit(const model_value& input, element_type type, const extents& shape) {
  if (input.type && *input.type != type) {
    throw invalid_argument(input.name, "has the type " + std::string(to_string(type)) +
                                           ", but the model declares " +
                                           std::string(to_string(*input.type)));
  }
  if (!input.shape) return;
  bool fits = input.shape->size() == shape.size();
  for (std::size_t i = 0; fits && i < shape.size(); ++i) {
    const auto& extent = (*input.shape)[i].extent;
    fits = !extent || *extent == shape[i];
  }
  if (!fits) {
    throw invalid_argument(input.name,
                           "has the shape " + to_string(shape) + ", which the model excludes");
  }
}

/// The text of an error in one printable line, with the name of the model in front. Names in files
/// may have any bytes.
std::string printable(const std::string& model, const char* text) {
  constexpr std::size_t longest = 1000;
  auto line = model + ": " + text;
  if (line.size() > longest) line.replace(longest, std::string::npos, " ...");
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

/// Makes a program of a model.
model_program make_program(const models::model_file& file,
                           const std::map<std::string, tensor_spec>& specs,
                           const std::map<std::string, host_tensor>& values) {
  model_program made;
  models::step_scope scope;
  std::vector<std::string> names;
  std::map<std::string, models::value> visible;
  for (const auto& input : file.inputs()) {
    const auto number = static_cast<std::uint32_t>(names.size());
    names.push_back(input.name);
    if (const auto bound = values.find(input.name); bound != values.end()) {
      require_fit(input, bound->second.type(), bound->second.shape());
      visible.emplace(input.name, models::value(scope, bound->second));
      continue;
    }
    const auto given = specs.find(input.name);
    if (given == specs.end()) throw invalid_argument(input.name, "the input is not given");
    require_fit(input, given->second.type, given->second.shape);
    const auto added = scope.input(input.name, given->second);
    added.add_sources({number});
    visible.emplace(input.name, added);
    made.inputs.push_back(input.name);
  }
  const auto is_input = [&](const auto& entry) {
    return std::find(names.begin(), names.end(), entry.first) != names.end();
  };
  for (const auto& entry : specs) {
    if (!is_input(entry)) throw invalid_argument(entry.first, "is not an input of the model");
  }
  for (const auto& entry : values) {
    if (!is_input(entry)) throw invalid_argument(entry.first, "is not an input of the model");
  }
  auto outputs = models::graph_import(file, scope, names).import_model(std::move(visible));
  scope.name_steps("outputs");
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i] = scope.as_output(outputs[i]);
    made.outputs.push_back(file.outputs()[i].name);
    made.results.push_back(models::spec_of(outputs[i].layout()));
  }
  made.program = std::move(scope).build(outputs);
  return made;
}

}  // namespace

model::model(std::shared_ptr<const models::model_file> file) noexcept : file_(std::move(file)) {}

model model::open(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  onnx::ModelProto message;
  if (!stream || !message.ParseFromIstream(&stream)) {
    throw invalid_argument(path.string(), stream.is_open() ? "is not a model" : "cannot be opened");
  }
  return model(std::make_shared<const models::model_file>(std::move(message), path.string(),
                                                          path.parent_path()));
}

model model::parse(std::span<const std::byte> bytes, std::string name) {
  onnx::ModelProto message;
  if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
      !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    throw invalid_argument(name, "is not a model");
  }
  return model(std::make_shared<const models::model_file>(std::move(message), std::move(name)));
}

const std::vector<model_value>& model::inputs() const noexcept {
  return file_->inputs();
}
const std::vector<model_value>& model::outputs() const noexcept {
  return file_->outputs();
}

model_program model::program_for(const std::map<std::string, tensor_spec>& specs,
                                 const std::map<std::string, host_tensor>& values) const {
  try {
    return make_program(*file_, specs, values);
  } catch (const unbound_inputs& e) {
    throw unbound_inputs(printable(file_->name(), e.what()), e.names(), e.where());
  } catch (const error& e) {
    throw error(e.code(), printable(file_->name(), e.what()), e.status(), e.where());
  }
}

}  // namespace sluice
