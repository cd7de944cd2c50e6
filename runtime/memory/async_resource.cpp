// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/size_class.hpp"
#include "runtime/memory/pooled_memory.hpp"
#include "runtime/reports/report.hpp"
#include "runtime/timelines/timeline.hpp"

#include <sluice/runtime/memory_resource.hpp>

#include <algorithm>
#include <atomic>
#include <new>
#include <optional>
#include <utility>

namespace sluice {
namespace {

class async_resource final : public memory_resource {
 public:
  void bind(resource_context& context) override {
    context_ = &context;
    if (context.charged()) pooled_.emplace(context);
  }

  granted_memory allocate(const allocation_request& request) override {
    const auto bytes = footprint(request.bytes);
    granted_memory granted{
        .memory = {nullptr, bytes, request.tag, request.generation},
        .ready_at = point_reservation(request.stream),
    };
    detail::pooled_memory::free entry;
    if (pooled_ && request.reservation == nullptr) {
      entry = pooled_->take_for(bytes, request.stream.id());
    }
    const bool charged = entry.empty();
    if (charged) context_->charge(bytes, request);
    try {
      if (!detail::timeline::of(request.stream)->unless_retired([&](native_stream* native) {
            granted.memory.address = context_->device().allocate_async(bytes, native);
          })) {
        throw error(errc::stream_misuse, "the stream has been destroyed");
      }
    } catch (...) {
      if (charged) {
        context_->cancel_charge(bytes, request);
      } else {
        const auto point = entry.value().point;
        pooled_->add(std::move(entry), point);
      }
      throw;
    }
    return granted;
  }

  void deallocate(allocation memory, stream_ref stream,
                  std::span<const timeline_point> unfinished) noexcept override {
    try {
      if (pooled_) {
        give_back_charged(memory, stream, unfinished);
      } else {
        give_back(memory, stream, unfinished);
        context_->discharge(memory);
      }
    } catch (...) {
      detail::report("memory could not be freed", current_error().what());
    }
  }

  std::size_t trim() noexcept override {
    if (!pooled_) return context_->device().trim_async();
    if (pending_frees_.load(std::memory_order_relaxed) != 0) context_->finish_reclaiming();
    return pooled_->release();
  }
  /// Under a budget sizes are rounded like those of a pool, so that freed memory can be reused.
  std::size_t footprint(std::size_t bytes) const noexcept override {
    return pooled_ ? detail::size_class(bytes) : bytes;
  }
  bool supports_use_tracking() const noexcept override { return true; }
  std::string_view name() const noexcept override { return "async"; }

 private:
  [[nodiscard]] static bool only_on(stream_ref stream,
                                    std::span<const timeline_point> points) noexcept {
    return std::all_of(points.begin(), points.end(),
                       [&](const timeline_point& point) { return point.stream == stream.id(); });
  }

  /// Queues the free on `stream`, unless that has been retired or is being captured: the free would
  /// belong to the graph. Returns whether it did.
  [[nodiscard]] bool free_on(stream_ref stream, void* address) noexcept {
    auto& timeline = *detail::timeline::of(stream);
    return !timeline.captured() && timeline.unless_retired([&](native_stream* native) noexcept {
      context_->device().deallocate_async(address, native);
    });
  }

  /// Frees without a budget: the driver orders the free after the uses.
  void give_back(const allocation& memory, stream_ref stream,
                 std::span<const timeline_point> unfinished) {
    if (only_on(stream, unfinished) && free_on(stream, memory.address)) return;
    free_on_reclaim_stream(memory, unfinished);
  }

  // The waits are queued on the reclaim stream, because a free must not delay launches.
  void free_on_reclaim_stream(const allocation& memory,
                              std::span<const timeline_point> unfinished) {
    const auto reclaim = context_->reclaim_stream();
    for (const auto& point : unfinished) context_->wait(reclaim, point);
    context_->device().deallocate_async(memory.address, reclaim.native());
  }

  /// Frees under a budget: the memory stays charged until the device is known to have reached the
  /// free.
  void give_back_charged(const allocation& memory, stream_ref stream,
                         std::span<const timeline_point> unfinished) {
    const auto holds_for_all = [&](auto condition) {
      return std::all_of(unfinished.begin(), unfinished.end(), condition);
    };
    if (holds_for_all([&](const timeline_point& point) { return context_->settled(point); })) {
      return free_finished(memory);
    }
    const bool finished =
        holds_for_all([&](const timeline_point& point) { return context_->completed(point); });
    if (!finished && only_on(stream, unfinished) && free_charged_on(stream, memory)) return;
    if (!context_->completion_orders()) {
      auto freed = detail::pooled_memory::make(memory.bytes);
      point_reservation place(context_->reclaim_stream());
      free_on_reclaim_stream(memory, unfinished);
      note(memory, std::move(freed),
           finished ? timeline_point{} : point_behind(context_->reclaim_stream(), place));
      return;
    }
    // Each free waits for its own points, so frees do not wait for each other.
    pending_frees_.fetch_add(1, std::memory_order_relaxed);
    try {
      context_->reclaim_after(
          unfinished, memory,
          [](void* owner, allocation m) noexcept {
            auto& resource = *static_cast<async_resource*>(owner);
            resource.free_finished(m);
            resource.pending_frees_.fetch_sub(1, std::memory_order_relaxed);
          },
          this);
    } catch (...) {
      pending_frees_.fetch_sub(1, std::memory_order_relaxed);
      throw;
    }
  }

  /// Frees memory that no work uses.
  void free_finished(const allocation& memory) noexcept {
    context_->device().deallocate_finished(memory.address);
    try {
      note(memory, detail::pooled_memory::make(memory.bytes), {});
    } catch (const std::bad_alloc&) {
      context_->note_pooled(memory);
      (void)pooled_->release(memory.bytes);
    }
  }

  /// Queues the free on `stream` and takes a ticket after it. Returns whether it did.
  [[nodiscard]] bool free_charged_on(stream_ref stream, const allocation& memory) {
    auto freed = detail::pooled_memory::make(memory.bytes);
    point_reservation place;
    try {
      place = point_reservation(stream);
    } catch (const error&) {
      return false;  // an adopted stream that is being captured
    }
    if (!free_on(stream, memory.address)) return false;
    note(memory, std::move(freed), point_behind(stream, place));
    return true;
  }

  /// A point after everything queued on `stream`, which may have been retired meanwhile.
  [[nodiscard]] static timeline_point point_behind(stream_ref stream, point_reservation& place) {
    try {
      return {stream.id(), detail::timeline::take(place)->submit()};
    } catch (...) {
      // The last ticket of a retired stream follows everything. Otherwise the next ticket will.
      const bool retired = detail::timeline::of(stream)->retired();
      auto point = detail::timeline::of(stream)->newest();
      if (!retired) ++point.ticket;
      return point;
    }
  }

  void note(const allocation& memory, detail::pooled_memory::free freed,
            timeline_point point) noexcept {
    context_->note_pooled(memory);
    pooled_->add(std::move(freed), point);
  }

  resource_context* context_ = nullptr;
  std::optional<detail::pooled_memory> pooled_;  // set under a budget
  std::atomic<std::size_t> pending_frees_{0};    // frees that the reclaim thread has not made yet
};

}  // namespace

std::unique_ptr<memory_resource> make_async_resource() {
  return std::make_unique<async_resource>();
}

}  // namespace sluice
