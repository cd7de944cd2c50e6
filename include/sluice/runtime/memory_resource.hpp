// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/stream.hpp>
#include <sluice/runtime/timeline_point.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace sluice {

/// Says what memory is for; errors, logs and statistics name it. Made from a string literal, so it
/// costs nothing.
class allocation_tag {
 public:
  constexpr allocation_tag() noexcept = default;
  /// The tag with this name, a string literal.
  template <std::size_t Size>
  // NOLINTNEXTLINE(google-explicit-constructor): written as a literal at every call.
  consteval allocation_tag(const char (&name)[Size]) noexcept : name_(name, Size - 1) {}
  /// The name, with static storage duration.
  [[nodiscard]] constexpr std::string_view name() const noexcept { return name_; }

 private:
  std::string_view name_ = "untagged";
};

class memory_reservation;

namespace detail {
class release_list;
}

/// What a resource is asked for.
struct allocation_request {
  std::size_t bytes = 0;                      ///< more than 0
  stream_ref stream{};                        ///< the memory is ready in its order
  allocation_tag tag{};                       ///< what the memory is for
  std::uint64_t generation = 0;               ///< of the block that it is for; see `allocation`
  memory_reservation* reservation = nullptr;  ///< what it is charged to first, if anything
};

/// Raw device memory as a resource hands it out.
struct allocation {
  void* address = nullptr;  ///< address of the first byte
  std::size_t bytes = 0;    ///< as granted, which may be more than was asked for
  allocation_tag tag{};     ///< what the memory is for
  /// Of the block that lies there, unique in its runtime; 0 for memory that is kept for later.
  std::uint64_t generation = 0;
  /// What a pool took it for first, before it handed it out again for something else.
  allocation_tag first_tag{};
};

/// A place for one more point of a stream, so that its making, later, allocates nothing. Given back
/// unless it is used. Thread-safe as an object of its own.
class point_reservation {
 public:
  point_reservation() noexcept = default;
  /// @throws error `stream_misuse` (no stream), `library_failure`, `device_lost`; std::bad_alloc
  explicit point_reservation(stream_ref stream);
  point_reservation(point_reservation&& other) noexcept : on_(std::exchange(other.on_, nullptr)) {}
  point_reservation& operator=(point_reservation&& other) noexcept {
    std::swap(on_, other.on_);
    return *this;
  }
  ~point_reservation() {
    if (on_ != nullptr) give_back();
  }
  /// Whether it holds a place.
  [[nodiscard]] explicit operator bool() const noexcept { return on_ != nullptr; }

 private:
  friend class detail::timeline;
  void give_back() noexcept;

  detail::timeline* on_ = nullptr;
};

/// What a resource grants for one request.
struct granted_memory {
  allocation memory{};  ///< the memory
  /// Not empty: the memory is ready only in the order of the stream it was asked for on, so the
  /// runtime makes the allocation a use of the block, with this place for its point.
  point_reservation ready_at{};
  /// Uses of what lay there before which may not have ended. Until the block's first write has been
  /// committed, every use of it waits for all of them. With a point of another runtime the
  /// allocation is refused with `stream_misuse`.
  timeline_points inherited{};
};

/// What a resource may ask of the runtime that it belongs to. Thread-safe. Alive until after the
/// resource is destroyed.
class resource_context {
 public:
  resource_context() = default;
  resource_context(const resource_context&) = delete;
  resource_context& operator=(const resource_context&) = delete;
  virtual ~resource_context() = default;

  /// The device of the runtime.
  [[nodiscard]] virtual sluice::device& device() noexcept = 0;
  /// A stream of the runtime's own that carries no launches, for frees that have to wait.
  [[nodiscard]] virtual stream_ref reclaim_stream() noexcept = 0;
  /// Whether `point` is known to have completed; if so its effects are visible to this thread, as
  /// if it had waited. Never for a point of another runtime.
  [[nodiscard]] virtual bool settled(timeline_point point) const noexcept = 0;
  /// Asks the device how far the stream of `point` is; then `settled` knows.
  virtual void look_at(timeline_point point) noexcept = 0;
  /// Whether a completed point may stand for a wait. Without it (`runtime_options::explicit_waits`)
  /// `settled` says no, and only `completed` tells what has ended.
  [[nodiscard]] virtual bool completion_orders() const noexcept = 0;
  /// As `settled`, also where a completed point does not stand for a wait.
  [[nodiscard]] virtual bool completed(timeline_point point) const noexcept = 0;
  /// Orders `stream` after `point`. @throws error `stream_misuse` (a stream or a point of another
  /// runtime, or a point that has not been made), `device_lost`, `library_failure`
  virtual void wait(stream_ref stream, timeline_point point) = 0;
  /// Calls `reclaim` with `memory` on the runtime's reclaim thread once all `points` have
  /// completed. `owner`, handed back to it, lives until then: a resource does, if it is handed over
  /// before its destructor. Once the device is lost memory stays with it, and `reclaim` is called
  /// only for the empty allocation, when nothing runs any more. @throws error `stream_misuse` (a
  /// point of another runtime, or one that has not been made); std::bad_alloc, std::system_error.
  /// Then nothing was taken over
  virtual void reclaim_after(std::span<const timeline_point> points, allocation memory,
                             void (*reclaim)(void* owner, allocation) noexcept, void* owner) = 0;

