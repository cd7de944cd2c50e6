// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
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
#include <span>
#include <string>
#include <vector>

namespace sluice {

namespace detail {
class open_devices;
}

/// A stream of a device: a `cudaStream_t` on CUDA, a stream thread on the host. Opaque.
struct native_stream;
/// An event of a device: a `cudaEvent_t` on CUDA. Opaque.
struct native_event;
/// A timestamp of a device: a `cudaEvent_t` with timing on CUDA. Opaque.
struct native_timestamp;

/// The state of one record of an event.
enum class event_state : std::uint8_t {
  pending,   ///< the work before the record has not finished
  complete,  ///< the work before the record has finished
  failed,    ///< the work has finished and part of it failed; see `device::failure_of`
  lost,      ///< the device is lost
};

/// The preference of a device among streams that have work.
enum class stream_priority : std::uint8_t {
  normal,
  high,  ///< CUDA: the greatest priority of the GPU; it applies to thread blocks that are not
         ///< running yet. Host device: the same as `normal`
};

/// The two ends of a copy. On a CUDA device, "host" memory is pinned or pageable memory of the
/// process.
enum class copy_direction : std::uint8_t { device_to_device, host_to_device, device_to_host };

/// Properties of a device.
struct device_info {
  device_id id;                  ///< kind and ordinal
  std::string name;              ///< the vendor's name of the hardware
  std::size_t memory_bytes = 0;  ///< physical memory, in bytes
  int compute_capability = 0;    ///< CUDA: major * 10 + minor; host: 0
  int multiprocessors = 0;       ///< CUDA: number of multiprocessors; host: hardware threads
};

/// Converts the timestamps of one device to times of the host's steady clock.
///
/// Not thread-safe. The device must outlive the clock.
class SLUICE_EXPORT timestamp_clock {
 public:
  timestamp_clock() = default;
  timestamp_clock(const timestamp_clock&) = delete;
  timestamp_clock& operator=(const timestamp_clock&) = delete;
  virtual ~timestamp_clock() = default;

  /// Compares the two clocks again. Returns whether it succeeded.
  ///
  /// After a failure `time_of` uses the previous comparison, if there is one. On CUDA the function
  /// records an event on a stream of the clock and waits for it. It makes up to three attempts of
  /// at most 50 ms each.
  virtual bool anchor() noexcept = 0;
  /// The time of the last record of `stamp`; empty if it is unknown.
  ///
  /// The caller must have observed the completion of an event that was recorded later on the same
  /// stream.
  [[nodiscard]] virtual std::optional<std::chrono::steady_clock::time_point> time_of(
      native_timestamp* stamp) noexcept = 0;
  /// Copies the times that tasks of a host device have marked between the last record of `stamp`
  /// and that of the next timestamp on its stream, at most `most_marks`. A program marks the begin
  /// of its first step and the end of each step.
  /// Returns their number: none on CUDA. The condition of `time_of` applies.
  [[nodiscard]] virtual std::size_t copy_marks(
      native_timestamp* /*stamp*/,
      std::span<std::chrono::steady_clock::time_point> /*times*/) noexcept {
    return 0;
  }

  /// The most marks behind a timestamp.
  static constexpr std::size_t most_marks = 17;
};

/// A device: memory and streams. The runtime is written once, over this interface.
///
///     const auto device = open_device("auto");
///     device_runtime runtime{device};
///
/// Any thread may call any function unless the function states otherwise. Functions that enqueue
/// work return before the work has finished.
///
/// After the loss of the device, functions that enqueue work throw `device_lost`. Functions that
/// cannot throw then leave the handles and the memory of a GPU alone.
///
/// docs/concepts/devices_and_streams.md and docs/concepts/failure_and_loss.md give the reasons.
class SLUICE_EXPORT device {
 public:
  /// Makes a device with the name `id`.
  explicit device(device_id id) noexcept : id_(id) {}
  device(const device&) = delete;
  device& operator=(const device&) = delete;
  virtual ~device() = default;

  /// The name of the device: kind and number.
  [[nodiscard]] device_id id() const noexcept { return id_; }
  /// The name, memory and capabilities of the hardware, queried from the driver.
  /// @throws error `library_failure` if the driver refuses the query
  [[nodiscard]] virtual device_info info() const = 0;

