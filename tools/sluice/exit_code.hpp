// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>

#include <string>
#include <string_view>

namespace sluice::cli {

/// The exit codes other than 0.
enum exit_status : int {
  failed = 1,   ///< a device, a library, the disk or a check of `demo` failed
  refused = 2,  ///< an argument or input file is wrong, or exceeds what the machine can do
};

/// The exit status for `e`: `refused` for `invalid_argument`, `unsupported`, `out_of_memory` and
/// `over_budget`, `failed` for every other code.
[[nodiscard]] exit_status exit_code(const error& e) noexcept;

/// The line for standard error: "sluice gemm: A.npy: ...". `command` may be empty. Control
/// characters become "?".
[[nodiscard]] std::string error_line(std::string_view command, std::string_view text);

}  // namespace sluice::cli
