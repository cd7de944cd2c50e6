// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/device_id.hpp>
#include <sluice/runtime/error.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

namespace sluice {

namespace detail {
class open_devices;
}

/// A device's own stream: a `cudaStream_t` on CUDA, a stream thread on the host. Opaque here.
struct native_stream;
/// A device's own event: a `cudaEvent_t` on CUDA. Opaque here.
struct native_event;
/// A device's own timestamp: a `cudaEvent_t` with timing on CUDA. Opaque here.
struct native_timestamp;

/// What a device answers about an event and the work before it.
enum class event_state : std::uint8_t {
  pending,   ///< the work has not finished
  complete,  ///< the work has finished
  failed,    ///< the work has finished and part of it failed; `device::failure_of` says how
  lost,      ///< the device is lost
};

/// Which of several streams with work the device prefers.
enum class stream_priority : std::uint8_t {
  normal,
  high,  ///< CUDA: the greatest priority that the GPU has, for blocks that are not running yet. The
         ///< host device: the same as normal
};

/// What a copy connects. "Host" memory on a CUDA device is pinned or pageable memory of the
/// process.
enum class copy_direction : std::uint8_t { device_to_device, host_to_device, device_to_host };

/// Facts about a device, fixed while it is open.
struct device_info {
  device_id id;                  ///< kind and ordinal
  std::string name;              ///< the vendor's name of the hardware
  std::size_t memory_bytes = 0;  ///< physical memory
  int compute_capability = 0;    ///< CUDA: major * 10 + minor; 0 on the host
  int multiprocessors = 0;       ///< CUDA: number of multiprocessors; host: hardware threads
};

/// Converts the timestamps of one device to the host's steady clock. Used by one thread at a time;
/// must not outlive the device.
class timestamp_clock {
 public:
  timestamp_clock() = default;
  timestamp_clock(const timestamp_clock&) = delete;
  timestamp_clock& operator=(const timestamp_clock&) = delete;
  virtual ~timestamp_clock() = default;

  /// Compares the two clocks anew. On CUDA this records an event on a stream of the clock's own and
  /// waits for it, for at most 50 ms. Returns false on failure; `time_of` then uses the comparison
  /// before, if there is one.
  virtual bool anchor() noexcept = 0;
  /// The time of the last record of `stamp`; nothing if it is unknown. The caller has seen the
  /// completion of an event that was recorded on the same stream later.
  [[nodiscard]] virtual std::optional<std::chrono::steady_clock::time_point> time_of(
      native_timestamp* stamp) noexcept = 0;
};

/// Something with streams and memory. Everything above it is written once, over this interface.
///
/// All functions may be called from any thread unless they say otherwise. Functions that enqueue
/// return before the work is done. After loss, functions that can throw throw `device_lost`,
/// `query` answers `lost` and the others do nothing.
class device {
 public:
  /// A device with the name `id`.
  explicit device(device_id id) noexcept;
  device(const device&) = delete;
  device& operator=(const device&) = delete;
  virtual ~device();

  /// The name that the device was opened with.
  [[nodiscard]] device_id id() const noexcept { return id_; }
  /// Its name, memory and capabilities, as the driver says now. @throws error `library_failure`,
  /// `device_lost`
  [[nodiscard]] virtual device_info info() const = 0;

  /// Makes a stream that synchronises with no other one by itself.
  /// @throws error `library_failure`, `device_lost`
  [[nodiscard]] virtual native_stream* create_stream(stream_priority priority) = 0;
  /// The same with normal priority.
  [[nodiscard]] native_stream* create_stream() { return create_stream(stream_priority::normal); }
  /// @throws error `invalid_argument` unless `stream`, made by somebody else, is one of this device
  /// that work may be queued on: not a default stream of CUDA's, and not being captured
  virtual void require_adoptable(native_stream* stream) = 0;
  /// Retires `stream` behind the work queued on it; returns at once. Every event recorded on it
  /// stays valid.
  virtual void destroy_stream(native_stream* stream) noexcept = 0;
  /// Whether `stream`, which may be somebody else's, is being captured into a graph, or cannot be
  /// used because another one is (`cudaStreamLegacy`). Costs tens of nanoseconds, and leaves the
  /// capture alone.
  [[nodiscard]] virtual bool capturing(native_stream*) noexcept { return false; }
  /// Blocks the calling thread until the work queued on `stream` so far has finished.
  /// @throws error `stream_misuse` when it is being captured; `device_lost`
  virtual void synchronize(native_stream* stream) = 0;

