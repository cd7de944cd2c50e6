// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

#include <string_view>

namespace sluice::detail {

/// Reports `subject`, and `reason` after a colon, as one line. See `set_report_handler`.
///
/// Callable from any thread, in any destructor, and while the process exits. Does not wait for
/// delivery, except while the process exits. Calls no `operator new`. Acquires nothing from other
/// threads, so it hides no missing wait between stream threads from ThreadSanitizer.
SLUICE_EXPORT void report(std::string_view subject, std::string_view reason = {}) noexcept;

}  // namespace sluice::detail
