// SPDX-License-Identifier: Apache-2.0
#include "models/graph_import.hpp"

#include "models/export/operation_form.hpp"
#include "models/operator_attributes.hpp"

#include <sluice/models/model.hpp>

#include <utility>

namespace sluice::models {

namespace {

/// A node is refused whatever its inputs are.
class inherent_refusal final : public error {
 public:
  using error::error;
};

/// Names of so many bytes count as one value.
constexpr std::size_t bytes_of_value = 256;

std::size_t bytes_of_names(const onnx::NodeProto& message) {
  auto sum = message.name().size();
  for (const auto& name : message.input()) sum += name.size();
  for (const auto& name : message.output()) sum += name.size();
  return sum;
}

/// The versions of onnx 1.23. Those of the future may give a field or an operator another meaning.
///@{
constexpr std::int64_t newest_opset = 28;
constexpr std::int64_t newest_format = 14;
///@}

/// The name of a node, or that of its first output with one, or its operator.
std::string name_of(const onnx::NodeProto& message) {
  if (!message.name().empty()) return message.name();
  for (const auto& output : message.output()) {
    if (!output.empty()) return output;
  }
  return message.op_type();
}
/// "node 'conv1' (Conv)". Names are cut, because errors of graphs within graphs have many.
std::string label(const onnx::NodeProto& message) {
  constexpr std::size_t longest = 200;
  return "node '" + name_of(message).substr(0, longest) + "' (" +
         message.op_type().substr(0, longest) + ")";
}

/// The attributes of a node. One that refers to an attribute of a function is replaced by it, or
/// left out if that is not given.
attribute_map attributes_of(const onnx::NodeProto& message, const attribute_map* of_function) {
  attribute_map attributes;
  for (const auto& attribute : message.attribute()) {
    const auto* found = &attribute;
    if (!attribute.ref_attr_name().empty()) {
      if (of_function == nullptr) continue;
      const auto argument = of_function->find(attribute.ref_attr_name());
      if (argument == of_function->end()) continue;
      found = argument->second;
    }
    attributes.emplace(attribute.name(), found);
  }
  return attributes;
}

/// Refuses attributes that the operator does not have. Names that begin with two underscores belong
/// to tools, and every operator may have them.
void require_known_attributes(const onnx::NodeProto& message, std::int64_t opset) {
  constexpr std::size_t longest = 200;
  for (const auto& attribute : message.attribute()) {
    const auto& name = attribute.name();
    if (name.starts_with("__") || has_attribute(message.op_type(), opset, name)) continue;
    throw invalid_argument(name.substr(0, longest), "is no attribute of " + message.op_type() +
                                                        " in version " + std::to_string(opset) +
                                                        " of the operator set");
  }
}

const operator_entry& known(const operator_entry* entry) {
  if (entry != nullptr) return *entry;
  throw inherent_refusal(errc::unsupported, "sluice does not have this operator");
}

/// The entry for the operator of a node.
/// @throws error `invalid_argument` if the operator of ONNX does not have an attribute
/// @throws error `unsupported` if the operator, its domain or its version is not known
const operator_entry& find_entry(const onnx::NodeProto& message, const std::string& domain,
                                 std::int64_t opset) {
  if (domain == own_domain) {
    if (opset == own_domain_version) return known(find_own_operator(message.op_type()));
    throw inherent_refusal(errc::unsupported,
                           "version " + std::to_string(opset) + " of the domain '" + domain +
                               "': the only one is " + std::to_string(own_domain_version));
  }
  if (!domain.empty()) {
    throw inherent_refusal(errc::unsupported,
                           "operators of the domain '" + domain + "' are not supported");
  }
  const auto& entry = known(find_operator(message.op_type(), opset));
  require_known_attributes(message, opset);
  return entry;
}

/// The domain, with one name for that of ONNX itself.
std::string domain_of(const std::string& domain) {
  return domain == "ai.onnx" ? "" : domain;
}

template <class Imports>
std::map<std::string, std::int64_t> read_opsets(const Imports& imports) {
  std::map<std::string, std::int64_t> opsets;
  for (const auto& import : imports) {
    const auto domain = domain_of(import.domain());
    if (domain.empty() && import.version() > newest_opset) {
      throw error(errc::unsupported, "version " + std::to_string(import.version()) +
                                         " of the operator set: the newest known one is " +
                                         std::to_string(newest_opset));
    }
    opsets[domain] = import.version();
  }
  return opsets;
}

}  // namespace

void refused_nodes::add(const onnx::NodeProto& message, const error& reason,
                        std::vector<std::string> unbound) {
  if (!known_.insert(&message).second) return;
  all_.push_back({.code = reason.code(),
                  .node = name_of(message),
                  .domain = domain_of(message.domain()),
                  .operator_name = message.op_type(),
                  .is_inherent = dynamic_cast<const inherent_refusal*>(&reason) != nullptr,
                  .reason = reason.what(),
                  .unbound = std::move(unbound)});
}

/// Increments the depth while it exists.
class graph_import::nesting {
 public:
  nesting(int& depth, const char* what) : depth_(depth) {
    if (depth_ == max_depth) {
      throw error(errc::unsupported, std::string(what) + " are nested too deep");
    }
    ++depth_;
  }
  nesting(const nesting&) = delete;
  nesting& operator=(const nesting&) = delete;
  ~nesting() { --depth_; }

