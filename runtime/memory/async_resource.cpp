#include "runtime/runtime_core.hpp"

#include <sluice/runtime/memory_resource.hpp>

#include <algorithm>

namespace sluice {
namespace {

class async_resource final : public memory_resource {
 public:
  void bind(resource_context& context) override { context_ = &context; }

  granted_memory allocate(const allocation_request& request) override {
    granted_memory granted{
        .memory = {nullptr, request.bytes, request.tag, request.generation},
        .ready_at = point_reservation(request.stream),
    };
    context_->charge(request.bytes, request);
    try {
      if (!request.stream.timeline()->unless_retired([&](native_stream* native) {
            granted.memory.address = context_->device().allocate_async(request.bytes, native);
          })) {
        throw error(errc::stream_misuse, "the stream has been retired");
      }
    } catch (...) {
      context_->cancel_charge(request.bytes, request);
      throw;
    }
    return granted;
  }

  void deallocate(allocation memory, stream_ref stream,
                  std::span<const timeline_point> unfinished) noexcept override {
    if (give_back(memory, stream, unfinished)) context_->discharge(memory);
  }

  std::size_t trim() noexcept override { return context_->device().trim_async(); }
  bool supports_use_tracking() const noexcept override { return true; }
  std::string_view name() const noexcept override { return "async"; }

 private:
  /// Whether it has: what is still in use and cannot be waited for stays allocated.
  bool give_back(const allocation& memory, stream_ref stream,
                 std::span<const timeline_point> unfinished) noexcept {
    const bool only_here =
        std::all_of(unfinished.begin(), unfinished.end(),
                    [&](const timeline_point& point) { return point.stream == stream.id(); });
    if (only_here && stream.timeline()->unless_retired([&](native_stream* native) noexcept {
          context_->device().deallocate_async(memory.address, native);
        })) {
      return true;
    }
    // A free never delays a stream that carries launches: the waits go on the reclaim stream.
    const auto reclaim = context_->reclaim_stream();
    try {
      for (const auto& point : unfinished) context_->wait(reclaim, point);
    } catch (...) {
      detail::report("memory stays allocated", current_error().what());
      return false;
    }
    context_->device().deallocate_async(memory.address, reclaim.native());
    return true;
  }

  resource_context* context_ = nullptr;
};

}  // namespace

std::unique_ptr<memory_resource> make_async_resource() {
  return std::make_unique<async_resource>();
}

}  // namespace sluice
