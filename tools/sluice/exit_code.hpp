#pragma once

#include <sluice/runtime/error.hpp>

#include <string>
#include <string_view>

namespace sluice::cli {

/// How the program ends: 0 for success.
enum exit_status : int {
  failed = 1,   ///< the device or the disk failed, or a check of `demo` did not hold
  refused = 2,  ///< the command line or a file is at fault, or what it asks for cannot be done here
};

/// The exit status for `e`: `refused` for what lies in the request (`invalid_argument`,
/// `unsupported`, `out_of_memory`, `over_budget`), `failed` for all else.
[[nodiscard]] exit_status exit_code(const error& e) noexcept;

/// The line on standard error: "sluice gemm: A.npy: ...". `command` may be empty. What would break
/// the line is replaced by "?".
[[nodiscard]] std::string error_line(std::string_view command, std::string_view text);

}  // namespace sluice::cli
