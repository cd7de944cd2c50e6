// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory/context_adaptor.hpp"

#include <sluice/runtime/memory_adaptor.hpp>
#include <sluice/runtime/memory_log.hpp>

#include <optional>
#include <utility>

namespace sluice {
namespace {

memory_record record_of(memory_event event, const allocation& memory, stream_id stream = {}) {
  return {.event = event,
          .stream = stream,
          .address = memory.address,
          .bytes = memory.bytes,
          .tag = memory.tag.name(),
          .generation = memory.generation};
}

/// Logs memory that the resources below return to the device.
class logged_context final : public detail::context_adaptor {
 public:
  logged_context(resource_context& context, memory_log_sink& sink)
      : context_adaptor(context), sink_(sink) {}

  void discharge(const allocation& memory) noexcept override {
    sink_.log(record_of(memory_event::reap, memory));
    context_adaptor::discharge(memory);
  }
  void note_pooled(const allocation& memory) noexcept override {
    sink_.log(record_of(memory_event::reap, memory));
    context_adaptor::note_pooled(memory);
  }

 private:
  memory_log_sink& sink_;
};

class logging_resource final : public memory_adaptor {
 public:
  logging_resource(std::unique_ptr<memory_resource> upstream_resource,
                   std::shared_ptr<memory_log_sink> sink)
      : memory_adaptor(std::move(upstream_resource), "make_logging_resource"),
        sink_(std::move(sink)) {}
  // Memory that upstream returns in its destructor is still logged.
  ~logging_resource() override { drop_upstream(); }

  void bind(resource_context& context) override {
    if (!sink_) return memory_adaptor::bind(context);
    context_.emplace(context, *sink_);
    memory_adaptor::bind(*context_);
  }

  granted_memory allocate(const allocation_request& request) override {
    if (!sink_) return upstream().allocate(request);
    try {
      auto granted = upstream().allocate(request);
      sink_->log(record_of(memory_event::allocate, granted.memory, request.stream.id()));
      return granted;
    } catch (...) {
      auto record =
          record_of(memory_event::allocate,
                    {nullptr, request.bytes, request.tag, request.generation}, request.stream.id());
      record.failure = current_error().code();
      sink_->log(record);
      throw;
    }
  }

  void deallocate(allocation memory, stream_ref stream,
                  std::span<const timeline_point> unfinished) noexcept override {
    // Before another thread can be granted the memory.
    if (sink_) sink_->log(record_of(memory_event::free, memory, stream.id()));
    upstream().deallocate(memory, stream, unfinished);
  }

  // A sink may block, so a free through a log may, too.
  bool keeps(std::size_t bytes) const noexcept override {
    return !sink_ && memory_adaptor::keeps(bytes);
  }

  std::string_view name() const noexcept override { return "logging"; }

 private:
  std::shared_ptr<memory_log_sink> sink_;
  std::optional<logged_context> context_;
};

}  // namespace

std::unique_ptr<memory_resource> make_logging_resource(std::unique_ptr<memory_resource> upstream,
                                                       std::shared_ptr<memory_log_sink> sink) {
  return std::make_unique<logging_resource>(std::move(upstream), std::move(sink));
}

}  // namespace sluice