  /// Makes an event without timing. @throws error `library_failure`, `device_lost`
  [[nodiscard]] virtual native_event* create_event() = 0;
  /// Waits for it that are queued stay. Nobody names it any more.
  virtual void destroy_event(native_event* event) noexcept = 0;
  /// Whether `event`, somebody else's, was last recorded in a stream capture, so that to wait for
  /// it would make a stream part of that. To ask is what CUDA forbids of such an event: a capture
  /// that goes on may end with an error.
  [[nodiscard]] virtual bool captured(native_event*) noexcept { return false; }
  /// Makes `event` stand for the work queued on `stream` so far. `value` must grow with every
  /// record of one event.
  /// @throws error `device_lost`
  virtual void record(native_event* event, std::uint64_t value, native_stream* stream) = 0;
  /// Orders all later work of `stream` after the record of `event` with `value`, or a later one.
  /// Occupies only `stream`. On CUDA `value` plays no part, and both may be somebody else's.
  /// @throws error `stream_misuse` (host) when that record has not been made; `device_lost`
  virtual void wait(native_stream* stream, native_event* event, std::uint64_t value) = 0;
  /// Checks that `follow` takes `stream`, made by somebody else, as far as can be told.
  /// @throws error `invalid_argument` (another GPU's, one that is being captured, on a host device
  ///   a default stream of CUDA's), `library_failure`, `device_lost`
  virtual void require_followable(native_stream* stream) = 0;
  /// Orders all later work of `stream` after the work queued on `source` so far. Occupies only
  /// `stream`. Either may be somebody else's: any `cudaStream_t` of this GPU, also the default
  /// streams `cudaStreamLegacy` and `cudaStreamPerThread` (of the calling thread); or a stream of
  /// any host device. What fails on `source` is not seen here, except (host) the loss of its
  /// device, which fails the next ticket of `stream`. @throws error `invalid_argument` when one of
  /// them is being captured, which that survives; `library_failure`, `device_lost`
  virtual void follow(native_stream* stream, native_stream* source) = 0;
  /// Whether the record of `event` with `value` has completed. Gives no memory ordering towards the
  /// work; see `acquire`.
  [[nodiscard]] virtual event_state query(native_event* event, std::uint64_t value) noexcept = 0;
  /// After `query` answered `complete` or `failed`: makes the effects of the work visible to the
  /// calling thread.
  virtual void acquire(native_event* event, std::uint64_t value) noexcept = 0;
  /// Whether `acquire` does anything.
  [[nodiscard]] virtual bool needs_acquire() const noexcept { return true; }
  /// After `query` answered `failed`: the first failure before that record.
  [[nodiscard]] virtual error failure_of(native_event* event) = 0;
  /// Whether single launches can fail after they were enqueued without the device being lost.
  [[nodiscard]] virtual bool reports_task_failures() const noexcept = 0;

  /// Makes a timestamp; nullptr if the device has none.
  /// @throws error `library_failure`, `device_lost`
  [[nodiscard]] virtual native_timestamp* create_timestamp() { return nullptr; }
  /// Destroys a timestamp of this device. Does not wait for a record that is pending.
  virtual void destroy_timestamp(native_timestamp*) noexcept {}
  /// Makes `stamp` take the time at which the work queued on `stream` so far has finished. It must
  /// not be recorded again before that. Returns whether the record was queued.
  ///
  /// Not for streams that are being captured: events with timing do not belong in a graph.
  [[nodiscard]] virtual bool record_timestamp(native_timestamp* /*stamp*/,
                                              native_stream* /*stream*/) noexcept {
    return false;
  }
  /// Makes a clock that reads this device's timestamps; nullptr if the device has none.
  /// @throws error `library_failure`, `device_lost`
  [[nodiscard]] virtual std::unique_ptr<timestamp_clock> make_timestamp_clock() { return nullptr; }

