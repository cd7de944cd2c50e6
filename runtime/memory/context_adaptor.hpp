// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/memory_resource.hpp>

#include <cstddef>
#include <memory>
#include <span>

namespace sluice::detail {

/// A context that forwards every call. An adaptor passes it to its upstream in place of its own
/// context. The adaptor keeps it until upstream has been destroyed.
class context_adaptor : public resource_context {
 public:
  explicit context_adaptor(resource_context& context) noexcept : context_(context) {}

  sluice::device& device() noexcept override { return context_.device(); }
  stream_ref reclaim_stream() noexcept override { return context_.reclaim_stream(); }
  bool settled(timeline_point point) const noexcept override { return context_.settled(point); }
  void look_at(timeline_point point) noexcept override { context_.look_at(point); }
  bool completion_orders() const noexcept override { return context_.completion_orders(); }
  bool completed(timeline_point point) const noexcept override { return context_.completed(point); }
  void wait(stream_ref stream, timeline_point point) override { context_.wait(stream, point); }
  void reclaim_after(std::span<const timeline_point> points, allocation memory,
                     void (*reclaim)(void* owner, allocation) noexcept, void* owner) override {
    context_.reclaim_after(points, memory, reclaim, owner);
  }
  std::shared_ptr<release_list> owners() noexcept override { return context_.owners(); }
  void finish_reclaiming() noexcept override { context_.finish_reclaiming(); }
  bool charged() const noexcept override { return context_.charged(); }
  void charge(std::size_t bytes, const allocation_request& request) override {
    context_.charge(bytes, request);
  }
  void cancel_charge(std::size_t bytes, const allocation_request& request) noexcept override {
    context_.cancel_charge(bytes, request);
  }
  void discharge(const allocation& memory) noexcept override { context_.discharge(memory); }
  void note_pooled(const allocation& memory) noexcept override { context_.note_pooled(memory); }
  void discharge_pooled(std::size_t bytes) noexcept override { context_.discharge_pooled(bytes); }

 private:
  resource_context& context_;
};

}  // namespace sluice::detail
