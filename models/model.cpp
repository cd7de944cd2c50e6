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

/// The declared shape: "[batch, 3, 224, 224]".
std::string text_of(const std::vector<model_dimension>& shape) {
  std::string text = "[";
  for (const auto& d : shape) {
    if (text.size() > 1) text += ", ";
    text += d.extent ? std::to_string(*d.extent) : d.symbol.empty() ? "?" : d.symbol;
  }
  return text + "]";
}

/// The extents that inputs have for the symbols of a model.
class symbol_extents {
 public:
  /// @throws error `invalid_argument` if another input has another extent for a symbol
  void add(const model_value& input, const extents& shape) {
    if (!input.shape) return;
    for (std::size_t i = 0; i < shape.size(); ++i) {
      const auto& symbol = (*input.shape)[i].symbol;
      if (symbol.empty()) continue;
      const auto [entry, is_new] = extents_.try_emplace(symbol, shape[i], input.name);
      const auto& [extent, first] = entry->second;
      if (is_new || extent == shape[i]) continue;
      throw invalid_argument(input.name, "has the shape " + to_string(shape) + ", but " + symbol +
                                             " of " + text_of(*input.shape) + " is " +
                                             std::to_string(extent) + " in " + first);
    }
  }

 private:
  std::map<std::string, std::pair<std::int64_t, std::string>> extents_;
};

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
    throw invalid_argument(input.name, "has the shape " + to_string(shape) +
                                           ", but the model declares " + text_of(*input.shape));
  }
}

/// The text of an error in one printable line, with the name of the model in front. Names in files
/// may have any bytes. The middle of a long line, the names of inner nodes, is left out.
std::string printable(const std::string& model, const char* text) {
  constexpr std::size_t start = 700;
  constexpr std::size_t end = 300;
  auto line = model + ": " + text;
  if (line.size() > start + end) line.replace(start, line.size() - start - end, " ... ");
  std::replace_if(
      line.begin(), line.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return line;
}

/// Calls `work`. An exception that is no `error` becomes one with the name of the model in front.
template <class Work>
auto with_typed_errors(const std::string& model, const Work& work) {
  try {
    return work();
  } catch (const error&) {
    throw;
  } catch (...) {
    const auto e = current_error();
    throw error(e.code(), printable(model, e.what()), e.status(), e.where());
  }
}

/// Makes a program of a model.
model_program make_program(const models::model_file& file,
                           const std::map<std::string, tensor_spec>& specs,
                           const std::map<std::string, host_tensor>& values) {
  model_program made;
  models::import_budget budget;
  models::step_scope scope(budget);
  std::vector<std::string> names;
  std::map<std::string, models::value> visible;
  symbol_extents symbols;
  for (const auto& input : file.inputs()) {
    const auto number = static_cast<std::uint32_t>(names.size());
    names.push_back(input.name);
    file.require_tensor(number);
    if (const auto bound = values.find(input.name); bound != values.end()) {
      if (specs.contains(input.name)) {
        throw invalid_argument(input.name, "is given by value and by its properties");
      }
      require_fit(input, bound->second.type(), bound->second.shape());
      symbols.add(input, bound->second.shape());
      visible.emplace(input.name, models::value(scope, bound->second, input.name));
      continue;
    }
    const auto spec = specs.find(input.name);
    if (spec == specs.end()) throw invalid_argument(input.name, "the input is not given");
    require_fit(input, spec->second.type, spec->second.shape);
    symbols.add(input, spec->second.shape);
    const auto added = scope.input(input.name, spec->second);
    added.add_sources(scope.sources().single(number));
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
  return with_typed_errors(path.string(), [&] {
    onnx::ModelProto message;
    if (!stream || !message.ParseFromIstream(&stream)) {
      throw invalid_argument(path.string(),
                             stream.is_open() ? "is not a model" : "cannot be opened");
    }
    return model(std::make_shared<const models::model_file>(std::move(message), path.string(),
                                                            path.parent_path()));
  });
}

model model::parse(std::span<const std::byte> bytes, std::string name) {
  return with_typed_errors(name, [&] {
    onnx::ModelProto message;
    if (bytes.size() > static_cast<std::size_t>(std::numeric_limits<int>::max()) ||
        !message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      throw invalid_argument(name, "is not a model");
    }
    return model(std::make_shared<const models::model_file>(std::move(message), name));
  });
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
  } catch (...) {
    const auto e = current_error();
    throw error(e.code(), printable(file_->name(), e.what()), e.status(), e.where());
  }
}

}  // namespace sluice
