// SPDX-License-Identifier: Apache-2.0
#include "runtime/reports/report.hpp"

#include <sluice/runtime/memory_resource.hpp>

namespace sluice {
namespace {

class direct_resource final : public memory_resource {
 public:
  explicit direct_resource(direct_options options) noexcept : options_(options) {}

  void bind(resource_context& context) override { context_ = &context; }

  granted_memory allocate(const allocation_request& request) override {
    context_->charge(request.bytes, request);
    try {
      return {.memory = {context_->device().allocate(request.bytes), request.bytes, request.tag,
                         request.generation}};
    } catch (...) {
      context_->cancel_charge(request.bytes, request);
      throw;
    }
  }

  void deallocate(allocation memory, stream_ref,
                  std::span<const timeline_point> unfinished) noexcept override {
    // Always on the reclaim thread, because a driver's plain free may wait for the whole device.
    try {
      context_->reclaim_after(
          unfinished, memory,
          [](void* owner, allocation m) noexcept {
            auto& context = *static_cast<direct_resource*>(owner)->context_;
            context.device().deallocate(m.address);
            context.discharge(m);
          },
          this);
    } catch (...) {
      detail::report("memory could not be freed", current_error().what());
    }
  }

  // The reclaim thread makes the call of the driver.
  bool keeps(std::size_t) const noexcept override { return true; }

  std::size_t trim() noexcept override {
    context_->finish_reclaiming();
    return 0;
  }
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