  /// Allocates at least `bytes` (> 0) aligned to 256 bytes, usable at once on every stream.
  /// @throws error `out_of_memory`, `device_lost`
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  /// Gives memory of `allocate` back. No work that touches it may be unfinished. May block.
  virtual void deallocate(void* address) noexcept = 0;
  /// Allocates as above from the device's pool, usable in the order of `stream`. @throws error as
  /// above
  [[nodiscard]] virtual void* allocate_async(std::size_t bytes, native_stream* stream) = 0;
  /// Gives memory of `allocate_async` back in the order of `stream`; does not block.
  virtual void deallocate_async(void* address, native_stream* stream) noexcept = 0;
  /// Returns memory of `allocate_async` to the device's pool at once, in no stream's order. All
  /// work that touches it has completed, and the caller knows. Does not block.
  virtual void deallocate_finished(void* address) noexcept = 0;
  /// Gives what the device's pool keeps for later back to the system. Returns how many bytes, as
  /// far as is known.
  virtual std::size_t trim_async() noexcept { return 0; }
  /// Bytes that the device's pool has taken from the system and not given back: those that
  /// `allocate_async` has handed out, and those that are kept for later.
  [[nodiscard]] virtual std::size_t pool_bytes() noexcept = 0;
  /// Allocates memory of the process that the device transfers from and to at full speed (pinned on
  /// CUDA). @throws error `out_of_memory`, `device_lost`
  [[nodiscard]] virtual void* allocate_staging(std::size_t bytes) = 0;
  /// Frees memory that `allocate_staging` returned. No work that uses it may be pending.
  virtual void deallocate_staging(void* address) noexcept = 0;

  /// Copies `bytes` in the order of `stream`. Both ranges must stay alive until the copy has
  /// finished.
  /// @throws error `library_failure`, `device_lost`
  virtual void copy(void* destination, const void* source, std::size_t bytes,
                    copy_direction direction, native_stream* stream) = 0;
  /// Copies `bytes` from memory of `peer`, another device of the same vendor, in the order of
  /// `stream`: directly where the hardware can. Both ranges must stay alive until it has finished.
  /// @throws error `unsupported` on the host device; `library_failure`, `device_lost`
  virtual void copy_from_peer(void* destination, device& peer, const void* source,
                              std::size_t bytes, native_stream* stream) = 0;
  /// Does beforehand what the first copy from `peer`, as above, takes time for. @throws error
  /// `library_failure`, `device_lost`
  virtual void prepare_copies_from(device& /*peer*/) {}
  /// Whether the device has the following two functions.
  [[nodiscard]] virtual bool supports_words() const noexcept { return true; }
  /// Makes later work of `stream` wait until `word`, in memory of `allocate_staging`, has reached
  /// `value`: until `std::int32_t(word - value)` is not negative. Occupies only `stream`, or on
  /// CUDA the streams that share a hardware queue with it: whatever changes the word must not
  /// depend on work that is enqueued later.
  /// @throws error `unsupported` (a driver without stream memory operations), `library_failure`,
  /// `device_lost`
  virtual void wait_for_word(native_stream* stream, const std::atomic<std::uint32_t>& word,
                             std::uint32_t value) = 0;
  /// Sets `word`, in memory of `allocate_staging`, to `value` in the order of `stream`. A thread
  /// that acquires the value sees what the stream's earlier copies wrote to the process.
  /// @throws error as `wait_for_word`
  virtual void write_word(native_stream* stream, std::atomic<std::uint32_t>& word,
                          std::uint32_t value) = 0;
  /// Writes `count` times the `pattern_bytes` (1, 2, 4, 8 or 16) bytes at `pattern`, which is read
  /// during the call, in the order of `stream`. `destination` is aligned to `pattern_bytes`.
  /// @throws error `invalid_argument`, `library_failure`, `device_lost`
  virtual void fill(void* destination, const void* pattern, std::size_t pattern_bytes,
                    std::size_t count, native_stream* stream) = 0;
  /// Calls `function` on a thread of the device's once the work queued on `stream` so far has
  /// finished. It may never be called when the device is lost. It must not call the device. @throws
  /// error `device_lost`
  virtual void notify(native_stream* stream, std::function<void()> function) = 0;

