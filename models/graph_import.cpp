// SPDX-License-Identifier: Apache-2.0
#include "models/graph_import.hpp"

#include <sluice/models/model.hpp>

#include <algorithm>
#include <deque>
#include <iterator>
#include <utility>

namespace sluice::models {

namespace {

/// The name of a node, or that of its first output with one, or its operator.
std::string name_of(const onnx::NodeProto& message) {
  if (!message.name().empty()) return message.name();
  for (const auto& output : message.output()) {
    if (!output.empty()) return output;
  }
  return message.op_type();
}
/// "node 'conv1' (Conv)"
std::string label(const onnx::NodeProto& message) {
  return "node '" + name_of(message) + "' (" + message.op_type() + ")";
}

/// The attributes of a node. One that refers to an attribute of a function is replaced by it, or
/// left out if that is not given.
attribute_map attributes_of(const onnx::NodeProto& message, const attribute_map* of_function) {
  attribute_map attributes;
  for (const auto& attribute : message.attribute()) {
    const auto* found = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      if (of_function == nullptr) continue;
      const auto given = of_function->find(attribute.ref_attr_name());
      if (given == of_function->end()) continue;
      found = given->second;
    }
    attributes.emplace(attribute.name(), found);
  }
  return attributes;
}

/// The attributes of a function that have a value if a node does not give them. ONNX 1.12 does not
/// know them, and keeps them as unknown fields.
template <class Function>
std::deque<onnx::AttributeProto> defaults_of(const Function& function) {
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
        throw invalid_argument(function.name(), "a default of an attribute cannot be read");
      }
    }
  }
  return defaults;
}

/// The domain, with one name for that of ONNX itself.
std::string domain_of(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

template <class Imports>
std::map<std::string, std::int64_t> read_opsets(const Imports& imports) {
  std::map<std::string, std::int64_t> opsets;
  for (const auto& import : imports) opsets[domain_of(import.domain())] = import.version();
  return opsets;
}

}  // namespace

const value* graph_import::visible_values::find(const std::string& name) const {
  for (const auto* visible = this; visible != nullptr; visible = visible->outer) {
    const auto found = visible->values.find(name);
    if (found != visible->values.end()) return &found->second;
  }
  return nullptr;
}

graph_import::graph_import(const model_file& file, step_scope& scope,
                           std::vector<std::string> input_names)
    : file_(file),
      scope_(scope),
      input_names_(std::move(input_names)),
      opsets_(read_opsets(file.message().opset_import())) {}

results graph_import::import_model(std::map<std::string, value> inputs) {
  visible_values visible{.values = std::move(inputs), .opsets = &opsets_};
  return import_graph(file_.graph(), visible);
}

results graph_import::import_graph(const onnx::GraphProto& graph, visible_values& visible) {
  if (++depth_ > max_depth) throw error(errc::unsupported, "graphs are nested too deep");
  for (const auto& tensor : graph.initializer()) {
    visible.values.insert_or_assign(tensor.name(), value(scope_, file_.constant(tensor)));
  }
  if (graph.sparse_initializer_size() != 0) throw error(errc::unsupported, "sparse initializers");
  for (const auto& message : graph.node()) import_node(message, visible);
  results outputs;
  for (const auto& output : graph.output()) {
    const auto* const found = visible.find(output.name());
    if (found == nullptr) throw invalid_argument(output.name(), "the output has no value");
    outputs.push_back(*found);
  }
  --depth_;
  return outputs;
}

void graph_import::import_node(const onnx::NodeProto& message, visible_values& visible) {
  try {
    if (++nodes_ > max_nodes) throw error(errc::unsupported, "the program has too many nodes");
    std::vector<std::optional<value>> inputs;
    input_numbers sources;
    for (const auto& name : message.input()) {
      auto& input = inputs.emplace_back();
      if (name.empty()) continue;
      const auto* const found = visible.find(name);
      if (found == nullptr) throw invalid_argument(name, "the input has no value");
      input = *found;
      input_numbers all;
      std::set_union(sources.begin(), sources.end(), found->sources().begin(),
                     found->sources().end(), std::back_inserter(all));
      sources = std::move(all);
    }
    auto attributes = attributes_of(message, visible.attributes);
    const auto* const function = file_.find_function(message.domain(), message.op_type());
    const auto outputs = function != nullptr ? import_function(*function, attributes, inputs)
                                             : import_operator(message, std::move(attributes),
                                                               std::move(inputs), visible);
    for (int i = 0; i < message.output_size(); ++i) {
      if (message.output(i).empty()) continue;
      if (static_cast<std::size_t>(i) >= outputs.size()) {
        throw error(errc::unsupported, "output " + std::to_string(i));
      }
      const auto& output = outputs[static_cast<std::size_t>(i)];
      output.add_sources(sources);
      if (!visible.values.emplace(message.output(i), output).second) {
        throw invalid_argument(message.output(i), "has a value already");
      }
    }
  } catch (const unbound_inputs& e) {
    throw unbound_inputs(label(message) + ": " + e.what(), e.names(), e.where());
  } catch (const error& e) {
    throw error(e.code(), label(message) + ": " + e.what(), e.status(), e.where());
  }
}

