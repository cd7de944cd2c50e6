// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace sluice::detail {

/// Reports `what` (and `why`, after a colon), as one line. See `set_report_handler`.
///
/// May be called by any thread, in any destructor and while the process exits. Never waits for the
/// line to be written and calls no `operator new`. It synchronizes with nothing that other threads
/// did, so that ThreadSanitizer still sees a missing fence between stream threads that report.
void report(std::string_view what, std::string_view why = {}) noexcept;

}  // namespace sluice::detail
