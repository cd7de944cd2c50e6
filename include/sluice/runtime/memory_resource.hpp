// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/export.hpp>
#include <sluice/runtime/stream.hpp>
#include <sluice/runtime/timeline_point.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>

namespace sluice {

/// States what memory is for. Errors, logs and statistics name the tag.
///
///     const auto x = runtime.allocate<float>(1000, stream, "weights");
///
/// A tag is made from a string literal at compile time and costs nothing at run time.
class allocation_tag {
 public:
  constexpr allocation_tag() noexcept = default;
  /// Makes the tag `name`, a string literal.
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

/// The arguments of an allocation.
struct allocation_request {
  std::size_t bytes = 0;                      ///< more than 0
  stream_ref stream{};                        ///< the memory is ready in the order of this stream
  allocation_tag tag{};                       ///< purpose of the memory
  std::uint64_t generation = 0;               ///< generation of the block; see `allocation`
  memory_reservation* reservation = nullptr;  ///< reservation that is charged first; may be null
};

/// Raw device memory of a resource.
struct allocation {
  void* address = nullptr;  ///< address of the first byte
  std::size_t bytes = 0;    ///< granted bytes, which may be more than the requested ones
  allocation_tag tag{};     ///< purpose of the memory
  /// The generation of the block in this memory, unique in its runtime. 0 for kept memory.
  std::uint64_t generation = 0;
  /// The tag for which a pool took the memory from upstream, before it handed the memory out again.
  allocation_tag first_tag{};
};

/// A reserved place for one more point of a stream. Taking the point later allocates nothing.
///
/// The destructor returns an unused place. Different objects may be used on different threads.
class SLUICE_EXPORT point_reservation {
 public:
  point_reservation() noexcept = default;
  /// Reserves a place on `stream`.
  /// @throws error `stream_misuse` if `stream` is empty, or is adopted and being captured
  /// @throws error `library_failure` if an event cannot be created
  /// @throws error `device_lost` if the device is lost
  /// @throws std::bad_alloc if the host has no memory
  explicit point_reservation(stream_ref stream);
  point_reservation(point_reservation&& other) noexcept
      : timeline_(std::exchange(other.timeline_, nullptr)) {}
  point_reservation& operator=(point_reservation&& other) noexcept {
    std::swap(timeline_, other.timeline_);
    return *this;
  }
  ~point_reservation() {
    if (timeline_ != nullptr) give_back();
  }
  /// Whether the object holds a place.
  [[nodiscard]] explicit operator bool() const noexcept { return timeline_ != nullptr; }

 private:
  friend class detail::timeline;
  void give_back() noexcept;

  detail::timeline* timeline_ = nullptr;
};

/// The answer of a resource to one request: memory with its order.
struct granted_memory {
  allocation memory{};  ///< the memory
  /// If it holds a place, the memory is ready only in the order of the requesting stream. The
  /// runtime then makes the allocation a use of the block and takes its point from this place.
  point_reservation ready_at{};
  /// Unfinished uses of the memory's previous block. Every use of the new block waits for all of
  /// them until the first write has been committed. A point of another runtime makes the allocation
  /// fail with `stream_misuse`.
  timeline_points inherited{};
};

/// The services of a runtime for its memory resource. Thread-safe. Outlives the resource.
class SLUICE_EXPORT resource_context {
 public:
  resource_context() = default;
  resource_context(const resource_context&) = delete;
  resource_context& operator=(const resource_context&) = delete;
  virtual ~resource_context() = default;