  /// Creates a stream. It does not synchronize implicitly with other streams.
  /// @throws error `library_failure` if the driver refuses it
  /// @throws error `device_lost` if the device is lost
  [[nodiscard]] virtual native_stream* create_stream(stream_priority priority) = 0;
  /// Creates a stream with normal priority.
  [[nodiscard]] native_stream* create_stream() { return create_stream(stream_priority::normal); }
  /// Checks that `stream`, a stream of another library, can be adopted.
  /// @throws error `invalid_argument` if it belongs to another device
  /// @throws error `invalid_argument` if it is a default stream of CUDA
  /// @throws error `invalid_argument` if it is being captured
  /// @throws error `device_lost` if the device is lost
  virtual void require_adoptable(native_stream* stream) = 0;
  /// Destroys `stream` after the work queued on it. Returns at once. Events recorded on the stream
  /// stay valid.
  virtual void destroy_stream(native_stream* stream) noexcept = 0;
  /// Whether `stream` is being captured into a graph. `stream` may belong to another library.
  ///
  /// Also true for `cudaStreamLegacy` while a stream that it synchronizes with is being captured.
  /// The query does not affect the capture and takes tens of nanoseconds.
  [[nodiscard]] virtual bool capturing(native_stream*) noexcept { return false; }
  /// Blocks until the work queued on `stream` so far has finished.
  /// @throws error `stream_misuse` if the stream is being captured
  /// @throws error `device_lost` if the device is lost
  virtual void synchronize(native_stream* stream) = 0;

  /// Creates an event without timing.
  /// @throws error `library_failure` if the driver refuses it
  /// @throws error `device_lost` if the device is lost
  [[nodiscard]] virtual native_event* create_event() = 0;
  /// Destroys `event`. Waits for it that are queued stay in effect. The caller must not use the
  /// event again.
  virtual void destroy_event(native_event* event) noexcept = 0;
  /// Whether the last record of `event`, an event of another library, was made in a stream capture.
  ///
  /// A stream that waits for such an event would become part of the capture. On CUDA this query is
  /// itself a forbidden operation on such an event: a running capture may end with an error.
  [[nodiscard]] virtual bool captured(native_event*) noexcept { return false; }
  /// Makes `event` stand for the work queued on `stream` so far.
  ///
  /// `value` must increase with every record of one event.
  /// @throws error `library_failure` if the driver refuses it
  /// @throws error `device_lost` if the device is lost
  virtual void record(native_event* event, std::uint64_t value, native_stream* stream) = 0;
  /// Orders all later work of `stream` after the record of `event` with `value`, or after a later
  /// one.
  ///
  /// The wait occupies only `stream`. CUDA ignores `value`. On CUDA the stream and the event may
  /// belong to another library.
  /// @throws error `stream_misuse` (host device) if that record has not been made
  /// @throws error `library_failure` if the driver refuses it
  /// @throws error `device_lost` if the device is lost
  virtual void wait(native_stream* stream, native_event* event, std::uint64_t value) = 0;
  /// Checks that `follow` accepts `stream`, a stream of another library, as its source.
  ///
  /// The check covers everything that the driver can answer.
  /// @throws error `invalid_argument` if it belongs to another GPU
  /// @throws error `invalid_argument` if it is being captured
  /// @throws error `invalid_argument` (host device) if it is a default stream of CUDA
  /// @throws error `library_failure` if a driver call failed
  /// @throws error `device_lost` if the device is lost
  virtual void require_followable(native_stream* stream) = 0;
  /// Orders all later work of `stream` after the work queued on `source` so far.
  ///
  /// The wait occupies only `stream`. Both streams may belong to another library. On a GPU they are
  /// any `cudaStream_t` of this GPU, including `cudaStreamLegacy` and `cudaStreamPerThread` of the
  /// calling thread. On a host device they are streams of any host device.
  ///
  /// Failures on `source` do not propagate to `stream`, with one exception: if the host device of
  /// `source` is lost, the next ticket of `stream` fails.
  /// @throws error `invalid_argument` if one of them is being captured; the capture is not affected
  /// @throws error `library_failure` if a driver call failed
  /// @throws error `device_lost` if the device is lost
  virtual void follow(native_stream* stream, native_stream* source) = 0;
  /// The state of the record of `event` with `value`.
  ///
  /// The query orders no memory accesses; see `acquire`. After the loss of the device it returns
  /// `lost` on CUDA. On the host it returns `lost` unless the record has already completed.
  [[nodiscard]] virtual event_state query(native_event* event, std::uint64_t value) noexcept = 0;
  /// Makes the effects of the work before a record visible to the calling thread.
  ///
  /// `query` must have returned `complete` or `failed` for that record.
  virtual void acquire(native_event* event, std::uint64_t value) noexcept = 0;
  /// Whether `acquire` has an effect.
  [[nodiscard]] virtual bool needs_acquire() const noexcept { return true; }
  /// The first failure before a record for which `query` returned `failed`.
  [[nodiscard]] virtual error failure_of(native_event* event) = 0;
  /// Whether a launch can fail after it was enqueued without the loss of the device.
  [[nodiscard]] virtual bool reports_task_failures() const noexcept = 0;