  /// The owners of completed launches that this runtime has not dropped yet: whoever is short of
  /// memory may drop them, in its own thread and also after the runtime's end. Null where there are
  /// none to drop.
  [[nodiscard]] virtual std::shared_ptr<detail::release_list> owners() noexcept { return nullptr; }

  /// Waits until everything handed to `reclaim_after`, of this runtime, whose points have completed
  /// by now has been reclaimed. On the reclaim thread it does nothing.
  virtual void finish_reclaiming() noexcept = 0;

  /// Whether what the resource takes is charged to a budget further up.
  [[nodiscard]] virtual bool charged() const noexcept { return false; }
  /// A resource that gets memory from the device says so before. Budgets count here. @throws error
  /// `over_budget`
  virtual void charge(std::size_t bytes, const allocation_request& request) {
    (void)bytes, (void)request;
  }
  /// It did not get them.
  virtual void cancel_charge(std::size_t bytes, const allocation_request& request) noexcept {
    (void)bytes, (void)request;
  }
  /// It has given `memory` back to the device.
  virtual void discharge(const allocation& memory) noexcept { (void)memory; }
  /// It has given `memory` back to the device's own pool, which may keep it: the charge stays until
  /// `discharge_pooled`.
  virtual void note_pooled(const allocation& memory) noexcept { (void)memory; }
  /// The device's pool no longer keeps these bytes, or they have been charged again.
  virtual void discharge_pooled(std::size_t bytes) noexcept { (void)bytes; }
};

/// How a block was used against the rules.
enum class memory_misuse : std::uint8_t {
  double_free,  ///< it was given back twice
  stale_use,    ///< it was used after it had been given back
};

/// Gives and takes raw device memory in stream order. A resource belongs to one runtime, which
/// binds it before the first allocation and destroys it after the last free. All functions are
/// thread-safe. They leave the calling thread's current device as it was: threads of sluice's own
/// rely on theirs.
class memory_resource {
 public:
  memory_resource() = default;
  memory_resource(const memory_resource&) = delete;
  memory_resource& operator=(const memory_resource&) = delete;
  virtual ~memory_resource() = default;

  /// Called once by the runtime, before anything else.
  virtual void bind(resource_context& context) = 0;
  /// At least `request.bytes` of memory, aligned to 256 bytes, for use as the grant says.
  /// `memory.bytes` is what `deallocate` gets to see. @throws error `out_of_memory`, `over_budget`,
  /// `device_lost`
  [[nodiscard]] virtual granted_memory allocate(const allocation_request& request) = 0;
  /// Takes `memory` back as it was granted. `stream` is the one that it was granted for last, or
  /// the reclaim stream; `unfinished` are the points that may still touch it, on any stream.
  /// Neither blocks nor delays a stream that carries launches.
  virtual void deallocate(allocation memory, stream_ref stream,
                          std::span<const timeline_point> unfinished) noexcept = 0;
  /// Whether `deallocate` is expected to keep this many bytes for later, so that it calls neither
  /// the device nor anything that may block. If not, the completion thread leaves the call to the
  /// reclaim thread.
  [[nodiscard]] virtual bool keeps(std::size_t /*bytes*/) const noexcept { return false; }
  /// Gives what is kept for later back to where it came from, behind its last uses. Returns how
  /// many bytes the outermost resource that keeps any gave up, as far as is known.
  virtual std::size_t trim() noexcept { return 0; }
  /// Gives back what is kept for later and no unfinished work uses, because memory is short; the
  /// rest stays for later. Waits for no work of the device.
  virtual std::size_t release_unused() noexcept { return trim(); }
  /// The same, and also what others on the device keep, as far as this resource knows them.
  virtual std::size_t make_room() noexcept { return release_unused(); }
  /// Drops the owners of completed launches of all runtimes that `make_room` would ask.
  virtual void drop_owners() noexcept {}
  /// The most bytes that a request could get if all that is kept were given back, whenever that is
  /// possible. The largest number where nothing limits it.
  [[nodiscard]] virtual std::size_t most_obtainable() const noexcept { return ~std::size_t{0}; }
  /// Before the resource goes: nobody else may ask it for room any more.
  virtual void close() noexcept {}
  /// How much a request for `bytes` takes from the device at most.
  [[nodiscard]] virtual std::size_t footprint(std::size_t bytes) const noexcept { return bytes; }
  /// Sets `bytes`, a sum of footprints, aside for requests to come. Empty where nothing limits
  /// them. @throws error `over_budget`
  [[nodiscard]] virtual memory_reservation reserve(std::size_t bytes);
  /// Told of misuse that the runtime has refused. `memory` is what is known of the block.
  virtual void note_misuse(memory_misuse misuse, const allocation& memory) noexcept {
    (void)misuse, (void)memory;
  }
  /// Whether blocks of this resource may be recorded. Without it preflight answers `stream_misuse`.
  [[nodiscard]] virtual bool supports_use_tracking() const noexcept = 0;
  /// A short name for errors, logs and statistics.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
};

