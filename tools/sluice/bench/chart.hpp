// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/io/bar_chart.hpp"

#include <nlohmann/json.hpp>

namespace sluice::cli {

/// The rows of a report as bars; `report` is the JSON of a mode of `sluice bench`. A section, which
/// is an array of rows, becomes a panel with the time of each row and its speed relative to its
/// reference. The latencies of an object become a panel of times. The title is left empty.
[[nodiscard]] io::bar_chart chart_of(const nlohmann::ordered_json& report);

}  // namespace sluice::cli
