// SPDX-License-Identifier: Apache-2.0
// The cost of a launch to the calling thread: a recorder, preflight and commit with nothing between
// them. The reference is the bare record of an event, which every launch needs.
#include "benchmarks/support/batches.hpp"
#include "benchmarks/support/program.hpp"
#include "benchmarks/support/workbench.hpp"

#include <sluice/runtime/launch_recorder.hpp>

#include <benchmark/benchmark.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace sluice::bench {
namespace {

using block = gpu_ref<float>;
constexpr std::size_t block_size = 64;

std::vector<block> blocks_on(workbench& bench, stream_ref stream, std::size_t count) {
  std::vector<block> blocks;
  for (std::size_t i = 0; i < count; ++i)
    blocks.push_back(bench.runtime().allocate<float>(block_size, stream, "benchmark"));
  return blocks;
}

/// A launch that reads `inputs` and writes `output`, if there is one.
void launch(stream_ref stream, std::span<const block> inputs, const block* output) {
  auto recorder = launch_recorder::strict(stream);
  for (const auto& input : inputs) recorder.read(input);
  if (output != nullptr) recorder.write(*output);
  recorder.preflight();
  recorder.commit();
}

struct promise {
  std::uint64_t max_waits = 0;  // of one launch
  bool allocates_nothing = true;
};

/// Reports for one launch `allocations`, the heap allocations without those of the device itself,
/// and `waits`, the waits that it queued for other streams.
void report(benchmark::State& state, const batch_totals& totals, const device_allocations& own,
            promise promised) {
  const auto allocations = totals.allocations - totals.steps * own.record - totals.waits * own.wait;
  const auto per_launch = [&](std::uint64_t sum) {
    return benchmark::Counter(static_cast<double>(sum) / static_cast<double>(totals.steps),
                              benchmark::Counter::kAvgThreads);
  };
  state.counters["allocations"] = per_launch(allocations);
  state.counters["waits"] = per_launch(totals.waits);
  if (promised.allocates_nothing && allocations != 0) {
    note_broken_promise(state, "a launch allocates heap memory");
  } else if (totals.waits > promised.max_waits * totals.steps) {
    note_broken_promise(state, "a launch queues more waits than there are other streams");
  }
}

/// Holds streams by a launch that does not end until `release`.
class brake {
 public:
  brake(workbench& bench, stream_ref stream)
      : stream_(stream), block_(blocks_on(bench, stream, 1).front()) {}

  /// Starts the launch.
  void close() {
    open_ = std::make_shared<std::atomic<bool>>(false);
    auto recorder = launch_recorder::strict(stream_);
    recorder.write(block_);
    recorder.preflight();
    stream_.device().notify(stream_.native(), [open = open_] { open->wait(false); });
    recorder.commit();
  }
  /// Makes `stream` wait for the launch.
  void hold(stream_ref stream) { launch(stream, {&block_, 1}, nullptr); }
  /// Ends the launch.
  void release() {
    open_->store(true);
    open_->notify_all();
    stream_.synchronize();
  }