  /// After loss: whether nothing on `stream` touches memory any more, so that owners may be
  /// dropped. `last` is null while the stream exists; of one that has been destroyed, or may have
  /// been by its owner, it is an event that was recorded behind all of its work.
  [[nodiscard]] virtual bool quiescent(native_stream* stream, native_event* last) noexcept = 0;
  /// The same for a stream that exists.
  [[nodiscard]] bool quiescent(native_stream* stream) noexcept {
    return quiescent(stream, nullptr);
  }
  /// Called by a thread that belongs to sluice, serves this device only and captures no streams.
  /// From now on this device is its current one, and stream captures of others forbid it nothing:
  /// what holds on other threads only inside of this device's calls. Code of users that runs on
  /// such a thread runs in a `detail::user_code_scope`.
  virtual void prepare_own_thread() noexcept {}

  /// Makes this device the calling thread's current one and returns what `leave` needs to restore
  /// the previous one. On CUDA the thread's stream capture mode is "relaxed" in between: what it
  /// calls is neither forbidden by somebody else's stream capture nor breaks it. They nest. A
  /// `cudaSetDevice` in between is undone for a thread that had a context before; for one that had
  /// none it says where its next call without one makes it.
  [[nodiscard]] virtual void* enter() noexcept { return nullptr; }
  /// Restores what `enter` changed. Takes the result of the matching `enter`, in the same thread.
  virtual void leave(void*) noexcept {}

  /// Declares the device lost, for `cause`. Only the first call counts. Loss is final for the
  /// process.
  void lose(const error& cause) noexcept;
  /// Whether the device has been declared lost.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Whether this process is a child of `fork()` and the device was opened before it, by the
  /// parent. Such a device is lost in the child. The destructors of everything that belongs to it
  /// do nothing there, since its threads and its driver state are the parent's.
  [[nodiscard]] bool inherited() const noexcept {
    return inherited_.load(std::memory_order_relaxed);
  }
  /// @throws error `device_lost` with the cause of the loss, when the device is lost
  void require_usable() const;
  /// The error that requests get after loss: code `device_lost`, the text and status of the cause.
  [[nodiscard]] error loss() const noexcept;

 protected:
  /// Called once, in the thread that declared the loss.
  virtual void on_loss() noexcept {}
  /// What the device's threads in this process are doing.
  enum class activity : std::uint8_t { none, task, library_call };
  /// Called when the process exits, after the loss: the activity that lasts longest, without that
  /// of the calling thread.
  [[nodiscard]] virtual activity running() noexcept { return activity::none; }

 private:
  friend class detail::open_devices;

  device_id id_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> inherited_{false};
  device* previous_open_ = nullptr;
  device* next_open_ = nullptr;
  mutable std::mutex loss_mutex_;
  std::optional<error> loss_;
};

/// While it lives, a device is the calling thread's current one, and stream captures elsewhere
/// forbid the thread nothing; afterwards all is as before. See `device::enter`.
class current_device_scope {
 public:
  /// Enters `d`, which must outlive the scope.
  explicit current_device_scope(device& d) noexcept : device_(d), previous_(d.enter()) {}
  current_device_scope(const current_device_scope&) = delete;
  current_device_scope& operator=(const current_device_scope&) = delete;
  ~current_device_scope() { device_.leave(previous_); }

 private:
  device& device_;
  void* previous_;
};

/// Opens the device called `name`: "host", "cuda", "cuda:N", or "auto" for the first GPU, else the
/// host. Several openings of one GPU share the hardware; every opening of a host device is
/// a device of its own.
/// @throws error `invalid_argument` when there is no such device or the name cannot be read
[[nodiscard]] std::shared_ptr<device> open_device(std::string_view name = "auto");

/// The devices that `open_device` can open here, GPUs first. Never throws for a missing driver:
/// then there are no GPUs.
[[nodiscard]] std::vector<device_info> list_devices();

}  // namespace sluice
