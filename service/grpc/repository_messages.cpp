// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/repository_messages.hpp"

#include "service/grpc/wire_writer.hpp"
#include "service/protocol/repository_parameters.hpp"
#include "service/protocol/request_error.hpp"

namespace sluice::service {
namespace {

[[noreturn]] void refuse_repository() {
  throw request_error(request_status::unimplemented,
                      "repository_name: the server has one repository, without a name");
}

/// A field `repository_name`, which must be empty.
void check_repository(wire_reader& message) {
  if (!message.text().empty()) refuse_repository();
}

/// An entry of the map of parameters.
struct repository_parameter {
  std::string name{};
  bool is_boolean = false;
};

[[nodiscard]] repository_parameter read_repository_parameter(wire_reader entry) {
  repository_parameter parameter;
  while (entry.next()) {
    if (entry.is(1, wire_type::bytes)) {
      parameter.name = entry.text();
    } else if (entry.is(2, wire_type::bytes)) {
      for (auto value = entry.bytes(); value.next(); value.skip()) {
        parameter.is_boolean = value.is(1, wire_type::varint);
      }
    } else {
      entry.skip();
    }
  }
  return parameter;
}

/// Reads a request with a model and parameters, each of which is passed to `check`.
template <class Check>
[[nodiscard]] std::string read_request(wire_reader message, Check check) {
  std::string model;
  while (message.next()) {
    if (message.is(1, wire_type::bytes)) {
      check_repository(message);
    } else if (message.is(2, wire_type::bytes)) {
      model = message.text();
    } else if (message.is(3, wire_type::bytes)) {
      check(read_repository_parameter(message.bytes()));
    } else {
      message.skip();
    }
  }
  if (model.empty()) {
    throw request_error(request_status::invalid_argument, "request: model_name is missing");
  }
  return model;
}

}  // namespace

bool read_index_request(wire_reader message) {
  bool only_ready = false;
  while (message.next()) {
    if (message.is(1, wire_type::bytes)) {
      check_repository(message);
    } else if (message.is(2, wire_type::varint)) {
      only_ready = message.varint() != 0;
    } else {
      message.skip();
    }
  }
  return only_ready;
}

std::string read_load_request(wire_reader message) {
  return read_request(message, [](const repository_parameter& parameter) {
    refuse_load_parameter(parameter.name);
  });
}

std::string read_unload_request(wire_reader message) {
  return read_request(message, [](const repository_parameter& parameter) {
    check_unload_parameter(parameter.name, parameter.is_boolean);
  });
}

std::string repository_index_message(std::span<const repository_entry> entries, bool only_ready) {
  std::string message;
  for (const auto& entry : entries) {
    if (only_ready && entry.state != serving_state::ready) continue;
    std::string text;
    append_text(text, 1, entry.model);
    append_text(text, 2, entry.version);
    append_text(text, 3, to_string(entry.state));
    append_text(text, 4, entry.reason);
    append_bytes(message, 1, text);
  }
  return message;
}

}  // namespace sluice::service
