// SPDX-License-Identifier: Apache-2.0
#include "service/base/log.hpp"

#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <ctime>
#include <exception>
#include <mutex>
#include <poll.h>
#include <unistd.h>
#include <utility>

namespace sluice::service {
namespace {

std::atomic<log_format> format_of_log{log_format::text};
std::mutex output_mutex;
std::int64_t lost_lines = 0;  // guarded by output_mutex

[[nodiscard]] const char* name_of(log_level level) noexcept {
  switch (level) {
    case log_level::info:
      return "info";
    case log_level::warning:
      return "warning";
    case log_level::error:
      return "error";
  }
  return "error";
}

/// For example 2026-02-28T23:59:59.999Z.
[[nodiscard]] std::string utc_text(std::chrono::system_clock::time_point time) {
  const auto ms = std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
  const auto seconds = static_cast<std::time_t>(ms / 1000);
  std::tm parts{};
  (void)::gmtime_r(&seconds, &parts);
  std::array<char, 32> text{};
  const auto size = std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%S.", &parts);
  const auto fraction = std::to_string(1000 + ms % 1000);
  return std::string(text.data(), size) + fraction.substr(1) + "Z";
}

[[nodiscard]] nlohmann::json json_of(const log_field& field) {
  if (const auto* const number = std::get_if<std::int64_t>(&field.value)) return *number;
  return std::string(std::get<std::string_view>(field.value));
}

template <class Json>
[[nodiscard]] std::string ascii_dump(const Json& value) {
  auto text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  // JSON leaves this control character as it is.
  for (auto at = text.find('\x7f'); at != std::string::npos; at = text.find('\x7f', at)) {
    text.replace(at, 1, "\\u007f");
  }
  return text;
}

/// A string without quotes if it consists of characters that need none.
[[nodiscard]] std::string text_of(const log_field& field) {
  auto text = ascii_dump(json_of(field));
  constexpr std::string_view plain =
      "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/";
  const bool is_quoted = text.size() > 2 && text.front() == '"';
  if (is_quoted && text.find_first_not_of(plain, 1) == text.size() - 1) {
    return text.substr(1, text.size() - 2);
  }
  return text;
}

}  // namespace

std::string log_line(log_format format, std::chrono::system_clock::time_point time, log_level level,
                     std::string_view event, std::initializer_list<log_field> fields) {
  if (format == log_format::json) {
    nlohmann::ordered_json line{
        {"time", utc_text(time)}, {"level", name_of(level)}, {"event", event}};
    for (const auto& field : fields) line[std::string(field.name)] = json_of(field);
    return ascii_dump(line) + '\n';
  }
  std::string line = "sluiced: " + std::string(event);
  const char* separator = ", ";
  for (const auto& field : fields) {
    line += std::exchange(separator, " ") + std::string(field.name) + '=' + text_of(field);
  }
  return line + '\n';
}

void write_log(log_level level, std::string_view event,
               std::initializer_list<log_field> fields) noexcept {
  try {
    // A thread that serves clients does not wait for the reader of the log.
    const std::lock_guard lock(output_mutex);
    pollfd output{STDERR_FILENO, POLLOUT, 0};
    if (::poll(&output, 1, 0) == 0) {
      ++lost_lines;
      return;
    }
    auto line = log_line(format_of_log, std::chrono::system_clock::now(), level, event, fields);
    if (const auto lost = std::exchange(lost_lines, 0); lost > 0) {
      line += log_line(format_of_log, std::chrono::system_clock::now(), log_level::warning,
                       "lines of the log were lost, because nobody read them", {{"lines", lost}});
    }
    std::string_view rest = line;
    while (!rest.empty()) {
      const auto written = ::write(STDERR_FILENO, rest.data(), rest.size());
      if (written < 0 && errno != EINTR) return;
      rest.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
    }
  } catch (const std::exception&) {
    // Without memory the event is lost.
  }
}

void set_log_format(log_format format) noexcept {
  format_of_log = format;
}

}  // namespace sluice::service