  /// The device of the runtime.
  [[nodiscard]] virtual sluice::device& device() noexcept = 0;
  /// The runtime's stream for frees that must wait. It carries no launches.
  [[nodiscard]] virtual stream_ref reclaim_stream() noexcept = 0;
  /// Whether `point` is known to have completed and stands for a wait.
  ///
  /// If so, the effects of its work are visible to the calling thread. Always false for a point of
  /// another runtime, and if `completion_orders` is false.
  [[nodiscard]] virtual bool settled(timeline_point point) const noexcept = 0;
  /// Queries the device for the progress of the stream of `point`. `settled` and `completed` then
  /// use the answer.
  virtual void look_at(timeline_point point) noexcept = 0;
  /// Whether a completed point stands for a wait.
  ///
  /// If `runtime_options::explicit_waits` is set, it does not: `settled` returns false, and only
  /// `completed` tells whether a point has completed.
  [[nodiscard]] virtual bool completion_orders() const noexcept = 0;
  /// Whether `point` is known to have completed, whether or not it stands for a wait.
  ///
  /// If so, the effects of its work are visible to the calling thread. Always false for a point of
  /// another runtime.
  [[nodiscard]] virtual bool completed(timeline_point point) const noexcept = 0;
  /// Orders later work of `stream` after `point`.
  /// @throws error `stream_misuse` if the stream or the point is of another runtime
  /// @throws error `stream_misuse` if the point has not been taken
  /// @throws error `device_lost` if the device is lost
  /// @throws error `library_failure` if a driver call failed
  virtual void wait(stream_ref stream, timeline_point point) = 0;
  /// Calls `reclaim` with `owner` and `memory` on the reclaim thread, after all `points` have
  /// completed.
  ///
  /// `owner` must live until then. A resource lives long enough if it passes itself before its
  /// destructor runs. If the device is lost, the memory stays with it. `reclaim` is then called
  /// only for an empty allocation, once nothing runs any more.
  ///
  /// If the function throws, it has taken nothing over.
  /// @throws error `stream_misuse` if a point is of another runtime or has not been taken
  /// @throws std::bad_alloc if the host has no memory
  /// @throws std::system_error if the reclaim thread cannot be started
  virtual void reclaim_after(std::span<const timeline_point> points, allocation memory,
                             void (*reclaim)(void* owner, allocation) noexcept, void* owner) = 0;

  /// The release list of this runtime, with the owners of completed launches; null if there is
  /// none.
  ///
  /// A thread that is short of memory may drain it, also after the end of the runtime.
  [[nodiscard]] virtual std::shared_ptr<detail::release_list> owners() noexcept { return nullptr; }

  /// Waits until the reclaim thread has reclaimed everything of `reclaim_after` whose points have
  /// completed by now.
  ///
  /// It waits at most a second. On the reclaim thread it does nothing.
  virtual void finish_reclaiming() noexcept = 0;

  /// Whether a budget above the resource is charged.
  [[nodiscard]] virtual bool charged() const noexcept { return false; }
  /// Announces that a resource is about to take `bytes` bytes from the device. Budgets are charged
  /// here.
  /// @throws error `over_budget` if a budget would be exceeded
  virtual void charge(std::size_t bytes, const allocation_request& request) {
    (void)bytes, (void)request;
  }
  /// Revokes `charge`: the resource did not get the memory.
  virtual void cancel_charge(std::size_t bytes, const allocation_request& request) noexcept {
    (void)bytes, (void)request;
  }
  /// Announces that a resource has returned `memory` to the device.
  virtual void discharge(const allocation& memory) noexcept { (void)memory; }
  /// Announces that a resource has returned `memory` to the device's own pool, which may keep it.
  /// The charge stays until `discharge_pooled`.
  virtual void note_pooled(const allocation& memory) noexcept { (void)memory; }
  /// Announces that the device's pool no longer keeps these bytes, or that they have been charged
  /// again.
  virtual void discharge_pooled(std::size_t bytes) noexcept { (void)bytes; }
};

/// The kind of a misuse of a block.
enum class memory_misuse : std::uint8_t {
  double_free,  ///< freed twice
  stale_use,    ///< used after it was freed
};

/// Allocates and frees raw device memory in stream order.
///
///     device_runtime runtime{open_device("auto"), {.resource = make_guard_resource(
///         make_pool_resource(make_async_resource()))}};
///
/// Resources compose into a stack. A resource belongs to one runtime. The runtime binds it before
/// the first allocation and destroys it after the last free.
///
/// A resource that wraps another one derives from `memory_adaptor`, which forwards every function:
/// budgets, reservations, trimming and reports of misuse rely on all of them.
///
/// All functions are thread-safe. They must not change the calling thread's current device, because
/// threads of sluice rely on it. docs/concepts/memory.md has the contract of a resource.
class SLUICE_EXPORT memory_resource {
 public:
  memory_resource() = default;
  memory_resource(const memory_resource&) = delete;
  memory_resource& operator=(const memory_resource&) = delete;
  virtual ~memory_resource() = default;

