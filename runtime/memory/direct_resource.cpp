#include "runtime/runtime_core.hpp"

#include <sluice/runtime/memory_resource.hpp>

namespace sluice {
namespace {

class direct_resource final : public memory_resource {
 public:
  explicit direct_resource(direct_options options) noexcept : options_(options) {}

  void bind(resource_context& context) override { context_ = &context; }

  granted_memory allocate(std::size_t bytes, stream_ref, allocation_tag tag) override {
    return {.memory = {context_->device().allocate(bytes), bytes, tag}};
  }

  void deallocate(allocation memory, stream_ref,
                  std::span<const timeline_point> unfinished) noexcept override {
    // Always on the reclaim thread: a driver's plain free may wait for the whole device.
    try {
      context_->reclaim_after(unfinished, memory,
                              [](resource_context& context, allocation m) noexcept {
                                context.device().deallocate(m.address);
                              });
    } catch (...) {
      detail::report("memory stays allocated: the host has no memory to note its free");
    }
  }

  bool may_order_by_stream() const noexcept override { return false; }
  bool supports_use_tracking() const noexcept override { return options_.tracked; }
  std::string_view name() const noexcept override { return "direct"; }

 private:
  direct_options options_;
  resource_context* context_ = nullptr;
};

}  // namespace

std::unique_ptr<memory_resource> make_direct_resource(direct_options options) {
  return std::make_unique<direct_resource>(options);
}

}  // namespace sluice
