// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/source_location.hpp>

#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

namespace sluice {

/// The kind of a failure. The numeric values are stable.
///
/// docs/concepts/failure_and_loss.md states the reaction to each code.
enum class errc : std::uint8_t {
  invalid_argument = 1,  ///< an argument is out of range, or arguments do not fit each other
  stale_ref,             ///< the memory of a reference has been freed
  stream_misuse,         ///< the launch protocol was not followed, or the memory cannot be tracked
  out_of_memory,         ///< the device has no memory left; retryable
  over_budget,           ///< a configured memory limit would be exceeded; retryable
  unsupported,           ///< the device or its libraries cannot do this
  library_failure,       ///< a library call or a task failed; `error::status` has the raw status
  upstream_failed,       ///< an earlier launch that this one depends on failed
  cancelled,             ///< the request was dropped before it was answered
  overloaded,            ///< a queue is full, or every stream of a pool is in use; retryable
  shutting_down,         ///< the runtime or the actor takes no more work
  device_lost,  ///< the device is unusable for the rest of the process; in a child of `fork()`,
                ///< also every object of the parent
  deadline_exceeded,  ///< the deadline of the request passed before its answer
};

/// The C++ name of `code`, for example "stale_ref". Never empty.
[[nodiscard]] SLUICE_EXPORT std::string_view to_string(errc code) noexcept;

/// Whether an unchanged request may succeed later.
[[nodiscard]] constexpr bool is_retryable(errc code) noexcept {
  return code == errc::out_of_memory || code == errc::over_budget || code == errc::overloaded;
}

/// The raw status of the library call that caused an error.
///
/// `library` refers to a string with static storage duration. It is empty if no library was
/// involved.
struct library_status {
  std::string_view library{};  ///< name of the library, for example "cuBLAS"
  long value = 0;              ///< status code of the library
  [[nodiscard]] bool operator==(const library_status&) const noexcept = default;
};

/// The exception type of sluice. Failures also travel between threads as values of this
/// type.
///
///     try {
///       enqueue_copy(y, stream, x);
///     } catch (const error& e) {
///       if (is_retryable(e.code())) retry_later();
///     }
///
/// Copying does not throw.
class SLUICE_EXPORT error : public std::runtime_error {
 public:
  /// Makes an error without a library status. `message` names the argument or the object concerned.
  error(errc code, const std::string& message,
        source_location location = source_location::current())
      : error(code, message, library_status{}, location) {}

  /// Makes an error that a library call caused.
  error(errc code, const std::string& message, library_status status,
        source_location location = source_location::current())
      : std::runtime_error(message), code_(code), status_(status), location_(location) {}

  /// The kind of the failure.
  [[nodiscard]] errc code() const noexcept { return code_; }
  /// The raw status of the library call; empty if there was none.
  [[nodiscard]] const library_status& status() const noexcept { return status_; }
  /// The place in sluice that made the error, for reports to the maintainers. For an exception of
  /// another type, the place that converted it.
  [[nodiscard]] const source_location& where() const noexcept { return location_; }

 private:
  errc code_;
  library_status status_;
  source_location location_;
};

/// Makes the error that the argument `name` is not valid: `invalid_argument` with the text
/// "name: what".
[[nodiscard]] SLUICE_EXPORT error
invalid_argument(std::string_view name, const std::string& message,
                 const source_location& location = source_location::current());

/// Converts the exception being handled into an `error`. Call it only inside a `catch` block.
///
/// An `error` is returned as it is. `std::bad_alloc` becomes `out_of_memory`. Any other exception
/// becomes `library_failure` with its text.
[[nodiscard]] SLUICE_EXPORT error current_error() noexcept;

namespace detail {

/// The error that `function` throws; nothing if it returns. For errors that are frequent: an
/// exception costs time for each function that it leaves, and again if it is rethrown.
template <class Function>
[[nodiscard]] std::optional<error> failure_of(const Function& function) noexcept {
  try {
    function();
    return std::nullopt;
  } catch (const error& failure) {
    return failure;
  } catch (...) {
    return current_error();
  }
}

}  // namespace detail

}  // namespace sluice
