// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

namespace sluice {

/// A report: a failure or a misuse that the runtime cannot tell any caller about, such as memory
/// that could not be freed or an error in the answer to a message without a requester.
struct report_message {
  std::string_view text;    ///< one line, without a line break; valid during the call
  std::uint64_t count = 1;  ///< how many equal reports it stands for
};

/// A function that takes reports; see `set_report_handler`.
using report_handler = std::function<void(const report_message&)>;

/// Sends reports to `handler` instead of standard error. An empty handler restores standard error.
///
///     set_report_handler([](const report_message& m) { my_log.warn("{} ({}x)", m.text, m.count);
///     });
///
/// A thread of the runtime's calls the handler, one call at a time. That thread blocks all signals.
/// The thread that reports never waits for the handler or for standard error.
///
/// The first report of a text is delivered at once. Equal reports that follow within a second are
/// delivered together, as one message with their number. The interval doubles while a text is
/// repeated, up to 64 seconds. At most 64 different texts wait to be delivered. Further ones are
/// dropped, and a message says how many. A new handler receives the first report of each text
/// again.
///
/// When the function returns, the previous handler is not running and will not be called again. It
/// waits for a call that is running, except when that call made it. Messages that nobody has
/// received yet go to the new handler. Exceptions that leave a handler are ignored.
///
/// When the process exits, the runtime waits up to a second for reports to be delivered. The
/// handler and everything that it uses must therefore outlive `main`, or be replaced before. A
/// child made by `fork` keeps the handler and inherits no reports.
///
/// Thread-safe. @throws std::bad_alloc
void set_report_handler(report_handler handler);

/// What became of all reports of this process.
struct report_statistics {
  std::uint64_t reported = 0;   ///< reports made
  std::uint64_t delivered = 0;  ///< reports written to standard error or passed to a handler
  std::uint64_t dropped = 0;    ///< reports dropped because too many different ones were waiting
};

/// Thread-safe. The three numbers are not read at one instant.
[[nodiscard]] report_statistics report_counts() noexcept;

/// Waits until everything that was reported before the call has been delivered, repeated texts
/// included, for about `longest` at most. Returns whether it has been. Returns false when called by
/// a handler. Thread-safe.
bool flush_reports(std::chrono::nanoseconds longest) noexcept;

}  // namespace sluice
