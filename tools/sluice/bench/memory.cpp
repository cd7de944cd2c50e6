// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/bench.hpp"
#include "tools/sluice/bench/paired_rounds.hpp"
#include "tools/sluice/bench/processors.hpp"

#include <fmt/format.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace sluice::cli {
namespace {

// Of the blocks, in bytes.
constexpr std::array<std::size_t, 8> sizes{256, 1 << 20, 4096, 65536, 1000, 300'000, 16384, 30'000};

/// Calls `work(stream, n)` on threads with a stream each.
template <class Work>
void on_threads(device_runtime& runtime, std::size_t threads, std::int64_t n, const Work& work) {
  std::vector<std::thread> running;
  running.reserve(threads);
  for (std::size_t i = 0; i < threads; ++i) {
    running.emplace_back([&runtime, &work, i, share = n / static_cast<std::int64_t>(threads)] {
      runtime.device().prepare_own_thread();
      use_all_processors();  // a stream of the host device has a thread
      auto on = runtime.create_stream();
      const pinned_client here(i);
      work(on, share);
      on.synchronize();
    });
  }
  for (auto& each : running) each.join();
}

}  // namespace

bench_report bench_memory(session& current, const bench_settings& settings) {
  auto& runtime = current.device().service().runtime();
  paired_rounds all(settings);
  for (const std::size_t threads : {1, 4}) {
    const auto plain = all.add(
        fmt::format("calls of the driver, threads: {}", threads), [&, threads](std::int64_t n) {
          on_threads(runtime, threads, n, [&](stream& on, std::int64_t share) {
            auto* const native = on.ref().native();
            for (std::int64_t i = 0; i < share; ++i) {
              const auto bytes = sizes[static_cast<std::size_t>(i) % sizes.size()];
              runtime.device().deallocate_async(runtime.device().allocate_async(bytes, native),
                                                native);
            }
          });
        });
    all.refer(plain, plain);
    (void)all.add(
        fmt::format("blocks of the runtime, threads: {}", threads),
        [&, threads](std::int64_t n) {
          on_threads(runtime, threads, n, [&](stream& on, std::int64_t share) {
            for (std::int64_t i = 0; i < share; ++i) {
              const auto bytes = sizes[static_cast<std::size_t>(i) % sizes.size()];
              (void)runtime.allocate_bytes(bytes, on.ref());
            }
          });
        },
        plain);
  }
  all.measure();
  return {.library = "calls of the driver",
          .json = {{"allocations", all.json()}},
          .table = "Pairs of an allocation and its release\n" + all.table_of_times()};
}

}  // namespace sluice::cli
