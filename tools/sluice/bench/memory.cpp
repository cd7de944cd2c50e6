// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/paired_rounds.hpp"

#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_guard.hpp>
#include <sluice/runtime/memory_log.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <fmt/format.h>

#include <deque>

namespace sluice::cli {
namespace {

void allocate_by_driver(stream_ref stream, std::size_t bytes) {
  auto& device = stream.device();
  device.deallocate_async(device.allocate_async(bytes, stream.native()), stream.native());
}

/// A runtime with a stack of memory resources, and a stream for each thread.
struct stack {
  stack(const char* stack_name, device_runtime& stack_runtime)
      : name(stack_name),
        runtime(stack_runtime),
        streams(several(bench_clients, [&] { return runtime.create_stream(); })) {}

  const char* name;
  device_runtime& runtime;
  std::vector<stream> streams;
};

/// Measures pairs of an allocation and its release from each of `stacks`, beside pairs of the
/// driver, with one thread and with four. The sizes in bytes take turns.
void measure_pairs(paired_rounds& ways, const std::vector<stack>& stacks,
                   const std::vector<std::size_t>& sizes) {
  for (const std::size_t threads : {std::size_t{1}, bench_clients}) {
    const auto by_threads = [&](const std::vector<stream>& streams, const auto& pair) {
      return [&streams, &sizes, threads, pair](std::int64_t n) {
        return enqueue_time_of_threads(streams, threads, n, [&](std::size_t t, std::size_t i) {
          pair(streams[t].ref(), sizes[i % sizes.size()]);
        });
      };
    };
    const auto driver = ways.add_reference(fmt::format("calls of the driver, threads: {}", threads),
                                           by_threads(stacks.front().streams, allocate_by_driver));
    for (const auto& stack : stacks) {
      ways.add(fmt::format("{}, threads: {}", stack.name, threads),
               by_threads(stack.streams,
                          [&runtime = stack.runtime](stream_ref stream, std::size_t bytes) {
                            (void)runtime.allocate_bytes(bytes, stream, "bench");
                          }),
               driver);
    }
  }
  ways.measure();
}

/// Blocks of eight sizes from the runtime of the service.
void measure_sizes(bench_run& run) {
  paired_rounds ways(run, "allocations", "pairs of an allocation and its release", shown_times);
  std::vector<stack> stacks;
  stacks.emplace_back("blocks of the runtime", run.runtime());
  measure_pairs(ways, stacks, {256, 1 << 20, 4096, 65536, 1000, 300'000, 16384, 30'000});
}

/// Blocks of 4 KiB from each stack.
void measure_resources(bench_run& run) {
  std::deque<device_runtime> runtimes;
  std::vector<stack> stacks;
  const auto add = [&](const char* name, std::unique_ptr<memory_resource> resource) {
    const auto device = open_device(run.current.device_name());
    stacks.emplace_back(
        name, runtimes.emplace_back(device, runtime_options{.resource = std::move(resource)}));
  };
  const auto statistics = std::make_shared<memory_statistics>();
  const auto log = std::make_shared<memory_log>();
  add("pool over async", make_pool_resource(make_async_resource()));
  add("default", make_default_resource());
  add("pool over direct", make_pool_resource(make_direct_resource({.tracked = true})));
  add("statistics over default", make_statistics_resource(make_default_resource(), statistics));
  add("logging over default", make_logging_resource(make_default_resource(), log));
  add("async", make_async_resource());
  add("direct, tracked", make_direct_resource({.tracked = true}));
  add("guard over default", make_guard_resource(make_default_resource()));

  paired_rounds ways(run, "resources", "pairs of an allocation of 4 KiB and its release",
                     shown_times);
  measure_pairs(ways, stacks, {4096});
}

}  // namespace

void bench_memory(bench_run& run) {
  measure_sizes(run);
  measure_resources(run);
  run.report.set_library("calls of the driver");
}

}  // namespace sluice::cli