/// See `make_direct_resource`.
struct direct_options {
  /// Track uses and free a block only once they have completed, on the reclaim thread. Without it,
  /// recording a block is refused, and whoever drops the last reference must know that no work
  /// touches it any more.
  bool tracked = false;
};
/// Plain allocation, for sanitizers: every block is a system or driver allocation of its own, ready
/// on every stream at once. It is freed on the runtime's reclaim thread, which waits there for the
/// uses that it has been told of: a driver's free may wait for the whole device, and neither the
/// caller nor any stream waits for it. Blocks go in no particular order. Without memory on the host
/// to note a free, the block stays allocated, which is reported.
[[nodiscard]] std::unique_ptr<memory_resource> make_direct_resource(direct_options options = {});

/// Free lists over another resource, by size and stream.
struct pool_options {
  /// Bytes that the pool keeps for later at most; a free beyond goes back to where it came from.
  std::size_t most_kept = ~std::size_t{0};
  /// Hand out memory whose last use on another stream has not ended before asking for more: less
  /// memory, but streams then wait for each other.
  bool prefer_unfinished = false;
};

/// Hands freed memory out again without a wait of anybody, and in a steady state without a call of
/// the driver: a block carries the points of its last uses, and its next use waits for those that
/// have not completed.
///
/// Sizes are rounded up to eight classes per power of two, in steps of at least 256 bytes: above
/// 2 KiB at most an eighth is wasted. In this order it looks for: memory that the asking stream had
/// last and no other stream may still be using, among the few blocks freed last; any memory that no
/// other stream may still be using (it asks the device before it asks for more); new memory from
/// `upstream`; where there is none, memory with unfinished uses elsewhere. `upstream` must support
/// use tracking. When memory is short it gives back what no unfinished work uses and keeps the
/// rest.
///
/// What it keeps is bounded by what is in use: while 256 blocks of a size or fewer are kept, it
/// asks for more of that size only when a use of each on another stream is not known to be over. Of
/// more than that it looks at 256 for each allocation on average, in turn, so that some which were
/// in use when it looked may no longer be. Where a completed use does not stand for a wait
/// (`runtime_options::explicit_waits`), memory that several streams used counts as in use until
/// memory is short.
/// @throws error `invalid_argument` (no upstream, or one that does not track)
[[nodiscard]] std::unique_ptr<memory_resource> make_pool_resource(
    std::unique_ptr<memory_resource> upstream, pool_options options = {});

/// The device's own stream-ordered pool: `cudaMallocAsync` from a pool of this process's runtime on
/// CUDA. Memory is ready in the order of the stream it was asked for on. A free is queued by the
/// calling thread, which does not wait: on that stream where nothing else uses the memory any more,
/// otherwise, or when the stream has been retired, on the runtime's reclaim stream behind waits for
/// the other uses; no stream that carries launches waits for a free. Where a wait cannot be queued
/// the memory stays allocated, which is reported. Tracks uses.
///
/// Under a budget a free that has to wait for another stream goes by the reclaim thread, which
/// returns the memory to the device's pool once that work has completed. See
/// `make_budget_resource` for what is charged until when.
[[nodiscard]] std::unique_ptr<memory_resource> make_async_resource();

/// What a runtime uses unless told otherwise: the device's budget over a pool over `async`.
[[nodiscard]] std::unique_ptr<memory_resource> make_default_resource();

}  // namespace sluice
