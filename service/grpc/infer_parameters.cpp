// SPDX-License-Identifier: Apache-2.0
#include "service/grpc/infer_parameters.hpp"

#include "service/protocol/quoted_name.hpp"
#include "service/protocol/request_error.hpp"

#include <bit>

namespace sluice::service {
namespace {

[[nodiscard]] infer_value read_value(wire_reader message) {
  infer_value value;
  while (message.next()) {
    if (message.is(1, wire_type::varint)) {
      value = message.varint() != 0;
    } else if (message.is(2, wire_type::varint)) {
      value = static_cast<std::int64_t>(message.varint());
    } else if (message.is(3, wire_type::bytes)) {
      value = message.text();
    } else if (message.is(4, wire_type::fixed64)) {
      value = std::bit_cast<double>(message.fixed64());
    } else if (message.is(5, wire_type::varint)) {
      value = message.varint();
    } else {
      message.skip();
    }
  }
  return value;
}

[[noreturn]] void refuse_value(const std::string& name, const char* expected) {
  throw request_error(request_status::invalid_argument,
                      "parameter " + quoted_name(name) + " must be " + expected);
}

}  // namespace

bool infer_parameter::boolean() const {
  const auto* boolean = std::get_if<bool>(&value);
  if (boolean == nullptr) refuse_value(name, "a bool_param");
  return *boolean;
}

std::uint64_t infer_parameter::count() const {
  if (const auto* number = std::get_if<std::uint64_t>(&value)) return *number;
  const auto* number = std::get_if<std::int64_t>(&value);
  if (number == nullptr || *number < 0) refuse_value(name, "an integer from 0 to 2^64 - 1");
  return static_cast<std::uint64_t>(*number);
}

std::string infer_parameter::identifier() const {
  if (const auto* text = std::get_if<std::string>(&value)) return *text;
  const auto number = count();
  return number == 0 ? std::string() : std::to_string(number);
}

const std::string& infer_parameter::text() const {
  const auto* text = std::get_if<std::string>(&value);
  if (text == nullptr) refuse_value(name, "a string_param");
  return *text;
}

void region_parameters::take(const infer_parameter& parameter) {
  if (parameter.name == "shared_memory_region") {
    name_ = parameter.text();
  } else if (parameter.name == "shared_memory_offset") {
    offset_ = parameter.count();
  } else if (parameter.name == "shared_memory_byte_size") {
    bytes_ = parameter.count();
  }
}

std::optional<tensor_region> region_parameters::region(const std::string& subject) const {
  if (!name_ && !offset_ && !bytes_) return std::nullopt;
  if (!name_ || !bytes_) {
    throw request_error(
        request_status::invalid_argument,
        subject + (name_ ? ": shared_memory_byte_size is missing"
                         : ": shared_memory_offset and shared_memory_byte_size need a "
                           "shared_memory_region"));
  }
  return tensor_region{.name = *name_, .offset = offset_.value_or(0), .bytes = *bytes_};
}

infer_parameter read_parameter(wire_reader entry) {
  infer_parameter parameter;
  while (entry.next()) {
    if (entry.is(1, wire_type::bytes)) {
      parameter.name = entry.text();
    } else if (entry.is(2, wire_type::bytes)) {
      parameter.value = read_value(entry.bytes());
    } else {
      entry.skip();
    }
  }
  return parameter;
}

}  // namespace sluice::service
