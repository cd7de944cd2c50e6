// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <string>

namespace sluice::bench {

/// Registers the benchmarks of the device called `device`, under names that begin with it. Each
/// program defines this function. The caller keeps the returned object until all benchmarks have
/// run. The function does not use the device itself.
[[nodiscard]] std::shared_ptr<void> register_benchmarks(const std::string& device);

/// Labels the figures of a benchmark with the promise that it broke. The program then ends with
/// exit code 1.
void note_broken_promise(benchmark::State& state, const char* what);

}  // namespace sluice::bench
