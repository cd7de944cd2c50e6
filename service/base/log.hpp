// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <variant>

namespace sluice::service {

enum class log_level : std::uint8_t { info, warning, error };
enum class log_format : std::uint8_t { text, json };

/// A named value of an event.
struct log_field {
  std::string_view name{};
  std::variant<std::string_view, std::int64_t> value{};
};

/// The line of an event, with its line break: an object of JSON, or
///
///     sluiced: worker ended, worker=712 how="killed by signal 9 (Killed)"
///
/// Both are printable ASCII, whatever the values have.
/// @param event  the same text for all events of a kind
[[nodiscard]] std::string log_line(log_format format, std::chrono::system_clock::time_point time,
                                   log_level level, std::string_view event,
                                   std::initializer_list<log_field> fields);

/// Writes an event to standard error, as one line. Any thread may call it. Does not wait for a
/// reader of a pipe: the line is lost if the pipe is full, and a later line states how many were.
void write_log(log_level level, std::string_view event,
               std::initializer_list<log_field> fields) noexcept;
/// Sets the format of later lines of `write_log`.
void set_log_format(log_format format) noexcept;

}  // namespace sluice::service
