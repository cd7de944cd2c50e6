// SPDX-License-Identifier: Apache-2.0
#include "tools/sluice/bench/enqueue_time.hpp"
#include "tools/sluice/bench/paired_rounds.hpp"
#include "tools/sluice/bench/random_operands.hpp"

#include <sluice/runtime/launch_recorder.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <fmt/format.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace sluice::cli {
namespace {

using block = gpu_ref<float>;
constexpr std::array<std::size_t, 3> block_counts{1, 3, 8};

std::vector<block> blocks_on(device_runtime& runtime, stream_ref stream, std::size_t count) {
  return several(count, [&] { return runtime.allocate<float>(64, stream, "bench"); });
}

/// A launch that reads `inputs` and writes `output`, if there is one, without any work.
void launch(stream_ref stream, std::span<const block> inputs, const block* output) {
  auto recorder = launch_recorder::strict(stream);
  for (const auto& input : inputs) recorder.read(input);
  if (output != nullptr) recorder.write(*output);
  recorder.preflight();
  (void)recorder.commit();
}

/// Holds streams by a launch that does not end until `release`.
class brake {
 public:
  brake(device_runtime& runtime, stream_ref stream)
      : stream_(stream), block_(blocks_on(runtime, stream, 1).front()) {}

  /// Starts the launch.
  void close() {
    open_ = std::make_shared<std::atomic<bool>>(false);
    auto recorder = launch_recorder::strict(stream_);
    recorder.write(block_);
    recorder.preflight();
    stream_.device().notify(stream_.native(), [open = open_] { open->wait(false); });
    (void)recorder.commit();
  }
  /// Makes `stream` wait for the launch.
  void hold(stream_ref stream) { launch(stream, {&block_, 1}, nullptr); }
  /// Ends the launch, if there is one.
  void release() {
    if (!open_) return;
    open_->store(true);
    open_->notify_all();
    open_.reset();
  }

 private:
  stream_ref stream_;
  block block_;
  std::shared_ptr<std::atomic<bool>> open_;
};

/// Bare records of events, each of which is recorded again after it has completed.
class bare_records {
 public:
  explicit bare_records(stream_ref stream) : stream_(stream) {
    for (auto& event : events_) event = stream.device().create_event();
  }
  bare_records(const bare_records&) = delete;
  bare_records& operator=(const bare_records&) = delete;
  ~bare_records() {
    for (auto* const event : events_) stream_.device().destroy_event(event);
  }
  void record(std::size_t i) { stream_.device().record(events_[i], ++value_, stream_.native()); }

 private:
  stream_ref stream_;
  std::array<native_event*, enqueue_batch> events_{};
  std::uint64_t value_ = 0;
};

/// Launches of a runtime of their own. With one thread, stream 0 has them.
class launches {
 public:
  explicit launches(bench_run& run)
      : runtime_(open_device(run.current.device_name()), {.resource = make_async_resource()}),
        streams_(several(10, [&] { return runtime_.create_stream(); })),
        outputs_(blocks_on(runtime_, streams_[0], streams_.size())),
        brake_(runtime_, streams_.back()) {
    for (const auto& stream : streams_) records_.emplace_back(stream);
    synchronize();
  }

  /// Launches on a stream that reaches each of them at once, or that reaches none of them because
  /// it waits for unfinished work. All blocks were used on it before.
  void add_same_stream(paired_rounds& to, bool busy) {
    const auto prepare = [this, busy] {
      if (!busy) return;
      brake_.close();
      brake_.hold(streams_[0]);
    };
    add(to, "bare record", prepare, [this](std::size_t i) { records_[0].record(i); });
    for (const auto count : block_counts) {
      add(to, fmt::format("launch, blocks: {}", count), prepare,
          [this, blocks = blocks_on(runtime_, streams_[0], count)](std::size_t) {
            launch(streams_[0], std::span(blocks).first(blocks.size() - 1), &blocks.back());
          });
    }
  }

