// SPDX-License-Identifier: Apache-2.0
// The beginning and the end of blocks.
#include "runtime/core/runtime_core.hpp"
#include "runtime/memory/room_wait.hpp"
#include "runtime/sync/lease_holder.hpp"

#include <algorithm>
#include <limits>
#include <string>
#include <tuple>
#include <utility>

namespace sluice::detail {
namespace {

thread_local const runtime_core* deferring_core = nullptr;

}  // namespace

deferred_frees_scope::deferred_frees_scope(const runtime_core& core) noexcept
    : previous_(std::exchange(deferring_core, &core)) {}

deferred_frees_scope::~deferred_frees_scope() {
  deferring_core = previous_;
}

runtime_core::taken_record runtime_core::take_record() {
  for (;;) {
    {
      const std::lock_guard lock(records_lock_);
      if (unused_ != nullptr) {
        ++records_in_use_;
        ++blocks_;
        return {std::exchange(unused_, unused_->next_unused), ++generations_};
      }
    }
    grow_records();
  }
}

void runtime_core::grow_records() {
  const std::lock_guard slabs_lock(slabs_mutex_);
  {
    const std::lock_guard lock(records_lock_);
    if (unused_ != nullptr) return;  // another thread has added a slab
  }
  slabs_.push_back(std::make_unique<slab>());
  for (auto& record : *slabs_.back()) {
    record.core = this;
    record.next_unused = &record + 1;
  }
  auto& block_slab = *slabs_.back();
  const std::lock_guard lock(records_lock_);
  block_slab.back().next_unused = std::exchange(unused_, &block_slab.front());
}

std::shared_ptr<runtime_core> runtime_core::put_back(block_record& record) noexcept {
  record.next_unused = std::exchange(unused_, &record);
  return --records_in_use_ == 0 ? std::move(self_) : nullptr;
}

void runtime_core::give_record(block_record& record) noexcept {
  std::shared_ptr<runtime_core> last;
  const std::lock_guard lock(records_lock_);
  --blocks_;
  last = put_back(record);
}

void runtime_core::note_end(block_record& record, block_end end) noexcept {
  std::shared_ptr<runtime_core> last;
  const std::lock_guard lock(records_lock_);
  if (end.memory) bytes_ -= record.bytes;
  if (end.life) --blocks_;
  record.holds -= end.holds;
  if (end.holds == 0 || record.holds != 0) return;
  if (record.pins.load(std::memory_order_relaxed) != 0 && !end.memory) {
    // The consumer keeps the memory for good. The lock waits for threads that still read its uses.
    const std::lock_guard guard(record.lease);
    record.uses.begin({}, {});
  }
  last = put_back(record);
}

bool runtime_core::device_has(std::size_t bytes) const noexcept {
  try {
    return bytes <= device_->info().memory_bytes;
  } catch (...) {
    return true;
  }
}

template <class Ask>
auto runtime_core::obtain(std::size_t bytes, Ask ask) -> decltype(ask()) {
  try {
    return ask();
  } catch (const error& e) {
    if (e.code() != errc::out_of_memory && e.code() != errc::over_budget) throw;
    if (e.code() == errc::out_of_memory && !device_has(bytes)) throw;
  }
  releases_->drain_and_wait();
  // Libraries of ended lanes return their memory a little later.
  if (reclaimer_.users() != 0) reclaimer_.finish_ready();
  // A thread that holds leases, or completes launches, keeps others waiting.
  const bool may_wait = deferring_core == nullptr && !lease_holder::of_this_thread().holds_any();
  for (room_wait wait;;) {
    // Owners of completed launches may hold the missing memory, or the resource itself.
    releases_->drain_and_wait();
    resource_->drop_owners();
    const bool obtainable = bytes <= resource_->max_obtainable();
    const auto freed_bytes = obtainable ? resource_->make_room() : 0;
    try {
      return ask();
    } catch (const error& e) {
      if (e.code() != errc::over_budget || !obtainable) throw;
      // Other clients hold the memory now.
      if (bytes == 0 || bytes > resource_->max_obtainable()) throw;
      if (!wait.asks_again(freed_bytes, may_wait)) throw;
    }
  }
}

memory_reservation runtime_core::reserve(std::span<const std::size_t> sizes) {
  require_open();
  std::size_t sum = 0;
  for (const auto bytes : sizes) {
    const auto footprint = bytes == 0 ? 0 : resource_->footprint(bytes);
    if (footprint > std::numeric_limits<std::size_t>::max() - sum)
      throw error(errc::invalid_argument, "reserve_memory: the sum of the sizes overflows");
    sum += footprint;
  }
  return obtain(sum, [&] { return resource_->reserve(sum); });
}

void runtime_core::note_misuse(memory_misuse misuse, const allocation& block) noexcept {
  const std::lock_guard lock(misuse_mutex_);
  if (resource_) resource_->note_misuse(misuse, block);
}

granted_memory runtime_core::grant(const allocation_request& request) {
  try {
    // Reserved bytes are already charged, so they do not count as obtainable.
    const auto bytes = request.reservation == nullptr ? resource_->footprint(request.bytes) : 0;
    return obtain(bytes, [&] { return resource_->allocate(request); });
  } catch (const error& e) {
    // The device does not know the tag, so the message is completed here.
    if (e.code() != errc::out_of_memory) throw;
    throw error(e.code(), std::string(e.what()) + " for '" + std::string(request.tag.name()) + "'",
                e.status(), e.where());
  }
}

block_ref runtime_core::allocate(allocation_request request) {
  const auto [bytes, stream, tag] = std::tuple(request.bytes, request.stream, request.tag);
  require_open();
  auto& stream_timeline = require(stream);
  const auto free_record = take_record();
  auto& record = *free_record.record;
  request.generation = free_record.generation;
  granted_memory granted{.memory = {nullptr, 0, tag, request.generation}};
  timeline_point ready;
  bool ordered = false;
  try {
    if (bytes != 0) granted = grant(request);
    for (const auto& point : granted.inherited) require_known(point);
    // An allocation is a use: the memory is ready once this point has completed.
    if (auto* place = timeline::take(granted.ready_at)) {
      ordered = true;
      ready = {place->id(), place->submit()};
    }
  } catch (...) {
    // If the stream has been retired or the device is lost, the stream's last ticket follows the
    // allocation.
    if (granted.memory.address != nullptr) {
      give_up(granted, stream, ordered ? stream_timeline.newest() : timeline_point{});
    }
    give_record(record);
    throw;
  }
  record.memory = granted.memory;
  record.bytes = bytes;
  record.stream = stream;
  record.tracked = resource_->supports_use_tracking();
  record.read_only = false;
  record.foreign = nullptr;
  record.uses.begin(ready, std::move(granted.inherited));
  {
    const std::lock_guard lock(records_lock_);
    bytes_ += bytes;
    peak_bytes_ = std::max(peak_bytes_, bytes_);
  }
  return begin_block(free_record);
}

void runtime_core::give_up(granted_memory& granted, stream_ref stream,
                           timeline_point allocated) noexcept {
  try {
    auto& points = granted.inherited;
    for (std::size_t i = 0; i < points.size();) {
      knows(points[i]) ? void(++i) : points.swap_remove(i);
    }
    if (allocated) points.push_back(allocated);
    resource_->deallocate(granted.memory, stream, points.view());
  } catch (...) {
    report("memory of a failed allocation could not be freed: out of host memory");
  }
}

block_ref runtime_core::begin_block(const taken_record& free_record) noexcept {
  auto& record = *free_record.record;
  record.memory.generation = free_record.generation;
  record.generation.store(free_record.generation, std::memory_order_relaxed);
  record.references.store(1, std::memory_order_relaxed);
  record.pins.store(1, std::memory_order_relaxed);
  record.holds = 2;
  record.lease.revive();  // statistics read the record from here on
  return record.ref();
}

block_ref runtime_core::adopt(allocation memory, bool read_only, timeline_point last_write,
                              std::unique_ptr<foreign_memory>& owner) {
  require_open();
  reclaimer_.start();
  const auto free_record = take_record();
  auto& record = *free_record.record;
  record.memory = memory;
  record.bytes = memory.bytes;
  record.stream = {};
  record.tracked = true;
  record.read_only = read_only;
  record.foreign = owner.release();
  count_import(1);
  record.uses.begin_written(last_write);
  return begin_block(free_record);
}

void runtime_core::reclaim_later(std::unique_ptr<deferred> item) noexcept {
  item->core_ = shared_from_this();
  reclaimer_.add(item.release());
}

bool runtime_core::lend(block_record& record) noexcept {
  auto pins = record.pins.load(std::memory_order_relaxed);
  do {
    if (pins == 0) return false;
  } while (!record.pins.compare_exchange_weak(pins, pins + 1, std::memory_order_relaxed));
  exports_.fetch_add(1, std::memory_order_relaxed);
  return true;
}

void runtime_core::unlend(block_record& record) noexcept {
  if (unpin(record)) note_end(record, {.memory = true});
  exports_.fetch_sub(1, std::memory_order_release);
}

bool runtime_core::free(block_record& record) noexcept {
  switch (record.lease.mark_dying()) {
    case lease::end::complete_now:
      complete_free(record);
      return true;
    case lease::end::leased:
      return true;
    case lease::end::dead_already:
      return false;
  }
  return false;
}

void runtime_core::complete_free(block_record& record) noexcept {
  note_end(record, {.life = true, .memory = unpin(record), .holds = 1});
}

bool runtime_core::unpin(block_record& record) noexcept {
  return record.pins.fetch_sub(1, std::memory_order_acq_rel) == 1 && give_memory_back(record);
}

bool runtime_core::give_memory_back(block_record& record) noexcept {
  if (record.foreign != nullptr) {
    auto* foreign = std::exchange(record.foreign, nullptr);
    foreign->core_ = shared_from_this();
    {
      const std::lock_guard lock(record.lease);
      foreign->uses_ = std::move(record.uses);
      record.uses.begin({}, {});
    }
    reclaimer_.add(foreign);
    return false;
  }
  timeline_points points;
  bool listed = true;
  {
    const std::lock_guard lock(record.lease);
    try {
      record.uses.collect_all(points);
    } catch (...) {
      listed = false;
    }
    record.uses.begin({}, {});
  }
  if (!listed) {
    report("a block could not be freed: out of host memory");
  } else if (record.memory.address != nullptr && device_->lost()) {
    bytes_lost_.fetch_add(record.bytes, std::memory_order_relaxed);
  } else if (record.memory.address != nullptr) {
    for (std::size_t i = 0; i < points.size();) {
      if (settled(points[i])) {
        points.swap_remove(i);
      } else {
        ++i;
      }
    }
    resource_->deallocate(record.memory, record.stream, points.view());
  }
  return true;
}

void runtime_core::handles_gone(block_record& record) noexcept {
  if (device_->inherited()) return;
  record.references.store(0, std::memory_order_relaxed);
  if (deferring_core == this) {
    releases_->push(&record.dead);
  } else {
    end_block(record);
  }
}

void dead_block::release() noexcept {
  record_.core->end_block(record_);
}

void runtime_core::end_block(block_record& record) noexcept {
  if (!std::exchange(record.free_begun, false)) {
    if (record.lease.mark_dying() != lease::end::complete_now) {
      return note_end(record, {.holds = 1});
    }
    // From here on the runtime's end waits for this block, so the resource exists.
    if (deferring_core != nullptr && record.memory.address != nullptr &&
        record.foreign == nullptr && !device_->lost() && !resource_->keeps(record.memory.bytes) &&
        reclaimer_.begun()) {
      record.free_begun = true;
      releases_->push_for_driver(&record.dead);
      reclaimer_.wake();
      return;
    }
  }
  // An export holds a reference, so no pin is added meanwhile. The pin of an earlier export may
  // remain.
  const bool only_pin = record.pins.load(std::memory_order_acquire) == 1;
  note_end(
      record,
      {.life = true, .memory = only_pin ? give_memory_back(record) : unpin(record), .holds = 2});
}

}  // namespace sluice::detail
