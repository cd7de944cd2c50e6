// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

namespace sluice {

/// A failure or a misuse that has no caller to receive it.
///
/// Examples are memory that could not be freed, and an error in answer to a message without a
/// requester.
struct report_message {
  std::string_view text;    ///< one line without a line break; valid during the call
  std::uint64_t count = 1;  ///< number of equal reports that the message stands for
};

/// A function that takes reports; see `set_report_handler`.
using report_handler = std::function<void(const report_message&)>;

/// Sends reports to `handler` instead of standard error. An empty handler restores standard error.
///
///     set_report_handler([](const report_message& m) {
///       my_log.warn("{} ({}x)", m.text, m.count);
///     });
///
/// *Threads.* A thread of the runtime calls the handler, one call at a time. That thread blocks all
/// signals. The reporting thread never waits for the handler or for standard error.
///
/// *Repetitions.* The first report of a text is delivered at once. Equal reports that follow within
/// a second are delivered as one message with their number. The interval doubles while a text is
/// repeated, up to 64 seconds. At most 64 different texts wait for delivery. Further ones are
/// dropped, and a message states their number. A new handler receives the first report of each text
/// again.
///
/// *Replacement.* The function waits for a running call of the previous handler, unless that call
/// made it. After the return, the previous handler is not running and will not be called again.
/// Messages that have not been delivered go to the new handler.
///
/// *Exceptions* that leave a handler are ignored.
///
/// *Exit.* When the process exits, the runtime waits at most a second for the delivery of reports.
/// The handler and everything that it uses must outlive `main`, or be replaced before it ends. A
/// child made by `fork` keeps the handler and inherits no reports.
///
/// Thread-safe.
/// @throws std::bad_alloc if the host has no memory
SLUICE_EXPORT void set_report_handler(report_handler handler);

/// The number of reports of this process, by outcome.
struct report_statistics {
  std::uint64_t reported = 0;   ///< reports made
  std::uint64_t delivered = 0;  ///< reports written to standard error or passed to a handler
  std::uint64_t dropped = 0;    ///< reports dropped because too many different ones were waiting
};

/// The counts of all reports so far. Thread-safe. The three numbers are not read at one instant.
[[nodiscard]] SLUICE_EXPORT report_statistics report_counts() noexcept;

/// Waits until every earlier report has been delivered, including repeated texts. Returns whether
/// they have been.
///
/// It waits for about `timeout` at most. Called by a handler, it returns false. Thread-safe.
SLUICE_EXPORT bool flush_reports(std::chrono::nanoseconds timeout) noexcept;

}  // namespace sluice
