// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/runtime_core.hpp"

#include "runtime/devices/open_devices.hpp"
#include "runtime/sync/fork_safe_mutex.hpp"

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace sluice::detail {
namespace {

/// The devices of all runtimes that this process has made, by serial number.
class runtime_serials {
 public:
  /// Adds a runtime of `device` and returns its serial number.
  /// @throws std::bad_alloc
  std::uint32_t add(device_id device) {
    const std::lock_guard lock(mutex_);
    devices_.push_back(device);
    return static_cast<std::uint32_t>(devices_.size());
  }
  [[nodiscard]] std::optional<device_id> device_of(std::uint32_t serial) const {
    const std::lock_guard lock(mutex_);
    if (serial == 0 || serial > devices_.size()) return std::nullopt;
    return devices_[serial - 1];
  }

 private:
  mutable fork_safe_mutex mutex_;
  std::vector<device_id> devices_;
};

// Never destroyed: runtimes in static objects may outlive every other static object.
runtime_serials& serials = *new runtime_serials;

}  // namespace

runtime_core::runtime_core(std::shared_ptr<sluice::device> device,
                           std::unique_ptr<memory_resource> resource, bool explicit_waits)
    : serial_(serials.add(device->id())),
      explicit_waits_(explicit_waits),
      device_(std::move(device)),
      tasks_may_fail_(device_->reports_task_failures()),
      words_(*device_),
      errors_(*device_),
      resource_(std::move(resource)),
      reclaimer_(*this) {}

std::shared_ptr<runtime_core> runtime_core::make(std::shared_ptr<sluice::device> device,
                                                 std::unique_ptr<memory_resource> resource,
                                                 bool explicit_waits) {
  const auto end = [](runtime_core* core) {
    if (core->device().inherited()) return leave_to_parent(core);
    // A reclaim thread cannot join itself. A thread that drops the last object that outlived a
    // runtime does not wait for unfinished work.
    if (!reclaim_thread::is_reclaim_thread() && !core->ends_late()) {
      delete core;
      return;
    }
    try {
      std::thread([core] { delete core; }).detach();
    } catch (...) {
      report("the core of a runtime could not be destroyed: no thread could be started");
    }
  };
  std::shared_ptr<runtime_core> core(
      new runtime_core(std::move(device), std::move(resource), explicit_waits), end);
  core->start();
  return core;
}

bool runtime_core::ends_late() const noexcept {
  if (!outlived_) return false;
  bool idle = reclaimer_.idle();
  for_each_timeline([&](timeline& t) { idle = t.advance() >= t.newest().ticket && idle; });
  return !idle;
}

runtime_core::~runtime_core() {
  end_staging({});
  releases_->drain();
  // The resource is left if `end_work` called `outlive`.
  if (resource_ && bound_) (void)finish_frees(clock::time_point::max());
  reclaimer_.stop();
  resource_.reset();
  for (auto& t : timelines_) t->retire();
  timelines_.clear();
}

void runtime_core::start() {
  device_->require_usable();
  reclaim_timeline_ = &make_timeline();
  resource_->bind(*this);
  bound_ = true;
}

void runtime_core::require_open() const {
  device_->require_usable();
  if (closing())
    throw error(errc::shutting_down,
                "the runtime of " + to_string(device_->id()) + " is shutting down");
}

timeline& runtime_core::make_timeline(stream_priority priority) {
  require_open();
  sweep_retired();
  auto* native = device_->create_stream(priority);
  try {
    return add_timeline(native, true);
  } catch (...) {
    device_->destroy_stream(native);
    throw;
  }
}

timeline& runtime_core::adopt_timeline(native_stream* native) {
  require_open();
  device_->require_adoptable(native);
  return add_timeline(native, false);
}

timeline& runtime_core::add_timeline(native_stream* native, bool owned) {
  const std::lock_guard lock(streams_mutex_);
  const auto index = timelines_.size() + 1;
  auto* entry = timeline_of_index_.at(index);
  if (entry == nullptr)
    throw error(errc::unsupported, "the runtime has already created the maximum of " +
                                       std::to_string(timeline_of_index_.capacity - 1) +
                                       " streams");
  timelines_.reserve(index);
  active_.reserve(active_.size() + 1);
  timelines_.push_back(std::make_unique<timeline>(
      *this, stream_id{serial_, static_cast<std::uint32_t>(index)}, native, owned));
  active_.push_back(timelines_.back().get());
  live_streams_.fetch_add(1, std::memory_order_relaxed);
  entry->store(timelines_.back().get(), std::memory_order_release);
  return *timelines_.back();
}

void runtime_core::queue_retired(timeline& t) noexcept {
  const std::lock_guard lock(retired_lock_);
  t.next_retired_ = nullptr;
  (oldest_retired_ == nullptr ? oldest_retired_ : newest_retired_->next_retired_) = &t;
  newest_retired_ = &t;
}

timeline* runtime_core::next_retired() noexcept {
  const std::lock_guard lock(retired_lock_);
  auto* t = oldest_retired_;
  if (t != nullptr) oldest_retired_ = t->next_retired_;
  return t;
}

void runtime_core::note_retired(timeline& t) noexcept {
  queue_retired(t);
  sweep_retired();
}

void runtime_core::sweep_retired() noexcept {
  // Two visits for each retired stream bound the number of timelines left without unfinished work.
  for (int i = 0; i < 2; ++i) {
    auto* t = next_retired();
    if (t == nullptr) return;
    t->advance();
    t->give_up_slots() ? leave_out(*t) : queue_retired(*t);
  }
}

void runtime_core::leave_out(timeline& t) noexcept {
  const std::lock_guard lock(streams_mutex_);
  const auto position = std::find(active_.begin(), active_.end(), &t);
  if (position == active_.end()) return;
  *position = active_.back();
  active_.pop_back();
  ended_launches_ += t.newest().ticket;
  ended_waits_ += t.waits();
}

transfer_staging& runtime_core::staging() {
  const std::lock_guard lock(staging_mutex_);
  if (!staging_) staging_ = std::make_unique<transfer_staging>(*this, pinned_limits_);
  return *staging_;
}

void runtime_core::trim_staging() noexcept {
  const std::lock_guard lock(staging_mutex_);
  if (!staging_) return;
  staging_->pool().trim();
  staging_->clients().pool().trim();
}

void runtime_core::end_staging(clock::time_point end) noexcept {
  transfer_staging* staging = nullptr;
  {
    const std::lock_guard lock(staging_mutex_);
    staging = staging_.get();
  }
  if (staging != nullptr) staging->close(end);
}

timeline* runtime_core::find(stream_id id) const noexcept {
  return id.runtime == serial_ ? timeline_of_index_.load(id.index) : nullptr;
}

timeline& runtime_core::require(stream_ref stream) const {
  auto* t = detail::timeline::of(stream);
  if (t == nullptr)
    throw error(errc::stream_misuse, "stream: no stream was given; there is no default stream");
  if (&t->core() != this) throw error(errc::stream_misuse, "stream: not a stream of this runtime");
  if (t->retired()) throw error(errc::stream_misuse, "the stream has been destroyed");
  return *t;
}

bool runtime_core::knows(timeline_point point) const noexcept {
  if (!point) return true;
  const auto* source = find(point.stream);
  return source != nullptr && point.ticket <= source->newest().ticket;
}

void runtime_core::require_known(timeline_point point) const {
  if (knows(point)) return;
  throw error(errc::stream_misuse,
              "ticket " + std::to_string(point.ticket) + " of " + to_string(point.stream) +
                  (find(point.stream) == nullptr ? " belongs to another runtime"
                                                 : " has not been taken yet"));
}

bool runtime_core::settled(timeline_point point) const noexcept {
  return !point || (!explicit_waits_ && completed(point));
}

bool runtime_core::completed(timeline_point point) const noexcept {
  if (!point) return true;
  auto* source = find(point.stream);
  if (source == nullptr) return false;  // of another runtime: unknown
  if (!source->completed(point.ticket)) return false;
  source->acquire(point.ticket);
  return true;
}

void runtime_core::look_at(timeline_point point) noexcept {
  if (auto* source = find(point.stream)) source->advance();
}

void runtime_core::wait_until_complete(timeline_point point) noexcept {
  auto* source = find(point.stream);
  if (source == nullptr) return;
  try {
    source->wait_until(point.ticket);
  } catch (const error&) {
    // The device is lost, so the point will not complete.
  }
}

void runtime_core::for_each_timeline(const std::function<void(timeline&)>& visit) const {
  std::vector<timeline*> active;
  bool copied = true;
  try {
    const std::lock_guard lock(streams_mutex_);
    active = active_;
  } catch (const std::bad_alloc&) {
    copied = false;
  }
  for (auto* t : active) visit(*t);
  // If the host has no memory for the copy, visits all timelines ever made.
  for (std::size_t index = 1; !copied; ++index) {
    auto* t = timeline_of_index_.load(index);
    if (t == nullptr) return;
    visit(*t);
  }
}

bool runtime_core::quiescent() const noexcept {
  bool quiet = true;
  for_each_timeline([&](timeline& t) { quiet = quiet && t.quiescent(); });
  return quiet;
}

timeline& runtime_core::adoption_timeline() {
  const std::lock_guard lock(adoption_mutex_);
  for (std::size_t i = 0; i < adoption_count_; ++i) {
    if (adoption_[i]->advance() >= adoption_[i]->newest().ticket) return *adoption_[i];
  }
  if (adoption_count_ < adoption_.size() && (adoption_count_ == 0 || !closing())) {
    try {
      adoption_[adoption_count_] = &make_timeline();
      return *adoption_[adoption_count_++];
    } catch (...) {
      if (adoption_count_ == 0) throw;  // otherwise a busy stream is used
    }
  }
  return *adoption_[next_adoption_++ % adoption_count_];
}

void runtime_core::fence(timeline& stream, std::span<hazard_point> waits) {
  const auto unneeded = [&](const hazard_point& wait) {
    return wait.point.stream == stream.id() || (left_out_ && left_out_(wait.kind));
  };
  const auto count = std::remove_if(waits.begin(), waits.end(), unneeded) - waits.begin();
  waits = waits.first(static_cast<std::size_t>(count));
  // A few points are searched linearly. More are sorted, which keeps the cost nearly linear.
  const bool sorted = waits.size() > 16;
  if (sorted) {
    std::sort(waits.begin(), waits.end(), [](const hazard_point& a, const hazard_point& b) {
      return a.point.stream < b.point.stream;
    });
  }
  std::size_t newest = 0;  // earlier elements are the newest point of one stream each
  for (const auto wait : waits) {
    const auto points = waits.first(newest).last(sorted && newest != 0 ? 1 : newest);
    const auto match = std::find_if(points.begin(), points.end(), [&](const hazard_point& k) {
      return k.point.stream == wait.point.stream;
    });
    if (match != points.end()) {
      match->point.ticket = std::max(match->point.ticket, wait.point.ticket);
    } else {
      waits[newest++] = wait;
    }
  }
  for (const auto& wait : waits.first(newest)) {
    auto* source = find(wait.point.stream);
    if (source == nullptr) require_known(wait.point);
    if (source != nullptr) stream.wait_for(*source, wait.point.ticket);
  }
}

timeline_point runtime_core::dependency_on(block_record& record) const {
  using outcome = use_state::outcome;
  const auto last_outcome = record.uses.last_outcome();
  if (last_outcome == outcome::succeeds) return {};
  const auto last_write = record.uses.last_written();
  const auto* source = last_write ? find(last_write.stream) : nullptr;
  if (source == nullptr) return {};
  const bool finished = source->completed(last_write.ticket);
  const auto failure = last_outcome == outcome::failed ? std::optional(ticket_failures::forgotten())
                                                       : source->failure_of(last_write.ticket);
  if (failure) {
    throw error(errc::upstream_failed,
                std::string("the launch that wrote memory '") +
                    std::string(record.memory.tag.name()) + "' failed: " + failure->what(),
                failure->status(), failure->where());
  }
  if (!finished) return last_write;
  record.uses.note_outcome(outcome::succeeds);
  return {};
}

void runtime_core::wait(stream_ref stream, timeline_point point) {
  if (!stream || &detail::timeline::of(stream)->core() != this)
    throw error(errc::stream_misuse, "stream: not a stream of this runtime");
  require_known(point);
  hazard_point wait{point, hazard::free_after_use};
  const point_reservation place(stream);  // keeps the slots of a retired stream
  fence(*detail::timeline::of(stream), {&wait, 1});
}

void runtime_core::reclaim_after(std::span<const timeline_point> points, allocation memory,
                                 void (*reclaim)(void* owner, allocation) noexcept, void* owner) {
  for (const auto& point : points) require_known(point);
  if (left_out_ && left_out_(hazard::free_after_use)) points = {};
  reclaimer_.add(points, memory, reclaim, owner);
}

void runtime_core::note_lease_wait(std::chrono::nanoseconds duration) noexcept {
  lease_wait_total_.fetch_add(duration.count(), std::memory_order_relaxed);
  auto longest = lease_wait_longest_.load(std::memory_order_relaxed);
  while (longest < duration.count() && !lease_wait_longest_.compare_exchange_weak(
                                           longest, duration.count(), std::memory_order_relaxed)) {
  }
}

runtime_statistics runtime_core::statistics() const {
  runtime_statistics s;
  // Read first, with acquire: see `runtime_statistics` for the order of the counters.
  s.imports = imports_.load(std::memory_order_acquire);
  s.exports = exports_.load(std::memory_order_acquire);
  s.streams = live_streams_.load(std::memory_order_relaxed);
  s.events = events_.load(std::memory_order_relaxed);
  s.releases_pending = releases_->size();  // first: items destroyed here may continue there
  s.releases_pending += reclaimer_.users();
  s.recorders_abandoned = abandoned_.load(std::memory_order_relaxed);
  s.bytes_lost = bytes_lost_.load(std::memory_order_relaxed);
  s.lease_waits = lease_waits_.load(std::memory_order_relaxed);
  s.lease_wait_total = std::chrono::nanoseconds(lease_wait_total_.load(std::memory_order_relaxed));
  s.lease_wait_longest =
      std::chrono::nanoseconds(lease_wait_longest_.load(std::memory_order_relaxed));
  {
    const std::lock_guard lock(staging_mutex_);
    if (staging_) {
      s.pinned_bytes = staging_->pool().held();
      s.client_pinned_bytes = staging_->clients().pool().held();
    }
  }
  {
    const std::lock_guard lock(records_lock_);
    s.bytes_outstanding = bytes_;
    s.peak_bytes = peak_bytes_;
    s.blocks = blocks_;
  }
  {
    const std::lock_guard slabs(slabs_mutex_);
    for (const auto& block_slab : slabs_) {
      const std::lock_guard lock(records_lock_);
      for (auto& record : *block_slab) {
        s.references += record.references.load(std::memory_order_relaxed);
        s.leases += record.lease.held();
        // A record that has not begun is dying, too; no block begins before the lock is released.
        if (record.lease.dying()) continue;
        const std::lock_guard guard(record.lease);
        s.points += record.uses.points();
      }
    }
  }
  {
    const std::lock_guard lock(streams_mutex_);
    s.launches = ended_launches_;
    s.waits = ended_waits_;
    for (const auto* t : active_) {
      s.launches += t->newest().ticket;
      s.waits += t->waits();
    }
  }
  return s;
}

}  // namespace sluice::detail

namespace sluice {

std::optional<device_id> device_of(stream_id id) {
  return detail::serials.device_of(id.runtime);
}

std::string to_string(stream_id id) {
  const auto device = device_of(id);
  return "stream " + std::to_string(id.index) + " of runtime " + std::to_string(id.runtime) + " (" +
         (device ? to_string(*device) : std::string("none")) + ")";
}

}  // namespace sluice