  /// Launches that read `count` blocks, each written on a stream of its own. The writes are known
  /// to have completed.
  void add_finished(paired_rounds& to, std::size_t count) {
    add(
        to, fmt::format("launch, blocks of other streams: {}", count), [] {},
        [this, blocks = written_blocks(count, count)](std::size_t) {
          launch(streams_[0], blocks, nullptr);
        });
  }
  /// The same while the writes are unfinished. Each launch reads new blocks, and waits for each
  /// write.
  void add_unfinished(paired_rounds& to, std::size_t count) {
    const auto blocks = written_blocks(enqueue_batch * count, count);
    add(
        to, fmt::format("launch, blocks that other streams still write: {}", count),
        [this, count, blocks] {
          brake_.close();
          for (std::size_t j = 0; j < count; ++j) brake_.hold(source(j));
          write(blocks, count);
        },
        [this, count, blocks](std::size_t i) {
          launch(streams_[0], std::span(blocks).subspan(i * count, count), nullptr);
        });
  }

  /// Launches by several threads, each with a stream and an output of its own. All read the same
  /// two inputs.
  void add_threads(paired_rounds& to, std::size_t threads) {
    const auto work = [this, threads](auto enqueue) {
      return [=, this](std::int64_t n) {
        return enqueue_time_of_threads(streams_, threads, n, enqueue);
      };
    };
    const auto bare =
        to.add_reference(fmt::format("bare record, threads: {}", threads),
                         work([this](std::size_t t, std::size_t i) { records_[t].record(i); }));
    to.add(fmt::format("launch, threads: {}", threads),
           work([this, inputs = written_blocks(2, 1)](std::size_t t, std::size_t) {
             launch(streams_[t], inputs, &outputs_[t]);
           }),
           bare);
  }

 private:
  /// Adds launches on stream 0.
  template <class Prepare, class Enqueue>
  void add(paired_rounds& to, std::string name, const Prepare& prepare, const Enqueue& enqueue) {
    to.add(std::move(name), [=, this](std::int64_t n) {
      return enqueue_time(n, prepare, enqueue, [&] {
        brake_.release();
        synchronize();
      });
    });
  }
  void synchronize() {
    for (const auto& stream : streams_) stream.synchronize();
  }
  /// A stream that neither launches nor is braked, if `j` is below 8 and one thread launches, or
  /// below 5 with four threads.
  [[nodiscard]] stream_ref source(std::size_t j) const { return streams_[streams_.size() - 2 - j]; }
  /// Writes each of `blocks` on the next one of `count` streams.
  void write(const std::vector<block>& blocks, std::size_t count) {
    for (std::size_t i = 0; i < blocks.size(); ++i) launch(source(i % count), {}, &blocks[i]);
  }
  std::vector<block> written_blocks(std::size_t size, std::size_t count) {
    auto blocks = blocks_on(runtime_, streams_[0], size);
    write(blocks, count);
    synchronize();
    return blocks;
  }

  device_runtime runtime_;
  std::vector<stream> streams_;
  std::vector<block> outputs_;
  std::deque<bare_records> records_;
  brake brake_;
};

}  // namespace

void bench_launch(bench_run& run) {
  launches measured(run);
  paired_rounds idle(run, "idle_stream", "launches on an idle stream", shown_times);
  measured.add_same_stream(idle, false);
  for (const auto count : block_counts) measured.add_finished(idle, count);
  for (const auto count : block_counts) measured.add_unfinished(idle, count);
  idle.measure();
  paired_rounds busy(run, "busy_stream", "launches on a busy stream", shown_times);
  measured.add_same_stream(busy, true);
  busy.measure();
  paired_rounds threads(run, "threads", "launches by threads, with two inputs of all", shown_times);
  for (const std::size_t count : {1, 4}) measured.add_threads(threads, count);
  threads.measure();
  run.report.set_library("calls of the driver");
}

}  // namespace sluice::cli
