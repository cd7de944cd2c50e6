// SPDX-License-Identifier: Apache-2.0
#include "tests/models/node_text.hpp"

#include <cctype>
#include <cstdlib>
#include <sstream>

namespace sluice::test {
namespace {

std::vector<std::int64_t> integers_in(const std::string& text) {
  std::vector<std::int64_t> integers;
  std::istringstream list(text);
  for (std::string item; std::getline(list, item, ',');) {
    integers.push_back(std::strtoll(item.c_str(), nullptr, 10));
  }
  return integers;
}
bool is_number(const std::string& text) {
  return std::isdigit(static_cast<unsigned char>(text.back())) != 0 &&
         (std::isdigit(static_cast<unsigned char>(text.front())) != 0 || text.front() == '-');
}

void add_attribute(onnx_node& node, const std::string& text) {
  const auto name = text.substr(0, text.find('='));
  const auto value = text.substr(name.size() + 1);
  if (value.find('.') != std::string::npos) {
    node.with(name, std::strtod(value.c_str(), nullptr));
  } else if (value.front() == '[') {
    node.with(name, integers_in(value.substr(1, value.size() - 2)));
  } else {
    node.with(name, std::int64_t{std::strtoll(value.c_str(), nullptr, 10)});
  }
}

/// Adds an argument that is no name. Returns its name.
std::string add_argument(onnx_graph& graph, const std::string& text, element_type type) {
  const auto name = "#" + std::to_string(graph.graph().initializer_size()) + " " + text;
  if (text.front() == '[') {
    graph.constant(name.c_str(), integers_in(text.substr(1, text.size() - 2)));
    return name;
  }
  auto& tensor = *graph.graph().add_initializer();
  tensor.set_name(name + " f64");
  tensor.set_data_type(onnx::TensorProto::DOUBLE);
  tensor.add_double_data(std::strtod(text.c_str(), nullptr));
  graph.node("Cast", {tensor.name().c_str()}, {name.c_str()}).with("to", onnx_type(type));
  return name;
}

}  // namespace

std::int64_t onnx_type(element_type type) {
  switch (type) {
    case element_type::f16:
      return onnx::TensorProto::FLOAT16;
    case element_type::bf16:
      return onnx::TensorProto::BFLOAT16;
    case element_type::f64:
      return onnx::TensorProto::DOUBLE;
    default:
      return onnx::TensorProto::FLOAT;
  }
}

std::vector<node_text> parse_nodes(std::string_view text) {
  std::vector<node_text> nodes;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    node_text node;
    std::string word;
    if (!(words >> node.output >> word >> node.op_type)) continue;
    while (words >> word) {
      const bool is_attribute = word.find('=') != std::string::npos;
      (is_attribute ? node.attributes : node.arguments).push_back(word);
    }
    nodes.push_back(std::move(node));
  }
  return nodes;
}

void add_nodes(onnx_graph& graph, const std::vector<node_text>& nodes, element_type type) {
  for (const auto& node : nodes) {
    std::vector<std::string> arguments;
    for (const auto& argument : node.arguments) {
      const bool is_name = argument.front() != '[' && !is_number(argument);
      arguments.push_back(is_name ? argument : add_argument(graph, argument, type));
    }
    auto& message = *graph.graph().add_node();
    message.set_op_type(node.op_type);
    message.add_output(node.output);
    for (const auto& argument : arguments) message.add_input(argument);
    onnx_node written(message);
    for (const auto& attribute : node.attributes) add_attribute(written, attribute);
  }
}

}  // namespace sluice::test
