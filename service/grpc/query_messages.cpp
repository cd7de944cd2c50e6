// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/query_messages.hpp"

#include "service/grpc/wire_writer.hpp"
#include "service/protocol/request_error.hpp"

#include <vector>

namespace sluice::service {
namespace {

void append_tensors(std::string& message, std::uint32_t field,
                    const std::vector<tensor_metadata>& tensors) {
  for (const auto& tensor : tensors) {
    std::string text;
    append_text(text, 1, tensor.name);
    append_text(text, 2, to_string(tensor.type));
    std::string shape;
    for (const auto extent : tensor.shape) append_varint(shape, static_cast<std::uint64_t>(extent));
    append_text(text, 3, shape);
    append_bytes(message, field, text);
  }
}

}  // namespace

model_name read_optional_model_name(wire_reader message) {
  model_name model;
  while (message.next()) {
    if (message.is(1, wire_type::bytes)) {
      model.name = message.text();
    } else if (message.is(2, wire_type::bytes)) {
      model.version = message.text();
    } else {
      message.skip();
    }
  }
  return model;
}

model_name read_model_name(wire_reader message) {
  auto model = read_optional_model_name(message);
  if (model.name.empty()) {
    throw request_error(request_status::invalid_argument, "request: name is missing");
  }
  return model;
}

std::string ready_message(bool is_ready) {
  std::string message;
  append_number(message, 1, is_ready ? 1 : 0);
  return message;
}

std::string server_metadata_message(std::string_view name, std::string_view version,
                                    std::span<const std::string_view> extensions) {
  std::string message;
  append_text(message, 1, name);
  append_text(message, 2, version);
  for (const auto extension : extensions) append_text(message, 3, extension);
  return message;
}

std::string model_metadata_message(const model_metadata& model) {
  std::string message;
  append_text(message, 1, model.name);
  for (const auto& version : model.versions) append_text(message, 2, version);
  append_text(message, 3, model.platform);
  append_tensors(message, 4, model.inputs);
  append_tensors(message, 5, model.outputs);
  return message;
}

std::string read_service_name(wire_reader message) {
  std::string service;
  while (message.next()) {
    if (message.is(1, wire_type::bytes)) {
      service = message.text();
    } else {
      message.skip();
    }
  }
  return service;
}

std::string health_message(serving_status status) {
  std::string message;
  append_number(message, 1, static_cast<std::uint64_t>(status));
  return message;
}

}  // namespace sluice::service
