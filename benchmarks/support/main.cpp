// SPDX-License-Identifier: Apache-2.0
// The main function of all benchmark programs. It runs the benchmarks of every device of the
// machine.
#include "benchmarks/support/program.hpp"

#include <sluice/runtime/device.hpp>

#include <benchmark/benchmark.h>

#include <atomic>
#include <string>
#include <vector>

namespace sluice::bench {
namespace {

std::atomic<bool> promise_broken{false};

}  // namespace

void note_broken_promise(benchmark::State& state, const char* what) {
  promise_broken.store(true, std::memory_order_relaxed);
  state.SetLabel(std::string("BROKEN PROMISE: ") + what);
}

}  // namespace sluice::bench

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  std::vector<std::shared_ptr<void>> kept;
  for (const auto& info : sluice::list_devices()) {
    const auto name = to_string(info.id);
    benchmark::AddCustomContext(name, info.name);
    kept.push_back(sluice::bench::register_benchmarks(name));
  }
  const auto count = benchmark::RunSpecifiedBenchmarks();
  // The benchmarks refer to the objects in `kept`.
  benchmark::ClearRegisteredBenchmarks();
  kept.clear();
  benchmark::Shutdown();
  return count == 0 || sluice::bench::promise_broken ? 1 : 0;
}
