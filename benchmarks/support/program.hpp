#pragma once

#include <benchmark/benchmark.h>

#include <memory>
#include <string>

namespace sluice::bench {

/// Each program defines it: registers its benchmarks of the device called `device`, under names
/// that begin with it. What is returned is kept until all benchmarks have run. Nothing of the
/// device is touched before one of them runs.
[[nodiscard]] std::shared_ptr<void> register_benchmarks(const std::string& device);

/// Says beside a benchmark's figures which promise it did not keep; the program ends with exit code
/// 1.
void note_broken_promise(benchmark::State& state, const char* what);

}  // namespace sluice::bench
