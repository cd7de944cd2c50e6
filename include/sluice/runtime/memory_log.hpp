// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/memory_resource.hpp>
#include <sluice/runtime/timeline_point.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace sluice {

/// What happened to memory.
enum class memory_event : std::uint8_t {
  allocate,  ///< a request was answered: with memory, or with `failure`
  free,      ///< a block's memory was given back, behind its last uses
  reap,      ///< memory went back to the device; what a pool keeps has not yet
};

/// "allocate", "free", "reap".
[[nodiscard]] std::string_view to_string(memory_event event) noexcept;

/// One line of a log.
struct memory_record {
  /// Counts the records of one sink from 1. A free has a smaller number than the allocation that
  /// gets its memory next. (Of a reap that holds in the order of its stream only: when it is told,
  /// another thread may have got the memory.)
  std::uint64_t order = 0;
  memory_event event = memory_event::allocate;  ///< what happened
  std::uint64_t thread = 0;                     ///< the system's number of the thread that did it
  stream_id stream{};                           ///< asked for or given back on; none for a reap
  const void* address = nullptr;                ///< none for a request that failed
  std::size_t bytes = 0;          ///< as granted; of a request that failed, as asked for
  std::string_view tag{};         ///< with static storage duration
  std::uint64_t generation = 0;   ///< 0 for memory that a pool kept between two blocks
  std::optional<errc> failure{};  ///< the error of a request that failed
  [[nodiscard]] bool operator==(const memory_record&) const noexcept = default;
};

/// Where records go. Several resources may log to one sink. Thread-safe.
class memory_log_sink {
 public:
  memory_log_sink() = default;
  memory_log_sink(const memory_log_sink&) = delete;
  memory_log_sink& operator=(const memory_log_sink&) = delete;
  virtual ~memory_log_sink() = default;

  /// Gives `record` its order and its thread and writes it. When that fails the record is lost and
  /// counted, and nothing else happens.
  void log(memory_record record) noexcept;
  /// How many records were logged and are not, or no longer, to be had.
  [[nodiscard]] std::uint64_t lost() const noexcept {
    return lost_.load(std::memory_order_relaxed);
  }

 protected:
  /// Counts `records` as lost.
  void count_lost(std::uint64_t records) noexcept {
    lost_.fetch_add(records, std::memory_order_relaxed);
  }

 private:
  /// Keeps `record`. Called by any threads, at the same time and so not always in order, in the
  /// middle of what they do: it must not use the runtime, its resources or their budget. Whatever
  /// it throws counts as one lost record.
  virtual void write(const memory_record& record) = 0;

  std::atomic<std::uint64_t> last_order_{0};
  std::atomic<std::uint64_t> lost_{0};
};

/// Keeps the newest records in memory; an older one that has to go counts as lost.
class memory_log final : public memory_log_sink {
 public:
  /// Takes the memory for `capacity` records here. @throws std::bad_alloc
  explicit memory_log(std::size_t capacity = 65'536) : records_(capacity) {}
  /// The records, in order.
  [[nodiscard]] std::vector<memory_record> snapshot() const;

 private:
  void write(const memory_record& record) override;

  mutable std::mutex mutex_;
  std::vector<memory_record> records_;  // a ring
  std::size_t written_ = 0;
};

/// Writes records to a file of comma-separated values, quoted as in RFC 4180, with a line feed
/// after each line. The first line names the columns: order, event, thread, stream (runtime:index,
/// empty for none), address (hexadecimal, empty for none), bytes, tag, generation, result ("ok" or
/// the name of an `errc`).
///
/// Lines are collected and written together. Those that cannot be written (a full disk, the limit
/// on file sizes, a pipe that nobody reads any more) are lost, and the file still ends with a whole
/// line, where it can be shortened; later ones are tried again.
///
/// No signal comes of that, so that a program need not ignore SIGXFSZ and SIGPIPE: both are blocked
/// in the thread that writes, while it does, and what a failed write has raised is taken away. One
/// that was pending there before stays.
class memory_log_file final : public memory_log_sink {
 public:
  /// Begins the file at `path` anew. A log that cannot begin says so here, where no allocation
  /// hangs on it.
  /// @throws error `invalid_argument` when it cannot be opened and written to
  explicit memory_log_file(const std::filesystem::path& path);
  /// Writes what is left.
  ~memory_log_file() override;

  /// Writes what has been collected; then `lost` says whether the file has all records up to here.
  void flush() noexcept;

 private:
  void write(const memory_record& record) override;
  void write_collected() noexcept;

  std::mutex mutex_;
  int file_ = -1;
  std::int64_t size_ = 0;  // of the whole lines in it
  std::string collected_;
  std::uint64_t collected_records_ = 0;
};

/// Logs each allocation and each free that passes through to `upstream`, and each piece of memory
/// that resources under it give back to the device, to `sink`, or nowhere if there is none. A
/// reap's address and bytes are those of the resource that had the memory from the device: with the
/// red zones of a `guard` and the rounding of a `pool` that stand under this one.
/// @throws error `invalid_argument` (no upstream)
[[nodiscard]] std::unique_ptr<memory_resource> make_logging_resource(
    std::unique_ptr<memory_resource> upstream, std::shared_ptr<memory_log_sink> sink = nullptr);

}  // namespace sluice