  /// Binds the resource to its runtime. The runtime calls it once, before any other function.
  /// @throws error any error of the resource; the constructor of the runtime then throws it
  virtual void bind(resource_context& context) = 0;
  /// Allocates at least `request.bytes` bytes, aligned to 256 bytes. The grant states when they are
  /// ready.
  ///
  /// The runtime passes the granted `memory` to `deallocate`.
  /// @throws error `out_of_memory` if the device has no memory
  /// @throws error `over_budget` if a budget would be exceeded
  /// @throws error `device_lost` if the device is lost
  [[nodiscard]] virtual granted_memory allocate(const allocation_request& request) = 0;
  /// Frees `memory` as it was granted.
  ///
  /// `stream` is the stream of the last grant, or the reclaim stream. `unfinished` are the points
  /// of work that may still use the memory, on any stream. The function neither blocks nor delays a
  /// stream that carries launches.
  virtual void deallocate(allocation memory, stream_ref stream,
                          std::span<const timeline_point> unfinished) noexcept = 0;
  /// Whether `deallocate` is expected to keep this many bytes.
  ///
  /// If so, `deallocate` neither calls the device nor blocks. Otherwise the completion thread
  /// leaves the call to the reclaim thread.
  [[nodiscard]] virtual bool keeps(std::size_t /*bytes*/) const noexcept { return false; }
  /// Returns kept memory to its source, after its last uses.
  ///
  /// Returns the number of bytes that the outermost resource with kept memory returned, as far as
  /// it is known.
  virtual std::size_t trim() noexcept { return 0; }
  /// Returns kept memory that no unfinished work uses, because memory is short. Keeps the rest.
  ///
  /// Does not wait for work of the device. Returns the number of bytes like `trim`.
  virtual std::size_t release_unused() noexcept { return trim(); }
  /// Does the same as `release_unused`, and also for other runtimes on the device that the resource
  /// knows.
  virtual std::size_t make_room() noexcept { return release_unused(); }
  /// Destroys the owners of completed launches of all runtimes that `make_room` affects.
  virtual void drop_owners() noexcept {}
  /// The most bytes that a request could obtain if all kept memory were returned. The largest
  /// number if there is no limit.
  [[nodiscard]] virtual std::size_t max_obtainable() const noexcept { return ~std::size_t{0}; }
  /// Announces the end of the resource. Other runtimes must not request room from it
  /// afterwards.
  virtual void close() noexcept {}
  /// The most bytes that a request for `bytes` bytes takes from the device, after rounding.
  [[nodiscard]] virtual std::size_t footprint(std::size_t bytes) const noexcept { return bytes; }
  /// Reserves `bytes`, a sum of footprints, for later requests. Empty if nothing limits them.
  /// @throws error `over_budget` if a budget would be exceeded
  [[nodiscard]] virtual memory_reservation reserve(std::size_t bytes);
  /// Receives a misuse that the runtime has refused. `memory` has the known facts of the block.
  virtual void note_misuse(memory_misuse misuse, const allocation& memory) noexcept {
    (void)misuse, (void)memory;
  }
  /// Whether recorders may use blocks of the resource. If not, preflight throws `stream_misuse`.
  [[nodiscard]] virtual bool supports_use_tracking() const noexcept = 0;
  /// A short name for errors, logs and statistics.
  [[nodiscard]] virtual std::string_view name() const noexcept = 0;
};

/// Options of `make_direct_resource`.
struct direct_options {
  /// Track uses, and free a block after they have completed.
  ///
  /// Without it, recorders reject the block. The owner of the last reference must then ensure that
  /// no work uses the memory.
  bool tracked = false;
};
/// Makes a resource with plain allocations, for sanitizers.
///
/// Each block is a separate allocation of the system or the driver, ready at once on every stream.
/// The reclaim thread frees it after its known uses. A free of the driver may wait for the whole
/// device, but neither the caller nor a stream waits for it. Blocks are freed in no particular
/// order. If the host has no memory to note a free, the block stays allocated, which is reported.
[[nodiscard]] SLUICE_EXPORT std::unique_ptr<memory_resource> make_direct_resource(
    direct_options options = {});

/// Options of `make_pool_resource`.
struct pool_options {
  /// The most bytes that the pool keeps. A free beyond it returns the memory to upstream.
  std::size_t max_kept = ~std::size_t{0};
  /// Hand out memory with unfinished uses on other streams before taking more from upstream. This
  /// saves memory and makes streams wait for each other.
  bool prefer_unfinished = false;
};

/// Makes a pool: free lists by size and stream over `upstream`.
///
/// A block carries the points of its last uses. Its next use waits for those that have not
/// completed. The pool itself waits for nothing, and in a steady state it makes no driver call.
///
/// *Sizes.* The pool rounds sizes up to eight classes per power of two, in steps of at least 256
/// bytes. Above 2 KiB this wastes at most an eighth.
///
/// *Search.* The pool looks in this order:
/// - among the newest blocks of the requesting stream, for one that no other stream may still use
/// - among all blocks, for one that no other stream may still use; the pool queries the device
///   first
/// - in `upstream`
/// - if that fails, for a block with unfinished uses on other streams
///
/// *Growth.* With 256 or fewer kept blocks of a size, the pool grows only if all of them may still
/// be in use on other streams. With more, a search looks at 256 of them on average, in turn, so
/// some may have become usable since it looked. If a completed use does not stand for a wait
/// (`runtime_options::explicit_waits`), memory that several streams used counts as in use until
/// memory is short.
///
/// *Shortage.* If memory is short, the pool returns blocks that no unfinished work uses and keeps
/// the rest. docs/concepts/memory.md gives the reasons.
/// @throws error `invalid_argument` if `upstream` is null
/// @throws error `invalid_argument` if `upstream` does not track uses
[[nodiscard]] SLUICE_EXPORT std::unique_ptr<memory_resource> make_pool_resource(
    std::unique_ptr<memory_resource> upstream, pool_options options = {});

/// Makes a resource over the device's own stream-ordered pool. Tracks uses.
///
/// On CUDA it is `cudaMallocAsync` from a pool that belongs to the opened device. Memory is ready
/// in the order of the requesting stream.
///
/// The calling thread queues a free and does not wait. If no other stream uses the memory any more,
/// the free is queued on the requesting stream. Otherwise, or if that stream has been destroyed, it
/// is queued on the reclaim stream, after waits for the other uses. No stream that carries launches
/// waits for a free. If a wait cannot be queued, the memory stays allocated, which is reported.
///
/// Under a budget, a free that must wait for another stream is left to the reclaim thread. It
/// returns the memory to the device's pool after that work has completed. `make_budget_resource`
/// states how long memory is charged.
[[nodiscard]] SLUICE_EXPORT std::unique_ptr<memory_resource> make_async_resource();

/// Makes the default stack: the device's budget over a pool over `async`.
[[nodiscard]] SLUICE_EXPORT std::unique_ptr<memory_resource> make_default_resource();

}  // namespace sluice
