// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace sluice::service {

/// The place of a request in a trace of its client.
struct trace_context {
  std::string trace{};      ///< 32 hexadecimal digits
  std::string span{};       ///< of the client, 16 hexadecimal digits
  bool is_sampled = false;  ///< whether the client keeps the trace
};

/// Reads the field `traceparent` of W3C Trace Context, also of versions later than 00. As that
/// standard asks, a malformed one counts as none.
[[nodiscard]] std::optional<trace_context> parse_trace_parent(std::string_view text);

}  // namespace sluice::service
