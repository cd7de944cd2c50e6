// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "models/messages.hpp"

#include <sluice/models/model.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::test {

/// Writes the attributes of a node.
class onnx_node {
 public:
  explicit onnx_node(onnx::NodeProto& message) : message_(message) {}

  onnx_node& with(const std::string& name, std::int64_t number) {
    auto& attribute = add(name, onnx::AttributeProto::INT);
    attribute.set_i(number);
    return *this;
  }
  onnx_node& with(const std::string& name, int number) { return with(name, std::int64_t{number}); }
  onnx_node& with(const std::string& name, double number) {
    add(name, onnx::AttributeProto::FLOAT).set_f(static_cast<float>(number));
    return *this;
  }
  onnx_node& with(const std::string& name, const char* text) {
    add(name, onnx::AttributeProto::STRING).set_s(text);
    return *this;
  }
  onnx_node& with(const std::string& name, const std::vector<std::int64_t>& numbers) {
    auto& attribute = add(name, onnx::AttributeProto::INTS);
    for (const auto number : numbers) attribute.add_ints(number);
    return *this;
  }
  onnx_node& with(const std::string& name, const onnx::GraphProto& graph) {
    *add(name, onnx::AttributeProto::GRAPH).mutable_g() = graph;
    return *this;
  }
  onnx_node& with(const std::string& name, const onnx::TensorProto& tensor) {
    *add(name, onnx::AttributeProto::TENSOR).mutable_t() = tensor;
    return *this;
  }
  /// An attribute that a function has.
  onnx_node& with_reference(const std::string& name, const std::string& of_function,
                            onnx::AttributeProto::AttributeType type) {
    add(name, type).set_ref_attr_name(of_function);
    return *this;
  }

 private:
  onnx::AttributeProto& add(const std::string& name, onnx::AttributeProto::AttributeType type) {
    auto& attribute = *message_.add_attribute();
    attribute.set_name(name);
    attribute.set_type(type);
    return attribute;
  }
  onnx::NodeProto& message_;
};

using onnx_names = std::initializer_list<const char*>;

/// Adds a node to a graph or a function.
template <class Graph>
onnx_node add_node(Graph& graph, const char* op_type, onnx_names inputs, onnx_names outputs) {
  auto& message = *graph.add_node();
  message.set_op_type(op_type);
  for (const auto* name : inputs) message.add_input(name);
  for (const auto* name : outputs) message.add_output(name);
  return onnx_node(message);
}

/// Writes a model with one graph.
class onnx_graph {
 public:
  explicit onnx_graph(std::int64_t opset = 17) {
    message_.set_ir_version(8);
    message_.add_opset_import()->set_version(opset);
    graph().set_name("test");
  }

  [[nodiscard]] onnx::ModelProto& message() { return message_; }
  [[nodiscard]] onnx::GraphProto& graph() { return *message_.mutable_graph(); }

  /// An input of f32 or another type; without `shape` of any shape.
  onnx_graph& input(const char* name, onnx::TensorProto::DataType type = onnx::TensorProto::FLOAT) {
    declare(*graph().add_input(), name, type);
    return *this;
  }
  /// Extents of -1 are free, and all the same in a model. Extents of -2 are free.
  onnx_graph& input(const char* name, const std::vector<std::int64_t>& shape) {
    declare_shape(*graph().add_input(), name, shape);
    return *this;
  }
  onnx_graph& output(const char* name) {
    graph().add_output()->set_name(name);
    return *this;
  }
  /// Likewise.
  onnx_graph& output(const char* name, const std::vector<std::int64_t>& shape) {
    declare_shape(*graph().add_output(), name, shape);
    return *this;
  }
  onnx_node node(const char* op_type, onnx_names inputs, onnx_names outputs) {
    return add_node(graph(), op_type, inputs, outputs);
  }
  onnx_graph& constant(const char* name, const std::vector<float>& values,
                       const std::vector<std::int64_t>& shape) {
    auto& tensor = start_constant(name, onnx::TensorProto::FLOAT, shape);
    for (const auto value : values) tensor.add_float_data(value);
    return *this;
  }
  onnx_graph& constant(const char* name, const std::vector<std::int64_t>& values) {
    auto& tensor =
        start_constant(name, onnx::TensorProto::INT64, {static_cast<std::int64_t>(values.size())});
    for (const auto value : values) tensor.add_int64_data(value);
    return *this;
  }
  onnx_graph& number(const char* name, std::int64_t value) {
    start_constant(name, onnx::TensorProto::INT64, {}).add_int64_data(value);
    return *this;
  }

  /// The contents of the file.
  [[nodiscard]] std::string bytes() const { return message_.SerializeAsString(); }
  [[nodiscard]] model make() const {
    const auto file = bytes();
    return model::parse(std::as_bytes(std::span(file.data(), file.size())), "test.onnx");
  }

 private:
  static void declare(onnx::ValueInfoProto& value, const char* name,
                      onnx::TensorProto::DataType type) {
    value.set_name(name);
    value.mutable_type()->mutable_tensor_type()->set_elem_type(type);
  }
  static void declare_shape(onnx::ValueInfoProto& value, const char* name,
                            const std::vector<std::int64_t>& shape) {
    declare(value, name, onnx::TensorProto::FLOAT);
    auto& declared = *value.mutable_type()->mutable_tensor_type()->mutable_shape();
    for (const auto extent : shape) {
      auto& dimension = *declared.add_dim();
      if (extent >= 0) {
        dimension.set_dim_value(extent);
      } else if (extent == -1) {
        dimension.set_dim_param("n");
      }
    }
  }
  onnx::TensorProto& start_constant(const char* name, onnx::TensorProto::DataType type,
                                    const std::vector<std::int64_t>& shape) {
    auto& tensor = *graph().add_initializer();
    tensor.set_name(name);
    tensor.set_data_type(type);
    for (const auto extent : shape) tensor.add_dims(extent);
    return tensor;
  }
  onnx::ModelProto message_;
};

}  // namespace sluice::test