 private:
  int& depth_;
};

const graph_import::possible_value* graph_import::visible_values::find(
    const std::string& name) const {
  for (const auto* visible = this; visible != nullptr; visible = visible->outer) {
    const auto found = visible->values.find(name);
    if (found != visible->values.end()) return &found->second;
  }
  return nullptr;
}
const graph_import::possible_value& graph_import::visible_values::output(
    const std::string& name) const {
  const auto* const found = find(name);
  if (found == nullptr) throw invalid_argument(name, "the output has no value");
  return *found;
}

graph_import::graph_import(const model_file& file, step_scope& scope,
                           std::vector<std::string> input_names, refused_nodes* refused,
                           model_precision precision)
    : file_(file),
      scope_(scope),
      input_names_(std::move(input_names)),
      opsets_(read_opsets(file.message().opset_import())),
      refused_(refused),
      precision_(scope, file.derived(), precision) {}

results graph_import::import_model(std::map<std::string, value> inputs) {
  if (const auto version = file_.message().ir_version(); version > newest_format) {
    throw error(errc::unsupported, "version " + std::to_string(version) +
                                       " of the format (ir_version): the newest known one is " +
                                       std::to_string(newest_format));
  }
  visible_values visible{.opsets = &opsets_};
  for (auto& [name, input] : inputs) visible.values.emplace(name, std::move(input));
  auto outputs = import_graph(file_.graph(), visible);
  for (auto& output : outputs) output = precision_.restore(output);
  return outputs;
}

const value& graph_import::initializer(const onnx::TensorProto& tensor) {
  const auto known = initializers_.find(&tensor);
  if (known != initializers_.end()) return known->second;
  return initializers_.try_emplace(&tensor, scope_, file_.constant(tensor), tensor.name())
      .first->second;
}

results graph_import::import_graph(const onnx::GraphProto& graph, visible_values& visible) {
  const nesting depth(depth_, "graphs");
  scope_.budget().take_values(static_cast<std::size_t>(graph.initializer_size()) +
                              static_cast<std::size_t>(graph.output_size()));
  for (const auto& tensor : graph.initializer()) {
    visible.values.insert_or_assign(tensor.name(), initializer(tensor));
  }
  if (graph.sparse_initializer_size() != 0) throw error(errc::unsupported, "sparse initializers");
  for (const auto& message : graph.node()) import_node(message, visible);
  results outputs;
  bool has_unknown = false;
  for (const auto& output : graph.output()) {
    const auto& found = visible.output(output.name());
    if (found) {
      outputs.push_back(*found);
    } else {
      has_unknown = true;
    }
  }
  if (has_unknown) throw unknown_output();
  return outputs;
}

void graph_import::import_node(const onnx::NodeProto& message, visible_values& visible) {
  // A loop or a function that has used up the budget would exceed it again and again.
  const auto goes_on = [&] {
    return refused_ != nullptr && !scope_.budget().is_used_up();
  };
  try {
    add_node(message, visible);
  } catch (const unknown_output&) {
    forget_outputs(message, visible);
  } catch (const unbound_inputs& e) {
    if (!goes_on()) throw unbound_inputs(label(message) + ": " + e.what(), e.names(), e.where());
    refused_->add(message, e, e.names());
    forget_outputs(message, visible);
  } catch (const error& e) {
    if (!goes_on()) throw error(e.code(), label(message) + ": " + e.what(), e.status(), e.where());
    refused_->add(message, e, {});
    forget_outputs(message, visible);
  }
}

void graph_import::forget_outputs(const onnx::NodeProto& message, visible_values& visible) {
  for (const auto& output : message.output()) {
    if (!output.empty()) visible.values.try_emplace(output);
  }
}

graph_import::node_inputs graph_import::inputs_of(const onnx::NodeProto& message,
                                                  const visible_values& visible) {
  node_inputs inputs;
  for (const auto& name : message.input()) {
    auto& input = inputs.values.emplace_back();
    inputs.are_unknown.push_back(false);
    if (name.empty()) continue;
    const auto* const found = visible.find(name);
    if (found == nullptr) throw invalid_argument(name, "the input has no value");
    input = *found;
    if (input) {
      inputs.sources = scope_.sources().join(inputs.sources, input->sources());
    } else {
      inputs.are_unknown.back() = inputs.has_unknown = true;
    }
  }
  return inputs;
}

void graph_import::add_node(const onnx::NodeProto& message, visible_values& visible) {
  scope_.budget().take_node();
  scope_.budget().take_values(static_cast<std::size_t>(message.input_size()) +
                              static_cast<std::size_t>(message.output_size()) +
                              static_cast<std::size_t>(message.attribute_size()) +
                              bytes_of_names(message) / bytes_of_value);
  auto inputs = inputs_of(message, visible);
  const auto sources = inputs.sources;
  auto attributes = attributes_of(message, visible.attributes);
  std::vector<possible_value> outputs;
  if (const auto* const function = file_.find_function(message.domain(), message.op_type())) {
    outputs = import_function(*function, attributes, inputs);
  } else {
    for (auto& output :
         import_operator(message, std::move(attributes), std::move(inputs), visible)) {
      outputs.emplace_back(std::move(output));
    }
  }
  for (int i = 0; i < message.output_size(); ++i) {
    if (message.output(i).empty()) continue;
    if (static_cast<std::size_t>(i) >= outputs.size()) {
      throw error(errc::unsupported, "output " + std::to_string(i));
    }
    const auto& output = outputs[static_cast<std::size_t>(i)];
    if (output) {
      output->add_sources(sources);
      output->name_constant(message.output(i));
    }
    if (!visible.values.emplace(message.output(i), output).second) {
      throw invalid_argument(message.output(i), "has a value already");
    }
  }
}

std::vector<graph_import::possible_value> graph_import::import_function(
    const onnx::FunctionProto& function, const attribute_map& attributes,
    const node_inputs& inputs) {
  const nesting depth(depth_, "functions");
  const auto opsets = read_opsets(function.opset_import());
  const auto& defaults = file_.defaults_of(function);
  scope_.budget().take_values(static_cast<std::size_t>(function.input_size()) +
                              static_cast<std::size_t>(function.output_size()) +
                              static_cast<std::size_t>(function.opset_import_size()) +
                              attributes.size() + defaults.size());
  auto all_attributes = attributes;
  for (const auto& attribute : defaults) all_attributes.emplace(attribute.name(), &attribute);
  visible_values visible{.attributes = &all_attributes, .opsets = &opsets};
  for (int i = 0; i < function.input_size(); ++i) {
    const auto number = static_cast<std::size_t>(i);
    if (number >= inputs.values.size()) continue;
    if (inputs.values[number] || inputs.are_unknown[number]) {
      visible.values.insert_or_assign(function.input(i), inputs.values[number]);
    }
  }
  for (const auto& message : function.node()) import_node(message, visible);
  std::vector<possible_value> outputs;
  for (const auto& name : function.output()) outputs.push_back(visible.output(name));
  return outputs;
}

results graph_import::import_operator(const onnx::NodeProto& message, attribute_map attributes,
                                      node_inputs inputs, visible_values& visible) {
  const auto domain = domain_of(message.domain());
  const auto found = visible.opsets->find(domain);
  const auto opset = found != visible.opsets->end() ? found->second : 0;
  const auto& entry = find_entry(message, domain, opset);
  if (inputs.has_unknown) throw unknown_output();
  if (auto folded = fold(entry, message, attributes, inputs.values, opset)) {
    return *std::move(folded);
  }
  scope_.name_steps(name_of(message));
  const auto import_subgraph = [&](const onnx::GraphProto& graph, const std::vector<value>& given) {
    scope_.budget().take_values(given.size());
    visible_values inner{
        .outer = &visible, .attributes = visible.attributes, .opsets = visible.opsets};
    if (static_cast<std::size_t>(graph.input_size()) != given.size()) {
      throw error(errc::invalid_argument, "a graph with another number of inputs");
    }
    for (int i = 0; i < graph.input_size(); ++i) {
      inner.values.insert_or_assign(graph.input(i).name(), given[static_cast<std::size_t>(i)]);
    }
    // The turns of a loop have values of the same types.
    auto outputs = import_graph(graph, inner);
    for (auto& output : outputs) output = precision_.restore(output);
    return outputs;
  };
  const auto types = precision_.convert(message.op_type(), inputs.values);
  auto outputs =
      entry.import(node(scope_, message, std::move(attributes), std::move(inputs.values), opset,
                        input_names_, file_, import_subgraph, precision_.math(message.op_type())));
  precision_.record(types, outputs);
  return outputs;
}

std::optional<results> graph_import::fold(const operator_entry& entry,
                                          const onnx::NodeProto& message,
                                          const attribute_map& attributes,
                                          const std::vector<std::optional<value>>& inputs,
                                          std::int64_t opset) {
  if (entry.folding == folding::never || file_.states_steps()) return std::nullopt;
  step_scope scope(scope_.budget());
  std::size_t bytes = 0;
  std::vector<std::optional<value>> known(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i]) continue;
    if (!inputs[i]->known()) return std::nullopt;
    bytes += inputs[i]->known().bytes();
    known[i].emplace(scope, inputs[i]->known());
  }
  if (bytes > import_budget::max_bytes_of_node) return std::nullopt;
  scope.name_steps(message.op_type());
  const auto outputs = entry.import(
      node(scope, message, attributes, std::move(known), opset, input_names_, file_, {}));
  std::vector<value> computed;
  for (const auto& output : outputs) {
    if (output.known()) continue;
    bytes += output.layout().bytes();
    computed.push_back(output);
  }
  host_tensors elements;
  if (!computed.empty()) {
    if (!scope.budget().take_computation(bytes, scope.work())) return std::nullopt;
    for (auto& output : computed) output = scope.as_output(output);
    elements = file_.evaluation().run(scope.build(computed));
  }
  results folded;
  std::size_t number = 0;
  for (const auto& output : outputs) {
    folded.emplace_back(scope_, output.known() ? output.known() : elements[number++]);
  }
  return folded;
}

}  // namespace sluice::models