  /// Creates a timestamp; null if the device has none.
  /// @throws error `library_failure` if the driver refuses it
  /// @throws error `device_lost` if the device is lost
  [[nodiscard]] virtual native_timestamp* create_timestamp() { return nullptr; }
  /// Destroys a timestamp of this device. Does not wait for a pending record.
  virtual void destroy_timestamp(native_timestamp*) noexcept {}
  /// Records in `stamp` the time at which the work queued on `stream` so far finishes. Returns
  /// whether the record was queued.
  ///
  /// `stamp` must not be recorded again before that time. `stream` must not be captured: events
  /// with timing do not belong in a graph.
  [[nodiscard]] virtual bool record_timestamp(native_timestamp* /*stamp*/,
                                              native_stream* /*stream*/) noexcept {
    return false;
  }
  /// Creates a clock that reads the timestamps of this device; null if the device has none.
  /// @throws error `library_failure` if the driver refuses it
  /// @throws error `device_lost` if the device is lost
  [[nodiscard]] virtual std::unique_ptr<timestamp_clock> make_timestamp_clock() { return nullptr; }

  /// Allocates at least `bytes` (> 0) bytes, aligned to 256 bytes. Every stream may use them at
  /// once.
  /// @throws error `out_of_memory` if the device has no memory
  /// @throws error `device_lost` if the device is lost
  [[nodiscard]] virtual void* allocate(std::size_t bytes) = 0;
  /// Frees memory of `allocate`. No unfinished work may use it. May block.
  virtual void deallocate(void* address) noexcept = 0;
  /// Allocates at least `bytes` (> 0) bytes from the device's pool, aligned to 256 bytes, ordered
  /// on `stream`.
  /// @throws error `out_of_memory` if the device has no memory
  /// @throws error `device_lost` if the device is lost
  [[nodiscard]] virtual void* allocate_async(std::size_t bytes, native_stream* stream) = 0;
  /// Frees memory of `allocate_async`, ordered on `stream`. Does not block.
  virtual void deallocate_async(void* address, native_stream* stream) noexcept = 0;
  /// Frees memory of `allocate_async` at once, in no stream's order. Does not block.
  ///
  /// The caller guarantees that all work on the memory has completed.
  virtual void deallocate_finished(void* address) noexcept = 0;
  /// Returns the memory that the device's pool keeps to the system. Returns the number of bytes, as
  /// far as it is known.
  virtual std::size_t trim_async() noexcept { return 0; }
  /// The bytes that the device's pool has taken from the system: memory in use and kept memory.
  [[nodiscard]] virtual std::size_t pool_bytes() noexcept = 0;
  /// Allocates host memory for transfers at full speed. It is pinned on CUDA.
  /// @throws error `out_of_memory` if there is no memory
  /// @throws error `device_lost` if the GPU is lost
  [[nodiscard]] virtual void* allocate_staging(std::size_t bytes) = 0;
  /// Frees memory of `allocate_staging`. No pending work may use it.
  virtual void deallocate_staging(void* address) noexcept = 0;
  /// Pins memory that was allocated elsewhere, so that copies run at full speed. A host device has
  /// nothing to do.
  /// @throws error `out_of_memory` if it cannot be pinned
  /// @throws error `library_failure` if the driver refuses it, as it does memory that is pinned
  /// @throws error `device_lost` if the GPU is lost
  virtual void pin(void* /*address*/, std::size_t /*bytes*/) {}
  /// Ends what `pin` has begun. No pending work may use the memory.
  virtual void unpin(void* /*address*/) noexcept {}

