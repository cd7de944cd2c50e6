// SPDX-License-Identifier: Apache-2.0
// The cost of one allocation and its free to the calling thread, for each stack of memory
// resources, and the cost of the device's own pair (`cudaMallocAsync` and `cudaFreeAsync`).
#include "benchmarks/support/batches.hpp"
#include "benchmarks/support/program.hpp"
#include "benchmarks/support/workbench.hpp"

#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_guard.hpp>
#include <sluice/runtime/memory_log.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <benchmark/benchmark.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace sluice::bench {
namespace {

struct stack {
  const char* name;
  workbench::make_resource make;
  bool allocates_nothing = false;  // promises no heap allocation in the steady state of one thread
};

constexpr stack stacks[] = {
    {"async",
     [] {
       return make_async_resource();
     }},
    {"direct_tracked",
     [] {
       return make_direct_resource({.tracked = true});
     }},
    {"pool_async", [] { return make_pool_resource(make_async_resource()); }, true},
    {"default", [] { return make_default_resource(); }, true},
    {"pool_direct", [] { return make_pool_resource(make_direct_resource({.tracked = true})); },
     true},
    {"statistics",
     [] {
       return make_statistics_resource(make_default_resource(),
                                       std::make_shared<memory_statistics>());
     },
     true},
    {"logging",
     [] {
       return make_logging_resource(make_default_resource(), std::make_shared<memory_log>());
     }},
    {"guard",
     [] {
       return make_guard_resource(make_default_resource());
     }},
};

/// Reports the heap allocations of one pair, including those of the host device.
void report(benchmark::State& state, const batch_totals& totals, bool promised) {
  state.counters["allocations"] = benchmark::Counter(
      static_cast<double>(totals.allocations) / static_cast<double>(totals.steps),
      benchmark::Counter::kAvgThreads);
  if (promised && totals.allocations != 0) {
    note_broken_promise(state, "a pair allocates heap memory");
  }
}

/// The reference for all stacks.
void bare_pair(benchmark::State& state, workbench& bench, meeting_point& together,
               std::size_t bytes) {
  const auto stream = bench.stream(state.thread_index());
  auto& device = bench.runtime().device();
  const auto totals = time_batches(
      state, together, stream, [] {},
      [&](std::size_t) {
        device.deallocate_async(device.allocate_async(bytes, stream.native()), stream.native());
      },
      [&] { stream.synchronize(); });
  report(state, totals, false);
}

/// Allocates a block and drops it at once.
void pair(benchmark::State& state, workbench& bench, meeting_point& together, std::size_t bytes,
          bool allocates_nothing) {
  const auto stream = bench.stream(state.thread_index());
  auto& runtime = bench.runtime();
  const auto totals = time_batches(
      state, together, stream, [] {},
      [&](std::size_t) { (void)runtime.allocate_bytes(bytes, stream, "benchmark"); },
      [&] { stream.synchronize(); });
  // With several threads memory moves between the lists of streams, and the lists grow.
  report(state, totals, allocates_nothing && state.threads() == 1);
}

std::string size_name(std::size_t bytes) {
  if (bytes >= 1 << 20) return std::to_string(bytes >> 20U) + "MiB";
  if (bytes >= 1 << 10) return std::to_string(bytes >> 10U) + "KiB";
  return std::to_string(bytes) + "B";
}

}  // namespace

std::shared_ptr<void> register_benchmarks(const std::string& device) {
  auto kept = std::make_shared<std::vector<std::shared_ptr<workbench>>>();
  const auto add = [&](const std::string& name, const std::shared_ptr<workbench>& bench, auto run) {
    for (const std::size_t bytes : {std::size_t{256}, std::size_t{4} << 10, std::size_t{1} << 20}) {
      for (const int threads : {1, 4}) {
        auto together = std::make_shared<meeting_point>();
        benchmark::RegisterBenchmark(
            (device + "/" + name + "/" + size_name(bytes)).c_str(),
            [=](benchmark::State& state) { run(state, *bench, *together, bytes); })
            ->UseManualTime()
            ->Threads(threads);
      }
    }
  };
  for (const auto& each : stacks) {
    kept->push_back(std::make_shared<workbench>(device, each.make));
    if (kept->size() == 1) add("bare", kept->back(), bare_pair);
    add(each.name, kept->back(),
        [allocates_nothing = each.allocates_nothing](auto& state, auto& bench, auto& together,
                                                     std::size_t bytes) {
          pair(state, bench, together, bytes, allocates_nothing);
        });
  }
  return kept;
}

}  // namespace sluice::bench
