// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
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

/// The kind of a record.
enum class memory_event : std::uint8_t {
  allocate,  ///< a request was answered, with memory or with `failure`
  free,      ///< the memory of a block was freed, after its last uses
  reap,      ///< memory was returned to the device; not recorded while a pool keeps it
};

/// The name of `event`: "allocate", "free" or "reap".
[[nodiscard]] SLUICE_EXPORT std::string_view to_string(memory_event event) noexcept;

/// One record of a memory log.
struct memory_record {
  /// The number of the record in its sink, from 1.
  ///
  /// A free has a smaller number than the next allocation of its memory. For a reap this holds only
  /// in the order of its stream, because another thread may get the memory before the record is
  /// made.
  std::uint64_t order = 0;
  memory_event event = memory_event::allocate;  ///< kind of the record
  std::uint64_t thread = 0;                     ///< system id of the thread
  stream_id stream{};             ///< stream of the request or the free; empty for a reap
  const void* address = nullptr;  ///< null for a failed request
  std::size_t bytes = 0;          ///< granted bytes; requested bytes for a failed request
  std::string_view tag{};         ///< with static storage duration
  std::uint64_t generation = 0;   ///< 0 for memory that a pool keeps without a block
  std::optional<errc> failure{};  ///< error of a failed request
  [[nodiscard]] bool operator==(const memory_record&) const noexcept = default;
};

/// The destination of memory records. Several resources may log to one sink. Thread-safe.
class SLUICE_EXPORT memory_log_sink {
 public:
  memory_log_sink() = default;
  memory_log_sink(const memory_log_sink&) = delete;
  memory_log_sink& operator=(const memory_log_sink&) = delete;
  virtual ~memory_log_sink() = default;

  /// Completes `record` with its order and thread, and writes it. If that fails, the record counts
  /// as lost.
  void log(memory_record record) noexcept;
  /// The number of records that were logged and are not, or no longer, available.
  [[nodiscard]] std::uint64_t lost() const noexcept {
    return lost_.load(std::memory_order_relaxed);
  }

 protected:
  /// Counts `records` records as lost.
  void count_lost(std::uint64_t records) noexcept {
    lost_.fetch_add(records, std::memory_order_relaxed);
  }

 private:
  /// Stores `record`.
  ///
  /// Several threads may call it at the same time, so records may arrive out of order. A caller may
  /// be in the middle of another operation: the function must not use the runtime, its resources or
  /// their budget. If it throws, the record counts as lost.
  virtual void write(const memory_record& record) = 0;

  std::atomic<std::uint64_t> last_order_{0};
  std::atomic<std::uint64_t> lost_{0};
};

/// A sink that keeps the newest records in memory. A record that it overwrites counts as lost.
class SLUICE_EXPORT memory_log final : public memory_log_sink {
 public:
  /// Makes a sink for `capacity` records and allocates their memory.
  /// @throws std::bad_alloc if the host has no memory
  explicit memory_log(std::size_t capacity = 65'536) : records_(capacity) {}
  /// The kept records, sorted by `order`.
  [[nodiscard]] std::vector<memory_record> snapshot() const;

 private:
  void write(const memory_record& record) override;

  mutable std::mutex mutex_;
  std::vector<memory_record> records_;  // a ring
  std::size_t count_ = 0;
};

/// A sink that writes records to a file of comma-separated values.
///
///     const auto log = std::make_shared<memory_log_file>("memory.csv");
///     device_runtime runtime{open_device("auto"), {.resource = make_logging_resource(
///         make_default_resource(), log)}};
///
/// Values are quoted as in RFC 4180. Each line ends with a line feed. The first line names the
/// columns: order, event, thread, stream (runtime:index, empty for none), address (hexadecimal,
/// empty for none), bytes, tag, generation, result ("ok" or the name of an `errc`).
///
/// Lines are collected and written together. Lines that cannot be written count as lost, for
/// example if the disk is full or a pipe has no reader. The file then still ends with a whole line
/// if it can be truncated. Later writes are attempted again.
///
/// As with any write, SIGPIPE (a pipe without a reader) and SIGXFSZ (the limit on file sizes) end a
/// program that does not ignore them.
class SLUICE_EXPORT memory_log_file final : public memory_log_sink {
 public:
  /// Creates the file at `path`, or truncates it, and writes the column names.
  /// @throws error `invalid_argument` if the file cannot be opened or written
  explicit memory_log_file(const std::filesystem::path& path);
  /// Writes the collected lines.
  ~memory_log_file() override;

  /// Writes the collected lines. `lost` then tells whether the file has all records so far.
  void flush() noexcept;

 private:
  void write(const memory_record& record) override;
  void write_collected() noexcept;

  std::mutex mutex_;
  int file_ = -1;
  std::int64_t size_ = 0;  // size of the whole lines in the file
  std::string collected_;
  std::uint64_t collected_records_ = 0;
};

/// Makes a resource that logs to `sink`. A null `sink` logs nothing.
///
/// It logs each allocation and each free that passes to `upstream`, and each return of memory to
/// the device by the resources below. Address and bytes of a reap are those of the resource that
/// took the memory from the device. They include the red zones of a `guard` and the rounding of a
/// `pool` below this resource.
/// @throws error `invalid_argument` if `upstream` is null
[[nodiscard]] SLUICE_EXPORT std::unique_ptr<memory_resource> make_logging_resource(
    std::unique_ptr<memory_resource> upstream, std::shared_ptr<memory_log_sink> sink = nullptr);

}  // namespace sluice
