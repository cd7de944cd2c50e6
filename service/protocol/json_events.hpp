// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "service/protocol/request_error.hpp"

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace sluice::service {

/// A number with a fraction or an exponent, or an integer of more than 64 bits.
struct json_real {
  double value;              ///< the nearest one; finite
  const std::string* token;  ///< the number as it stands in the text
};

/// A scalar of a JSON text. It refers to memory of the parser. Integers are exact.
/// `std::int64_t` has those with a minus sign, also -0.
using json_scalar =
    std::variant<std::nullptr_t, bool, std::int64_t, std::uint64_t, json_real, std::string_view>;

/// The base of a handler of nlohmann's event parser. It passes on all kinds of scalars as one.
///
/// A `Reader` defines `scalar(const json_scalar&)`, `member(std::string_view)` for keys,
/// `begin_object()`, `end_of_object()`, `begin_array()`, `end_of_array()` and `subject()`, which
/// names what is being read. They throw to stop the parser.
template <class Reader>
class json_events {
 public:
  bool null() { return pass(nullptr); }
  bool boolean(bool value) { return pass(value); }
  bool number_integer(std::int64_t value) { return pass(value); }
  bool number_unsigned(std::uint64_t value) { return pass(value); }
  bool number_float(double value, const std::string& token) {
    return pass(json_real{.value = value, .token = &token});
  }
  bool string(const std::string& value) { return pass(std::string_view(value)); }
  bool binary(const nlohmann::json::binary_t& /*value*/) { return false; }  // not in JSON texts
  bool start_object(std::size_t /*elements*/) {
    reader().begin_object();
    return true;
  }
  bool key(const std::string& name) {
    reader().member(name);
    return true;
  }
  bool end_object() {
    reader().end_of_object();
    return true;
  }
  bool start_array(std::size_t /*elements*/) {
    reader().begin_array();
    return true;
  }
  bool end_array() {
    reader().end_of_array();
    return true;
  }
  [[noreturn]] bool parse_error(std::size_t position, const std::string& /*token*/,
                                const nlohmann::json::exception& cause) {
    constexpr int number_overflow = 406;
    throw request_error(
        request_status::invalid_argument,
        reader().subject() +
            (cause.id == number_overflow ? ": a number is too large" : ": malformed JSON") +
            " at byte " + std::to_string(position));
  }

 private:
  friend Reader;
  json_events() = default;

  Reader& reader() noexcept { return static_cast<Reader&>(*this); }
  bool pass(const json_scalar& value) {
    reader().scalar(value);
    return true;
  }
};

}  // namespace sluice::service
