// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/runtime_core.hpp"
#include "runtime/core/shared_runtimes.hpp"

#include <sluice/runtime/device_runtime.hpp>

#include <cstdlib>
#include <mutex>
#include <utility>

namespace sluice {

bool explicit_waits_by_default() noexcept {
  const char* value = std::getenv("SLUICE_EXPLICIT_WAITS");
  return value != nullptr && std::string_view(value) == "1";
}

device_runtime::device_runtime(std::shared_ptr<sluice::device> device, runtime_options options)
    : drain_timeout_(options.drain_timeout) {
  if (!device) throw error(errc::invalid_argument, "device_runtime: device must not be null");
  auto resource = options.resource ? std::move(options.resource) : make_default_resource();
  core_ =
      detail::runtime_core::make(std::move(device), std::move(resource), options.explicit_waits);
  core_->limit_pinned({options.pinned_limit, options.client_pinned_limit});
}

device_runtime::~device_runtime() {
  if (device().inherited()) return;
  (void)shut_down(drain_timeout_);
  core_->tear_down(drain_timeout_);
}

device& device_runtime::device() const noexcept {
  return core_->device();
}

std::shared_ptr<device> device_runtime::shared_device() const noexcept {
  return core_->shared_device();
}

stream device_runtime::create_stream(stream_priority priority) {
  if (priority > stream_priority::high) {
    throw error(errc::invalid_argument, "priority: is no stream_priority");
  }
  return {core_, &core_->make_timeline(priority)};
}

stream device_runtime::adopt_stream(native_stream* native) {
  return {core_, &core_->adopt_timeline(native)};
}

block_ref device_runtime::allocate_bytes(std::size_t bytes, stream_ref stream, allocation_tag tag) {
  return core_->allocate({.bytes = bytes, .stream = stream, .tag = tag});
}

block_ref device_runtime::allocate_bytes(std::size_t bytes, stream_ref stream, allocation_tag tag,
                                         memory_reservation& reservation) {
  return core_->allocate(
      {.bytes = bytes, .stream = stream, .tag = tag, .reservation = &reservation});
}

memory_reservation device_runtime::reserve_memory(std::span<const std::size_t> sizes) {
  return core_->reserve(sizes);
}

void device_runtime::deallocate(const block_ref& block) {
  core_->require_own_process();
  if (!block) throw error(errc::invalid_argument, "deallocate: the reference is empty");
  if (detail::block_record::of(block)->core != core_.get())
    throw detail::runtime_core::foreign(block, errc::invalid_argument,
                                        "deallocate: the memory belongs to another runtime");
  if (!core_->free(*detail::block_record::of(block))) {
    core_->note_misuse(memory_misuse::double_free, detail::block_record::of(block)->memory);
    throw error(errc::stale_ref, "deallocate: memory '" + std::string(block.tag().name()) +
                                     "' has already been freed");
  }
}

std::size_t device_runtime::bytes_outstanding() {
  reap_pending();
  return core_->bytes_outstanding();
}

void device_runtime::reap_pending() {
  core_->require_own_process();
  core_->for_each_timeline([](detail::timeline& t) { t.advance(); });
  core_->sweep_retired();
  core_->releases().drain_and_wait();
}

std::size_t device_runtime::trim_memory() {
  core_->require_open();
  reap_pending();
  core_->trim_staging();
  return core_->resource().trim();
}

std::shared_ptr<void> device_runtime::register_host(std::shared_ptr<void> memory,
                                                    std::size_t bytes) {
  core_->require_open();
  if (memory == nullptr || bytes == 0) {
    throw error(errc::invalid_argument, "memory is null or has no bytes");
  }
  return core_->staging().clients().add(std::move(memory), bytes);
}

std::shared_ptr<void> device_runtime::allocate_pinned(std::size_t bytes) {
  core_->require_open();
  auto& buffers = core_->staging().clients();
  try {
    return buffers.allocate(bytes);
  } catch (const error& e) {
    if (e.code() != errc::over_budget) throw;
  }
  // The owners of launches that have been answered may be about to end.
  core_->releases().drain_and_wait();
  return buffers.allocate(bytes);
}

bool device_runtime::supports_use_tracking() const noexcept {
  return core_->resource().supports_use_tracking();
}

runtime_statistics device_runtime::statistics() {
  core_->require_own_process();
  return core_->statistics();
}

use_ticket device_runtime::prepare_use(const block_ref& block, stream_ref stream,
                                       access_kind access) {
  core_->require_open();
  auto& stream_timeline = core_->require(stream);
  if (!block || detail::block_record::of(block)->core != core_.get()) {
    throw detail::runtime_core::foreign(block, errc::stream_misuse,
                                        "prepare_use: the memory does not belong to this runtime");
  }
  auto& record = *detail::block_record::of(block);
  if (!record.tracked)
    throw error(errc::stream_misuse, "prepare_use: memory '" + std::string(block.tag().name()) +
                                         "' comes from a resource that does not track uses");
  if (access != access_kind::read && record.read_only)
    throw error(errc::stream_misuse,
                "prepare_use: memory '" + std::string(block.tag().name()) + "' is read-only");
  if (record.lease.dying()) throw core_->freed_already(block, "prepare_use");
  detail::small_vector<detail::hazard_point, 16> waits;
  use_ticket ticket;
  ticket.block_ = block.id();
  ticket.access_ = access;
  {
    const std::lock_guard lock(record.lease);
    record.require_ordered();
    if (access != access_kind::write) ticket.dependency_ = core_->dependency_on(record);
    record.uses.collect(access, stream.id(), waits);
    ticket.version_ = record.uses.version();
  }
  const point_reservation place(stream);  // keeps the slots of a retired stream
  core_->fence(stream_timeline, waits.view());
  ticket.first_ = {stream_timeline.id(), stream_timeline.newest().ticket + 1};
  return ticket;
}

timeline_point device_runtime::finish_use(const block_ref& block, stream_ref stream,
                                          access_kind access, use_ticket ticket) {
  const bool same_stream = ticket.first_.stream == stream.id();
  const auto [point, version] =
      core_->publish_use(block, stream, access, ticket.dependency_,
                         same_stream ? ticket.first_.ticket : detail::timeline::no_ticket);
  if (!same_stream)
    throw error(errc::stream_misuse, "finish_use: the use was prepared for another stream");
  if (ticket.block_ != block.id()) {
    throw error(errc::stream_misuse,
                "finish_use: the use was prepared for another block, not for memory '" +
                    std::string(block.tag().name()) + "'");
  }
  if (ticket.access_ != access)
    throw error(errc::stream_misuse, "finish_use: the use was prepared for another access");
  if (version != ticket.version_) {
    throw error(errc::stream_misuse,
                "finish_use: another use of memory '" + std::string(block.tag().name()) +
                    "' was published after prepare_use; later uses are ordered after both, but the "
                    "two are not ordered with each other");
  }
  return point;
}

timeline_point device_runtime::record_use(const block_ref& block, stream_ref stream,
                                          access_kind access) {
  return core_->publish_use(block, stream, access).point;
}

bool device_runtime::shut_down(std::chrono::milliseconds timeout) noexcept {
  return !device().inherited() && core_->drain(timeout);
}

device_runtime& device_runtime::get(std::string_view name) {
  // Only "auto" asks for GPUs, because the question initializes CUDA.
  const auto best = [] {
    static const device_id first = list_devices().front().id;
    return first;
  };
  return detail::shared_runtimes::instance().get(name == "auto" ? best() : parse_device_id(name));
}

void device_runtime::configure(device_id device, std::function<runtime_options()> make_options) {
  detail::shared_runtimes::instance().configure(device, std::move(make_options));
}

}  // namespace sluice