 private:
  stream_ref stream_;
  block block_;
  std::shared_ptr<std::atomic<bool>> open_;
};

stream_ref brake_stream(workbench& bench) {
  return bench.stream(workbench::max_streams - 1);
}

/// The work of the stream while a batch is enqueued.
enum class stream_work {
  nothing,     ///< it reaches each launch at once; on the host device its thread must be woken
  unfinished,  ///< it reaches none of the launches
};

/// As `time_batches`, on a stream with this work. `unfinished` allows one thread only.
template <class Enqueue>
batch_totals time_on(benchmark::State& state, workbench& bench, meeting_point& together,
                     stream_ref stream, stream_work work, Enqueue enqueue) {
  if (work == stream_work::nothing) {
    return time_batches(
        state, together, stream, [] {}, enqueue, [&] { stream.synchronize(); });
  }
  brake held(bench, brake_stream(bench));
  return time_batches(
      state, together, stream,
      [&] {
        held.close();
        held.hold(stream);
      },
      enqueue,
      [&] {
        held.release();
        stream.synchronize();
      });
}

/// The reference: records events, and each again after it has completed.
void bare_record(benchmark::State& state, workbench& bench, meeting_point& together,
                 stream_work work) {
  const auto stream = bench.stream(state.thread_index());
  auto& device = bench.runtime().device();
  std::vector<native_event*> events;
  for (std::size_t i = 0; i < batch_size; ++i) events.push_back(device.create_event());
  std::uint64_t value = 0;
  const auto totals = time_on(state, bench, together, stream, work, [&](std::size_t i) {
    device.record(events[i], ++value, stream.native());
  });
  for (auto* event : events) device.destroy_event(event);
  report(state, totals, bench.allocations(), {});
}

/// One stream: writes the last of `count` blocks and reads the others. All were used on it before.
void same_stream(benchmark::State& state, workbench& bench, meeting_point& together,
                 std::size_t count, stream_work work) {
  const auto stream = bench.stream(state.thread_index());
  const auto blocks = blocks_on(bench, stream, count);
  const auto totals = time_on(state, bench, together, stream, work, [&](std::size_t) {
    launch(stream, std::span(blocks).first(count - 1), &blocks.back());
  });
  report(state, totals, bench.allocations(), {});
}

/// Several streams: reads `count` blocks, each written on a stream of its own. If the writes are
/// known to be complete, the launch queues no wait. Otherwise each launch reads new blocks and
/// queues a wait for each write.
void other_streams(benchmark::State& state, workbench& bench, meeting_point& together,
                   std::size_t count, bool finished) {
  const auto stream = bench.stream(0);
  const auto source = [&](std::size_t j) {
    return bench.stream(static_cast<int>(j) + 1);
  };
  brake held(bench, brake_stream(bench));
  const auto blocks = blocks_on(bench, stream, finished ? count : batch_size * count);
  stream.synchronize();

  const auto write_all = [&] {
    for (std::size_t i = 0; i < blocks.size(); ++i) launch(source(i % count), {}, &blocks[i]);
  };
  const auto end_writes = [&] {
    for (std::size_t j = 0; j < count; ++j) source(j).synchronize();
  };
  batch_totals totals;
  if (finished) {
    write_all();
    end_writes();
    totals = time_batches(
        state, together, stream, [] {}, [&](std::size_t) { launch(stream, blocks, nullptr); },
        [&] { stream.synchronize(); });
  } else {
    totals = time_batches(
        state, together, stream,
        [&] {
          held.close();
          for (std::size_t j = 0; j < count; ++j) held.hold(source(j));
          write_all();
        },
        [&](std::size_t i) {
          launch(stream, std::span(blocks).subspan(i * count, count), nullptr);
        },
        [&] {
          held.release();
          end_writes();
          stream.synchronize();
        });
  }
  report(state, totals, bench.allocations(), {.max_waits = finished ? 0 : count});
}

/// Blocks that several threads read. The first thread makes them and waits for their writes.
class shared_blocks {
 public:
  std::span<const block> get(workbench& bench) {
    std::call_once(made_, [&] {
      const auto stream = brake_stream(bench);
      blocks_ = blocks_on(bench, stream, 2);
      for (const auto& written : blocks_) launch(stream, {}, &written);
      stream.synchronize();
    });
    return blocks_;
  }

 private:
  std::once_flag made_;
  std::vector<block> blocks_;
};

/// Several threads, each with a stream and an output of its own. All read the same two inputs.
void shared_inputs(benchmark::State& state, workbench& bench, meeting_point& together,
                   std::span<const block> inputs) {
  const auto stream = bench.stream(state.thread_index());
  const auto output = blocks_on(bench, stream, 1);
  const auto totals = time_on(state, bench, together, stream, stream_work::nothing,
                              [&](std::size_t) { launch(stream, inputs, output.data()); });
  report(state, totals, bench.allocations(), {});
}

}  // namespace

std::shared_ptr<void> register_benchmarks(const std::string& device) {
  auto bench = std::make_shared<workbench>(device, [] { return make_async_resource(); });
  const auto add = [&](const std::string& name, auto run) {
    auto together = std::make_shared<meeting_point>();
    return benchmark::RegisterBenchmark(
               (device + "/" + name).c_str(),
               [=](benchmark::State& state) { run(state, *bench, *together); })
        ->UseManualTime();
  };
  for (const auto work : {stream_work::unfinished, stream_work::nothing}) {
    const std::string where = work == stream_work::nothing ? "idle_stream" : "busy_stream";
    add(where + "/record",
        [=](auto& state, auto& on, auto& together) { bare_record(state, on, together, work); });
    for (const std::size_t count : {1, 3, 8}) {
      add(where + "/launch/blocks:" + std::to_string(count),
          [=](auto& state, auto& on, auto& together) {
            same_stream(state, on, together, count, work);
          });
    }
  }
  for (const std::size_t count : {1, 3, 8}) {
    const auto blocks = "/launch/blocks:" + std::to_string(count);
    for (const bool finished : {true, false}) {
      add((finished ? "other_streams_finished" : "other_streams_unfinished") + blocks,
          [=](auto& state, auto& on, auto& together) {
            other_streams(state, on, together, count, finished);
          });
    }
  }
  const auto shared = std::make_shared<shared_blocks>();
  for (const int threads : {1, 2, 4}) {
    add("threads/record", [](auto& state, auto& on, auto& together) {
      bare_record(state, on, together, stream_work::nothing);
    })->Threads(threads);
    add("threads/launch/shared_inputs", [=](auto& state, auto& on, auto& together) {
      shared_inputs(state, on, together, shared->get(on));
    })->Threads(threads);
  }
  return bench;
}

}  // namespace sluice::bench
