// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/source_location.hpp>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice {

/// What went wrong, in the terms a caller can act on. The numeric values are stable.
enum class errc : std::uint8_t {
  invalid_argument = 1,  ///< an argument is out of its range, or arguments do not fit each other
  stale_ref,             ///< a reference to memory that has been given back
  stream_misuse,    ///< the launch protocol was not followed, or memory that cannot be tracked was
                    ///< used
  out_of_memory,    ///< the device has no memory left; retryable
  over_budget,      ///< a configured memory limit would be exceeded; retryable
  unsupported,      ///< the device or its libraries cannot do this
  library_failure,  ///< a library call failed; `error::status` has the raw status
  upstream_failed,  ///< an earlier launch that this one depends on has failed
  deadline_exceeded,  ///< the request's deadline passed before it was launched
  cancelled,          ///< the request was dropped before it was answered
  overloaded,         ///< too many requests are waiting; retryable
  shutting_down,      ///< the runtime or the actor no longer takes work
  device_lost,        ///< the device is unusable for the rest of the process; also in a child of
                      ///< `fork()`, of anything that the parent made
};

/// The name of `code` as it is written in C++, for example "stale_ref". Never empty.
[[nodiscard]] std::string_view to_string(errc code) noexcept;

/// Whether the same request may succeed when it is repeated later without any change.
[[nodiscard]] constexpr bool is_retryable(errc code) noexcept {
  return code == errc::out_of_memory || code == errc::over_budget || code == errc::overloaded;
}

/// The raw status of the library call behind an error: the library's name ("cuBLAS") and its own
/// number. `library` refers to a string with static storage duration and is empty when no library
/// was involved.
struct library_status {
  std::string_view library{};  ///< the library's name
  long value = 0;              ///< the library's own number
  [[nodiscard]] bool operator==(const library_status&) const noexcept = default;
};

/// The exception of layers 1 and 2, and the value in which failures travel between threads. Copying
/// does not throw.
class error : public std::runtime_error {
 public:
  /// An error that no library status explains. `what` names the argument or the object concerned.
  error(errc code, const std::string& what, source_location where = source_location::current())
      : error(code, what, library_status{}, where) {}

  /// An error that came from a library call.
  error(errc code, const std::string& what, library_status status,
        source_location where = source_location::current())
      : std::runtime_error(what), code_(code), status_(status), where_(where) {}

  /// What kind of failure it is.
  [[nodiscard]] errc code() const noexcept { return code_; }
  /// The raw status of the library call behind the error, if there was one.
  [[nodiscard]] const library_status& status() const noexcept { return status_; }
  /// Where in sluice the error was raised.
  [[nodiscard]] const source_location& where() const noexcept { return where_; }

 private:
  errc code_;
  library_status status_;
  source_location where_;
};

/// The exception being handled as an `error`: itself, `out_of_memory` for `std::bad_alloc`, and
/// `library_failure` with the exception's text for anything else. Call it from inside a `catch`
/// block only.
[[nodiscard]] error current_error() noexcept;

}  // namespace sluice
