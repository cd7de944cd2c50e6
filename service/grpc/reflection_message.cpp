// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/reflection_message.hpp"

#include "service/grpc/service_descriptors.hpp"
#include "service/grpc/wire_writer.hpp"
#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"

#include <grpcpp/support/status.h>

#include <cstdint>
#include <optional>
#include <span>

namespace sluice::service {
namespace {

constexpr std::uint64_t max_request_bytes = std::uint64_t{64} << 10U;

/// The number of the field that asks.
enum class question : std::uint32_t {
  none = 0,
  file_by_filename = 3,
  file_containing_symbol = 4,
  file_containing_extension = 5,
  all_extension_numbers_of_type = 6,
  list_services = 7,
};

void append_error(std::string& reply, grpc::StatusCode code, const std::string& text) {
  std::string error;
  append_number(error, 1, static_cast<std::uint64_t>(code));
  append_text(error, 2, text);
  append_bytes(reply, 7, error);
}

void append_missing(std::string& reply, const std::string& kind, const std::string& name) {
  append_error(reply, grpc::StatusCode::NOT_FOUND, "there is no " + kind + " " + quoted_name(name));
}

void append_file(std::string& reply, const std::optional<std::string>& file,
                 const std::string& kind, const std::string& name) {
  if (!file) return append_missing(reply, kind, name);
  std::string files;
  append_bytes(files, 1, *file);
  append_bytes(reply, 4, files);
}

void append_answer(std::string& reply, question kind, const std::string& name) {
  switch (kind) {
    case question::file_by_filename:
      return append_file(reply, descriptor_of_file(name), "file", name);
    case question::file_containing_symbol:
      return append_file(reply, descriptor_of_symbol(name), "symbol", name);
    case question::file_containing_extension:
      return append_missing(reply, "extension of", name);
    case question::all_extension_numbers_of_type: {
      if (!descriptor_of_symbol(name)) return append_missing(reply, "type", name);
      std::string numbers;
      append_text(numbers, 1, name);
      return append_bytes(reply, 5, numbers);
    }
    case question::list_services: {
      std::string list;
      for (const auto each : service_names()) {
        std::string service;
        append_text(service, 1, each);
        append_bytes(list, 1, service);
      }
      return append_bytes(reply, 6, list);
    }
    case question::none:
      break;
  }
  append_error(reply, grpc::StatusCode::INVALID_ARGUMENT, "the request asks for nothing");
}

/// The bytes of a request, which the reply repeats.
[[nodiscard]] std::string copy_of(wire_reader request) {
  if (request.size() > max_request_bytes) {
    throw request_error(
        request_status::too_large,
        "a request for reflection has more than " + std::to_string(max_request_bytes) + " bytes");
  }
  std::string bytes(request.size(), '\0');
  request.copy(std::as_writable_bytes(std::span(bytes)));
  return bytes;
}

/// The name of the type in `ExtensionRequest`.
[[nodiscard]] std::string read_extended_type(wire_reader message) {
  std::string name;
  while (message.next()) {
    if (message.is(1, wire_type::bytes)) {
      name = message.text();
    } else {
      message.skip();
    }
  }
  return name;
}

}  // namespace

std::string reflection_message(wire_reader request) {
  std::string host;
  std::string name;
  auto kind = question::none;
  const auto original = copy_of(request);
  while (request.next()) {
    const auto field = request.field();
    if (request.is(1, wire_type::bytes)) {
      host = request.text();
    } else if (request.type() == wire_type::bytes && field >= 3 && field <= 7) {
      kind = static_cast<question>(field);
      name = kind == question::file_containing_extension ? read_extended_type(request.bytes())
                                                         : request.text();
    } else {
      request.skip();
    }
  }
  std::string reply;
  append_text(reply, 1, host);
  append_bytes(reply, 2, original);
  append_answer(reply, kind, name);
  return reply;
}

}  // namespace sluice::service
