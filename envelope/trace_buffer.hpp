// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/envelope/kernel_trace.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

namespace sluice::detail {

/// One launch of a trace. Names are cut to a fixed length, so that recording allocates nothing. The
/// characters of UTF-8 that are kept are whole.
struct traced_launch {
  using time_point = std::chrono::steady_clock::time_point;
  template <std::size_t Size>
  struct alignas(std::uint64_t) cut_text {
    char text[Size]{};
    cut_text& operator=(std::string_view value) noexcept {
      auto length = std::min(value.size(), sizeof text - 1);
      const auto continues = [&](std::size_t i) {
        return i < value.size() && (static_cast<unsigned char>(value[i]) & 0xc0U) == 0x80U;
      };
      // A character has at most three bytes after its first one.
      for (int i = 0; i < 3 && length > 0 && continues(length); ++i) --length;
      *std::copy_n(value.data(), length, text) = '\0';
      return *this;
    }
  };
  using short_name = cut_text<32>;
  struct description {
    std::uint64_t launch_id = 0;
    device_id device{};
    stream_id stream{};
    std::array<std::int64_t, 4> sizes{};
    std::size_t batch = 1;
    std::uint64_t thread = 0;
    time_point enqueue_begin{};
    element_type type = element_type::f32;
    short_name library;
    short_name operation;
    short_name label;
    short_name tag;
    cut_text<192> steps;
  };

  description info;
  time_point enqueue_end{};
  time_point detected{};
  std::optional<errc> failure;
  std::optional<time_point> begun;
  std::optional<time_point> ended;
  time_point steps_begun{};  // known if there is a `step_ends`
  std::vector<time_point> step_ends;
};

/// A bounded buffer for the launches of a trace. Recording takes no lock and allocates nothing.
///
/// Until its last hook, a launch has a record and a place in the index. Launches of other threads
/// reuse both. All accesses are atomic, and reuse acquires nothing, because a launching thread must
/// not synchronize with completed work through a trace.
class trace_buffer {
 public:
  /// A buffer for `capacity` launches.
  ///
  /// If `overwrites` is true, a launch that finds the buffer full overwrites the oldest completed
  /// launch, whether or not that one has its timestamps. It is dropped if the oldest launches are
  /// in flight.
  trace_buffer(std::size_t capacity, bool overwrites);

  void begin(const kernel_info& info) noexcept;
  void enqueued(std::uint64_t launch_id) noexcept;
  /// Records the completion. `more` means that `timed` follows.
  void completed(std::uint64_t launch_id, const error* failure, bool more) noexcept;
  void timed(std::uint64_t launch_id, const kernel_times& times) noexcept;

  /// `untimed` counts completed launches that wait or waited for timestamps. `settled` counts those
  /// of them that have been timed or overwritten.
  [[nodiscard]] std::uint64_t untimed() const noexcept {
    return untimed_.load(std::memory_order_acquire);
  }
  [[nodiscard]] std::uint64_t settled() const noexcept {
    return settled_.load(std::memory_order_acquire);
  }

  /// Returns copies of the completed launches.
  [[nodiscard]] std::vector<traced_launch> launches() const;
  [[nodiscard]] std::uint64_t left_out() const noexcept;

 private:
  // The phase of a record. Its state combines the phase with the record's number in the order of
  // recording.
  enum phase : std::uint64_t {
    unused,            // can be overwritten
    in_flight,         // the hooks of the launch write the record
    complete_untimed,  // can be overwritten or timed
    timing,            // `timed` writes the record
    complete,          // can be overwritten
  };
  [[nodiscard]] static constexpr std::uint64_t state_of(std::uint64_t number, phase p) noexcept {
    return number << 3U | p;
  }
  [[nodiscard]] static constexpr phase phase_of(std::uint64_t state) noexcept {
    return static_cast<phase>(state & 7U);
  }
  [[nodiscard]] static constexpr std::uint64_t number_of(std::uint64_t state) noexcept {
    return state >> 3U;
  }

  static constexpr std::size_t words =
      (sizeof(traced_launch::description) + sizeof(std::uint64_t) - 1) / sizeof(std::uint64_t);
  static_assert(std::is_trivially_copyable_v<traced_launch::description>);
  static_assert(offsetof(traced_launch::description, launch_id) == 0);
  using ticks = std::chrono::steady_clock::rep;

  /// The record of one launch. What the threads behind the launching one use is on one cache line.
  ///
  /// Values are stored with release order and copied with acquire order. A copy that has read a
  /// value of the next launch therefore finds a different `state` afterwards.
  struct alignas(64) record {
    [[nodiscard]] std::uint64_t launch_id() const noexcept {
      return info_words[0].load(std::memory_order_relaxed);
    }
    /// Writes `info`, but nothing behind the end of a text.
    void write(const traced_launch::description& launch) noexcept;
    std::atomic<std::uint64_t> state{unused};
    std::atomic<ticks> enqueue_end{0};
    std::atomic<ticks> detected{0};
    std::atomic<ticks> begun{0};  // 0: missing
    std::atomic<ticks> ended{0};  // 0: missing
    std::atomic<int> failure{0};  // an `errc`; 0 for success
    std::atomic<ticks> steps_begun{0};
    std::atomic<std::size_t> step_count{0};
    std::array<std::atomic<ticks>, std::tuple_size_v<decltype(kernel_times::step_ends)>>
        step_ends{};
    std::array<std::atomic<std::uint64_t>, words> info_words{};
  };

  /// A cache line of the index. Each launch has one of the eight places of its bucket until its
  /// last hook. A place holds the lower half of the launch's id and the number of its record, from
  /// 1 on; 0 stands for a free place.
  struct alignas(64) bucket {
    std::array<std::atomic<std::uint64_t>, 8> places{};
  };
  struct found {
    std::atomic<std::uint64_t>* place = nullptr;
    record* entry = nullptr;
    [[nodiscard]] explicit operator bool() const noexcept { return place != nullptr; }
  };

  /// A counter on a cache line of its own, so that threads seldom share one.
  struct alignas(64) counter {
    std::atomic<std::uint64_t> value{0};
  };

  [[nodiscard]] bucket& bucket_of(std::uint64_t launch_id) noexcept;
  [[nodiscard]] record* claim() noexcept;
  [[nodiscard]] bool overwrite(record& r, std::uint64_t number) noexcept;
  [[nodiscard]] bool enter(std::uint64_t launch_id, const record& r) noexcept;
  [[nodiscard]] found find(std::uint64_t launch_id) noexcept;
  void leave(std::atomic<std::uint64_t>& place) noexcept;
  void count_left_out() noexcept;

  const bool overwrites_;
  std::vector<record> records_;
  std::vector<bucket> index_;
  // In a full buffer that does not overwrite, these two lines are not written after its launches
  // have completed.
  alignas(64) std::atomic<std::uint64_t> next_{0};    // the number of the next record
  alignas(64) std::atomic<std::uint64_t> placed_{0};  // taken places; not counted if `overwrites_`
  std::array<counter, 16> omissions_;
  alignas(64) std::atomic<std::uint64_t> untimed_{0};
  alignas(64) std::atomic<std::uint64_t> settled_{0};
};

}  // namespace sluice::detail
