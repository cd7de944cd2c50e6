// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/enqueue_time.hpp"
#include "tools/sluice/bench/paired_rounds.hpp"
#include "tools/sluice/bench/random_operands.hpp"

#include <sluice/runtime/memory_adaptors.hpp>
#include <sluice/runtime/memory_guard.hpp>
#include <sluice/runtime/memory_log.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <utility>
#include <vector>

namespace sluice::cli {
namespace {

void allocate_by_driver(stream_ref stream, std::size_t bytes) {
  auto& device = stream.device();
  device.deallocate_async(device.allocate_async(bytes, stream.native()), stream.native());
}

/// Blocks of eight sizes by all threads together.
void measure_sizes(bench_run& run) {
  static constexpr std::array<std::size_t, 8> sizes{256,  1 << 20, 4096,  65536,
                                                    1000, 300'000, 16384, 30'000};
  auto& runtime = run.runtime();
  // `pair(stream, bytes)` by threads with a stream each.
  const auto by_threads = [&](std::size_t threads, const auto& pair) {
    return [&runtime, threads, pair](std::int64_t n) {
      on_threads(threads, [&, share = n / static_cast<std::int64_t>(threads)](std::size_t t) {
        runtime.device().prepare_own_thread();
        use_all_processors();  // a stream of the host device has a thread
        const auto stream = runtime.create_stream();
        const pinned_client here(t);
        for (std::int64_t i = 0; i < share; ++i) {
          pair(stream.ref(), sizes[static_cast<std::size_t>(i) % sizes.size()]);
        }
        stream.synchronize();
      });
    };
  };
  paired_rounds ways(run, "allocations", "pairs of an allocation and its release", shown_times);
  for (const std::size_t threads : {1, 4}) {
    const auto driver = ways.add_reference(fmt::format("calls of the driver, threads: {}", threads),
                                           by_threads(threads, allocate_by_driver));
    ways.add(fmt::format("blocks of the runtime, threads: {}", threads),
             by_threads(threads,
                        [&runtime](stream_ref stream, std::size_t bytes) {
                          (void)runtime.allocate_bytes(bytes, stream);
                        }),
             driver);
  }
  ways.measure();
}

/// A runtime with a stack of memory resources.
struct stack {
  stack(bench_run& run, const char* stack_name, std::unique_ptr<memory_resource> resource)
      : name(stack_name),
        runtime(open_device(run.current.device_name()), {.resource = std::move(resource)}),
        streams(several(bench_clients, [&] { return runtime.create_stream(); })) {}

  const char* name;
  device_runtime runtime;
  std::vector<stream> streams;
};

std::deque<stack> make_stacks(bench_run& run) {
  std::deque<stack> all;
  const auto add = [&](const char* name, std::unique_ptr<memory_resource> resource) {
    all.emplace_back(run, name, std::move(resource));
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
  return all;
}

/// Blocks of 4 KiB for the calling thread, from each stack.
void measure_resources(bench_run& run) {
  constexpr std::size_t bytes = 4096;
  auto stacks = make_stacks(run);
  paired_rounds ways(run, "resources", "pairs of an allocation of 4 KiB and its release",
                     shown_times);
  for (const std::size_t threads : {std::size_t{1}, bench_clients}) {
    // `pair(stream)` on the streams of a stack.
    const auto by_threads = [&](const stack& used, const auto& pair) {
      return [&streams = used.streams, threads, pair](std::int64_t n) {
        return enqueue_time_of_threads(streams, threads, n,
                                       [&](std::size_t t, std::size_t) { pair(streams[t].ref()); });
      };
    };
    const auto driver = ways.add_reference(
        fmt::format("calls of the driver, threads: {}", threads),
        by_threads(stacks.front(), [](stream_ref stream) { allocate_by_driver(stream, bytes); }));
    for (auto& used : stacks) {
      ways.add(fmt::format("{}, threads: {}", used.name, threads),
               by_threads(used,
                          [&runtime = used.runtime](stream_ref stream) {
                            (void)runtime.allocate_bytes(bytes, stream, "bench");
                          }),
               driver);
    }
  }
  ways.measure();
}

}  // namespace

void bench_memory(bench_run& run) {
  measure_sizes(run);
  measure_resources(run);
  run.report.set_library("calls of the driver");
}

}  // namespace sluice::cli
