// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/timeline_picture.hpp"

#include <string_view>

namespace sluice::cli {

/// Some launches of a trace, by their streams, with the steps of programs below them.
///
/// `json` is that of a `chrome_trace`. The view has up to 8 launches, from the first of the
/// largest batches on; without a batch it has the last ones of the trace. Members of a batch that
/// share their times are one box.
/// @throws error `invalid_argument` if the trace has no launch
[[nodiscard]] io::timeline_view trace_part(std::string_view json);

}  // namespace sluice::cli