results graph_import::import_function(const onnx::FunctionProto& function,
                                      const attribute_map& attributes,
                                      const std::vector<std::optional<value>>& inputs) {
  if (++depth_ > max_depth) throw error(errc::unsupported, "functions are nested too deep");
  const auto opsets = read_opsets(function.opset_import());
  const auto defaults = defaults_of(function);
  auto all_attributes = attributes;
  for (const auto& attribute : defaults) all_attributes.emplace(attribute.name(), &attribute);
  visible_values visible{.attributes = &all_attributes, .opsets = &opsets};
  for (int i = 0; i < function.input_size(); ++i) {
    const auto number = static_cast<std::size_t>(i);
    if (number < inputs.size() && inputs[number]) {
      visible.values.insert_or_assign(function.input(i), *inputs[number]);
    }
  }
  for (const auto& message : function.node()) import_node(message, visible);
  results outputs;
  for (const auto& name : function.output()) {
    const auto* const found = visible.find(name);
    if (found == nullptr) throw invalid_argument(name, "the output has no value");
    outputs.push_back(*found);
  }
  --depth_;
  return outputs;
}

results graph_import::import_operator(const onnx::NodeProto& message, attribute_map attributes,
                                      std::vector<std::optional<value>> inputs,
                                      visible_values& visible) {
  const auto domain = domain_of(message.domain());
  const auto found = visible.opsets->find(domain);
  const auto opset = found != visible.opsets->end() ? found->second : 0;
  if (!domain.empty()) throw error(errc::unsupported, "the domain '" + domain + "'");
  const auto* const entry = find_operator(message.op_type(), opset);
  if (entry == nullptr) throw error(errc::unsupported, "the operator is not known");
  if (auto folded = fold(*entry, message, attributes, inputs, opset)) return *std::move(folded);
  scope_.name_steps(name_of(message));
  const auto import_subgraph = [&](const onnx::GraphProto& graph, const std::vector<value>& given) {
    visible_values inner{
        .outer = &visible, .attributes = visible.attributes, .opsets = visible.opsets};
    if (static_cast<std::size_t>(graph.input_size()) != given.size()) {
      throw error(errc::invalid_argument, "a graph with another number of inputs");
    }
    for (int i = 0; i < graph.input_size(); ++i) {
      inner.values.insert_or_assign(graph.input(i).name(), given[static_cast<std::size_t>(i)]);
    }
    return import_graph(graph, inner);
  };
  return entry->import(node(scope_, message, std::move(attributes), std::move(inputs), opset,
                            input_names_, import_subgraph));
}

std::optional<results> graph_import::fold(const operator_entry& entry,
                                          const onnx::NodeProto& message,
                                          const attribute_map& attributes,
                                          const std::vector<std::optional<value>>& inputs,
                                          std::int64_t opset) {
  if (entry.folding == folding::never) return std::nullopt;
  step_scope scope;
  std::size_t bytes = 0;
  std::vector<std::optional<value>> known(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    if (!inputs[i]->known()) return std::nullopt;
    bytes += inputs[i]->known().bytes();
    known[i].emplace(scope, inputs[i]->known());
  }
  if (bytes > max_folded_bytes) return std::nullopt;
  scope.name_steps(message.op_type());
  const auto outputs =
      entry.import(node(scope, message, attributes, std::move(known), opset, input_names_, {}));
  std::vector<value> computed;
  for (const auto& output : outputs) {
    if (output.known()) continue;
    bytes += output.layout().bytes();
    computed.push_back(output);
  }
  if (bytes > max_folded_bytes) return std::nullopt;
  host_tensors elements;
  if (!computed.empty()) {
    for (auto& output : computed) output = scope.as_output(output);
    elements = file_.evaluation().run(std::move(scope).build(computed));
  }
  results folded;
  std::size_t number = 0;
  for (const auto& output : outputs) {
    folded.emplace_back(scope_, output.known() ? output.known() : elements[number++]);
  }
  return folded;
}

}  // namespace sluice::models
