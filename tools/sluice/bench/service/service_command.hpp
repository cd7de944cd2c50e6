// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "tools/sluice/command.hpp"

namespace sluice::cli {

/// Adds `sluice bench service`, which measures a running service over its protocols. It opens no
/// device, so it takes none of the options of `sluice bench`.
void add_bench_service_command(CLI::App& bench);

}  // namespace sluice::cli
