// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/paired_rounds.hpp"

#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <span>

namespace sluice::cli {
namespace {

using block = gpu_ref<float>;
constexpr std::array<std::size_t, 3> block_counts{1, 3, 8};

std::vector<block> make_blocks(device_runtime& runtime, stream_ref stream, std::size_t count) {
  return several(count, [&] { return runtime.allocate<float>(64, stream, "bench"); });
}

/// A launch that reads `inputs` and writes `outputs`, without any work.
void launch(stream_ref stream, std::span<const block> inputs, std::span<const block> outputs) {
  auto recorder = launch_recorder::strict(stream);
  for (const auto& input : inputs) recorder.read(input);
  for (const auto& output : outputs) recorder.write(output);
  recorder.preflight();
  (void)recorder.commit();
}

/// Holds streams by a launch that does not end until `release`.
class brake {
 public:
  explicit brake(device_runtime& runtime)
      : stream_(runtime.create_stream()), blocks_(make_blocks(runtime, stream_, 1)) {}

  /// Starts the launch. Later work of `held_streams` waits for it.
  void hold(std::span<const stream> held_streams) {
    open_ = std::make_shared<std::atomic<bool>>(false);
    auto recorder = launch_recorder::strict(stream_);
    recorder.write(blocks_.front());
    recorder.preflight();
    stream_.ref().device().notify(stream_.ref().native(), [open = open_] { open->wait(false); });
    (void)recorder.commit();
    for (const auto& stream : held_streams) launch(stream, blocks_, {});
  }
  /// Ends the launch, if there is one.
  void release() {
    if (!open_) return;
    open_->store(true);
    open_->notify_all();
    open_.reset();
  }

 private:
  stream stream_;
  std::vector<block> blocks_;
  std::shared_ptr<std::atomic<bool>> open_;
};

/// Bare records of events, each of which is recorded again after it has completed.
class bare_records {
 public:
  explicit bare_records(stream_ref stream)
      : stream_(stream), events_(several(enqueue_batch, [&device = stream.device()] {
          return std::shared_ptr<native_event>(
              device.create_event(),
              [&device](native_event* event) { device.destroy_event(event); });
        })) {}
  void record(std::size_t i) {
    stream_.device().record(events_[i].get(), ++value_, stream_.native());
  }

 private:
  stream_ref stream_;
  std::vector<std::shared_ptr<native_event>> events_;
  std::uint64_t value_ = 0;
};

/// Launches of a runtime of their own. Streams 0 to 3 launch, one for each thread. The next 8 are
/// sources, which write blocks for the launches.
class launches {
 public:
  explicit launches(bench_run& run)
      : runtime_(open_device(run.current.device_name()), {.resource = make_async_resource()}),
        streams_(several(thread_streams + block_counts.back(),
                         [&] { return runtime_.create_stream(); })),
        outputs_(make_blocks(runtime_, streams_[0], thread_streams)),
        brake_(runtime_) {
    for (const auto& stream : streams_) records_.emplace_back(stream.ref());
    synchronize();
  }

  /// Launches on a stream that reaches each of them at once, or that reaches none of them because
  /// it waits for unfinished work. All blocks were used on it before.
  void add_same_stream(paired_rounds& ways, bool busy) {
    const auto prepare = [this, busy] {
      if (busy) brake_.hold(std::span(streams_).first(1));
    };
    add(ways, "bare record", prepare, [this](std::size_t i) { records_[0].record(i); });
    for (const auto count : block_counts) {
      add(ways, fmt::format("launch, blocks: {}", count), prepare,
          [this, blocks = make_blocks(runtime_, streams_[0], count)](std::size_t) {
            launch(streams_[0], std::span(blocks).first(blocks.size() - 1),
                   std::span(blocks).last(1));
          });
    }
  }

  /// Launches that read `count` blocks, each written on a source of its own. Either the writes are
  /// known to have completed, or each launch reads new blocks and waits for each write.
  void add_other_streams(paired_rounds& ways, std::size_t count, bool finished) {
    const auto blocks = written_blocks(finished ? count : enqueue_batch * count, count);
    const auto* const name = finished ? "launch, blocks of other streams: "
                                      : "launch, blocks that other streams still write: ";
    const auto prepare = [=, this] {
      if (finished) return;
      brake_.hold(sources(count));
      write(blocks, count);
    };
    add(ways, name + std::to_string(count), prepare, [=, this](std::size_t i) {
      launch(streams_[0], std::span(blocks).subspan(finished ? 0 : i * count, count), {});
    });
  }

  /// Launches by several threads, each with a stream and an output of its own. All read the same
  /// two inputs.
  void add_threads(paired_rounds& ways, std::size_t threads) {
    const auto by_threads = [this, threads](auto enqueue) {
      return [=, this](std::int64_t n) {
        return enqueue_time_of_threads(streams_, threads, n, enqueue);
      };
    };
    const auto records = ways.add_reference(
        fmt::format("bare record, threads: {}", threads),
        by_threads([this](std::size_t t, std::size_t i) { records_[t].record(i); }));
    ways.add(fmt::format("launch, threads: {}", threads),
             by_threads([this, inputs = written_blocks(2, 1)](std::size_t t, std::size_t) {
               launch(streams_[t], inputs, std::span(outputs_).subspan(t, 1));
             }),
             records);
  }

 private:
  static constexpr std::size_t thread_streams = 4;

  /// Adds launches on stream 0.
  template <class Prepare, class Enqueue>
  void add(paired_rounds& ways, std::string name, const Prepare& prepare, const Enqueue& enqueue) {
    ways.add(std::move(name), [=, this](std::int64_t n) {
      return enqueue_time(n, prepare, enqueue, [&] {
        brake_.release();
        synchronize();
      });
    });
  }
  void synchronize() {
    for (const auto& stream : streams_) stream.synchronize();
  }
  [[nodiscard]] std::span<const stream> sources(std::size_t count) const {
    return std::span(streams_).subspan(thread_streams, count);
  }
  /// Writes each of `blocks` on the next one of `count` sources.
  void write(std::span<const block> blocks, std::size_t count) {
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      launch(sources(count)[i % count], {}, blocks.subspan(i, 1));
    }
  }
  std::vector<block> written_blocks(std::size_t size, std::size_t count) {
    auto blocks = make_blocks(runtime_, streams_[0], size);
    write(blocks, count);
    synchronize();
    return blocks;
  }

  device_runtime runtime_;
  std::vector<stream> streams_;
  std::vector<block> outputs_;
  std::vector<bare_records> records_;
  brake brake_;
};

}  // namespace

void bench_launch(bench_run& run) {
  launches rows(run);
  paired_rounds idle(run, "idle_stream", "launches on an idle stream", shown_times);
  rows.add_same_stream(idle, false);
  for (const bool finished : {true, false}) {
    for (const auto count : block_counts) rows.add_other_streams(idle, count, finished);
  }
  idle.measure();
  paired_rounds busy(run, "busy_stream", "launches on a busy stream", shown_times);
  rows.add_same_stream(busy, true);
  busy.measure();
  paired_rounds threads(run, "threads", "launches by threads, with two inputs of all", shown_times);
  for (const std::size_t count : {1, 4}) rows.add_threads(threads, count);
  threads.measure();
  run.report.set_library("calls of the driver");
}

}  // namespace sluice::cli