  /// Enqueues a copy of `bytes` bytes on `stream`.
  ///
  /// Both ranges must stay alive until the copy has finished.
  /// @throws error `library_failure` if the driver refuses it
  /// @throws error `device_lost` if the device is lost
  virtual void copy(void* destination, const void* source, std::size_t bytes,
                    copy_direction direction, native_stream* stream) = 0;
  /// Enqueues a copy of `bytes` bytes from memory of `peer` on `stream`.
  ///
  /// `peer` is another device of the same vendor. The copy is direct if the hardware can do it.
  /// Both ranges must stay alive until the copy has finished.
  /// @throws error `unsupported` on a host device
  /// @throws error `library_failure` if the driver refuses it
  /// @throws error `device_lost` if the device is lost
  virtual void copy_from_peer(void* destination, device& peer, const void* source,
                              std::size_t bytes, native_stream* stream) = 0;
  /// Does the slow preparation of the first `copy_from_peer` from `peer` in advance.
  /// @throws error `library_failure` if a driver call failed
  /// @throws error `device_lost` if the device is lost
  virtual void prepare_copies_from(device& /*peer*/) {}
  /// Whether `wait_for_word` and `write_word` are available.
  [[nodiscard]] virtual bool supports_words() const noexcept { return true; }
  /// Whether a thread sees a word that a stream has written sooner than `query` tells it of an
  /// event behind the same work. If so, the streams of a runtime write a word behind a launch that
  /// is alone on its stream. A device that reports failures of tasks answers false: a word tells of
  /// no failure.
  [[nodiscard]] virtual bool tells_completion_by_words() const noexcept { return false; }
  /// Makes later work of `stream` wait until `word` has reached `value`.
  ///
  /// `word` lies in memory of `allocate_staging`. It has reached `value` when the difference
  /// `word - value`, as a signed 32-bit integer, is not negative. The wait occupies only `stream`.
  /// On CUDA it also occupies the streams that share a hardware queue with `stream`. The write of
  /// the word must therefore not depend on work that is enqueued later.
  /// @throws error `unsupported` if the driver has no stream memory operations
  /// @throws error `library_failure` if the driver refuses it
  /// @throws error `device_lost` if the device is lost
  virtual void wait_for_word(native_stream* stream, const std::atomic<std::uint32_t>& word,
                             std::uint32_t value) = 0;
  /// Sets `word` to `value`, ordered on `stream`.
  ///
  /// `word` lies in memory of `allocate_staging`. A thread that acquires the value sees the bytes
  /// that earlier copies of the stream wrote to the process.
  /// @throws error the errors of `wait_for_word`
  virtual void write_word(native_stream* stream, std::atomic<std::uint32_t>& word,
                          std::uint32_t value) = 0;
  /// Enqueues `count` writes of a pattern to consecutive positions from `destination` on `stream`.
  ///
  /// The pattern has `pattern_bytes` bytes: 1, 2, 4, 8 or 16. It is read during the call.
  /// `destination` is aligned to `pattern_bytes`.
  /// @throws error `invalid_argument` if `pattern_bytes` has another value
  /// @throws error `library_failure` if the driver refuses it
  /// @throws error `device_lost` if the device is lost
  virtual void fill(void* destination, const void* pattern, std::size_t pattern_bytes,
                    std::size_t count, native_stream* stream) = 0;
  /// Calls `function` on a thread of the device after the work queued on `stream` so far.
  ///
  /// If the device is lost, the function may never be called. It must not call the device.
  /// @throws error `library_failure` if the driver refuses it
  /// @throws error `device_lost` if the device is lost
  virtual void notify(native_stream* stream, std::function<void()> function) = 0;

  /// Whether no work of `stream` touches memory any more after the loss of the device.
  ///
  /// Owners of that memory may then be destroyed. Returns false before the loss. `last` is null
  /// while the stream exists. If the stream has been destroyed, or its owner may have destroyed it,
  /// `last` is an event that was recorded after all of its work.
  [[nodiscard]] virtual bool quiescent(native_stream* stream, native_event* last) noexcept = 0;
  /// The same for a stream that exists.
  [[nodiscard]] bool quiescent(native_stream* stream) noexcept {
    return quiescent(stream, nullptr);
  }
  /// Prepares a thread that belongs to sluice, serves only this device and captures no streams.
  ///
  /// The device becomes the thread's current device, and stream captures of other code no longer
  /// restrict the thread. Other threads have this only during calls of the device. User code on
  /// such a thread must run in a `detail::user_code_scope`.
  virtual void prepare_own_thread() noexcept {}

  /// Makes this device the calling thread's current device. Returns a value for the matching
  /// `leave`.
  ///
  /// Calls may be nested. On CUDA the thread's stream capture mode is "relaxed" until `leave`:
  /// captures of other code neither forbid the thread's calls nor are broken by them.
  ///
  /// `leave` undoes a `cudaSetDevice` in between if the thread had a current context before
  /// `enter`. If it had none, the thread keeps that choice for its next context.
  [[nodiscard]] virtual void* enter() noexcept { return nullptr; }
  /// Restores what `enter` changed. Takes the result of the matching `enter`, on the same thread.
  virtual void leave(void*) noexcept {}

  /// Replaces the context that `enter` makes current on the calling thread by one in which streams
  /// are captured, until `leave_capture`. Returns false if the device has no such context.
  ///
  /// On CUDA this is a green context of all multiprocessors (CUDA 12.4 or newer), which the first
  /// call creates. A call of `cudaDeviceSynchronize` in another thread neither fails because of a
  /// capture in that context nor ends it. Calls do not nest.
  [[nodiscard]] virtual bool enter_capture() noexcept { return false; }
  /// Restores the context, on the same thread.
  virtual void leave_capture() noexcept {}

  /// Declares the device lost because of `cause`. Only the first call has an effect.
  ///
  /// A loss is final for the process. In a child of `fork()` the function does nothing for a device
  /// of the parent.
  void lose(const error& cause) noexcept;
  /// Whether the device has been declared lost.
  [[nodiscard]] bool lost() const noexcept { return lost_.load(std::memory_order_acquire); }
  /// Whether the device belongs to the parent of this process.
  ///
  /// In a child of `fork()` every device that the parent had opened is lost. The destructors of
  /// everything that belongs to such a device do nothing, because its threads and its driver state
  /// are the parent's.
  [[nodiscard]] bool inherited() const noexcept {
    return inherited_.load(std::memory_order_relaxed);
  }
  /// Checks that the device is not lost.
  /// @throws error `device_lost`, with the cause of the loss, if the device is lost
  void require_usable() const;
  /// The error that requests receive after a loss: `device_lost` with the text and the status of
  /// the cause.
  [[nodiscard]] error loss() const noexcept;

 protected:
  /// Reacts to the loss. Called once, on the thread that declared it.
  virtual void on_loss() noexcept {}
  /// The activity of the device's threads in this process.
  enum class activity : std::uint8_t { none, task, library_call };
  /// The activity that is likely to last longest, without that of the calling thread. Called at the
  /// exit of the process, after the loss.
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

/// Makes a device the calling thread's current device during a scope. See `device::enter`.
///
///     const current_device_scope scope(runtime.device());
///     cublasCreate(&handle);
///
/// During the scope, stream captures of other code do not restrict the thread. The destructor
/// restores the previous device and capture mode.
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

/// Opens the device called `name`: "host", "host:0", "cuda", "cuda:N" or "auto".
///
/// "cuda" is the first GPU. "auto" is the first GPU, or the host device if there is no GPU. Several
/// openings of one GPU share the hardware. Each opening of the host device is a separate device.
/// @throws error `invalid_argument` if `name` has none of these forms
/// @throws error `invalid_argument` if there is no such device
/// @throws error `library_failure` if the driver refuses it
[[nodiscard]] SLUICE_EXPORT std::shared_ptr<device> open_device(std::string_view name = "auto");

/// The devices that `open_device` can open, GPUs first. A missing driver is not an error: the list
/// then has no GPUs.
[[nodiscard]] SLUICE_EXPORT std::vector<device_info> list_devices();

}  // namespace sluice
