#include "runtime/runtime_core.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <limits>
#include <thread>
#include <tuple>
#include <utility>

namespace sluice::detail {
namespace {

/// The devices of all runtimes that this process has had, by serial number.
class runtime_serials {
 public:
  static runtime_serials& instance() {
    // Runtimes in static objects may outlive every other one: it is never destroyed.
    static auto& all = *new runtime_serials;
    return all;
  }
  /// The next number. @throws std::bad_alloc
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
  mutable std::mutex mutex_;
  std::vector<device_id> devices_;
};

}  // namespace

void report(std::string_view what, std::string_view why) noexcept {
  std::fprintf(stderr, "sluice: %.*s%s%.*s\n", static_cast<int>(what.size()), what.data(),
               why.empty() ? "" : ": ", static_cast<int>(why.size()), why.data());
}

runtime_core::runtime_core(std::shared_ptr<sluice::device> device,
                           std::unique_ptr<memory_resource> resource, bool explicit_waits)
    : serial_(runtime_serials::instance().add(device->id())),
      explicit_waits_(explicit_waits),
      device_(std::move(device)),
      resource_(std::move(resource)),
      reclaimer_(*this) {}

std::shared_ptr<runtime_core> runtime_core::make(std::shared_ptr<sluice::device> device,
                                                 std::unique_ptr<memory_resource> resource,
                                                 bool explicit_waits) {
  const auto end = [](runtime_core* core) {
    // A reclaim thread, where a foreign deleter held the last share or the import it belongs to,
    // cannot join itself. And whoever gives the last back of what outlived a runtime does not wait.
    if (!reclaim_thread::is_reclaim_thread() && !core->ends_late()) {
      delete core;
      return;
    }
    try {
      std::thread([core] { delete core; }).detach();
    } catch (...) {
      report("what is left of a runtime stays: there is no thread to end it");
    }
  };
  const std::shared_ptr<runtime_core> made(
      new runtime_core(std::move(device), std::move(resource), explicit_waits), end);
  made->start();
  return made;
}

bool runtime_core::ends_late() const noexcept {
  if (!outlived_) return false;
  bool idle = reclaimer_.idle();
  for_each_timeline([&](timeline& t) { idle = t.advance() >= t.newest().ticket && idle; });
  return !idle;
}

runtime_core::~runtime_core() {
  releases_->drain();
  // Still there only if a recorder or an export outlived the runtime.
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
    throw error(errc::unsupported, "too many streams have been made in this runtime");
  timelines_.reserve(index);
  timelines_.push_back(std::make_unique<timeline>(
      *this, stream_id{serial_, static_cast<std::uint32_t>(index)}, native, owned));
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
  // Two for each that comes: more are not left than have unfinished work, or are looked at.
  for (int i = 0; i < 2; ++i) {
    auto* t = next_retired();
    if (t == nullptr) return;
    t->advance();
    if (!t->give_up_slots()) queue_retired(*t);
  }
}

const std::shared_ptr<staging_pool>& runtime_core::staging() {
  const std::lock_guard lock(staging_mutex_);
  if (!staging_) staging_ = staging_pool::make(device_);
  return staging_;
}

timeline* runtime_core::find(stream_id id) const noexcept {
  return id.runtime == serial_ ? timeline_of_index_.load(id.index) : nullptr;
}

timeline& runtime_core::require(stream_ref stream) const {
  auto* t = stream.timeline();
  if (t == nullptr)
    throw error(errc::stream_misuse, "no stream was given; there is no default stream");
  if (&t->core() != this) throw error(errc::stream_misuse, "the stream belongs to another runtime");
  if (t->retired()) throw error(errc::stream_misuse, "the stream has been retired");
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
                  (find(point.stream) == nullptr ? " is a point of another runtime"
                                                 : " has not been taken yet"));
}

bool runtime_core::settled(timeline_point point) const noexcept {
  if (!point) return true;
  auto* source = find(point.stream);
  if (source == nullptr) return false;  // of another runtime: nothing is known of it
  if (explicit_waits_ || !source->completed(point.ticket)) return false;
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
    // Lost: nothing runs any more.
  }
}

void runtime_core::for_each_timeline(const std::function<void(timeline&)>& visit) const {
  for (std::size_t index = 1;; ++index) {
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
      if (adoption_count_ == 0) throw;  // otherwise a busy one will do
    }
  }
  return *adoption_[next_adoption_++ % adoption_count_];
}

void runtime_core::fence(timeline& stream, std::span<const hazard_point> waits) {
  small_vector<timeline_point, 8> newest;
  for (const auto& wait : waits) {
    if (wait.point.stream == stream.id()) continue;
    if (left_out_ && left_out_(wait.kind)) continue;
    bool merged = false;
    for (auto& point : newest) {
      if (point.stream == wait.point.stream) {
        point.ticket = std::max(point.ticket, wait.point.ticket);
        merged = true;
        break;
      }
    }
    if (!merged) newest.push_back(wait.point);
  }
  for (const auto& point : newest) {
    auto* source = find(point.stream);
    if (source == nullptr) require_known(point);
    if (source != nullptr) stream.wait_for(*source, point.ticket);
  }
}

timeline_point runtime_core::dependency_on(const block_record& record) const {
  const auto written = record.uses.last_written();
  const auto* source = written ? find(written.stream) : nullptr;
  if (source == nullptr) return {};
  const bool finished = source->completed(written.ticket);
  if (const auto why = source->failure_of(written.ticket)) {
    throw error(errc::upstream_failed,
                std::string("the launch that wrote memory '") +
                    std::string(record.memory.tag.name()) + "' failed: " + why->what(),
                why->status(), why->where());
  }
  return !finished && launches_may_fail() ? written : timeline_point{};
}

void runtime_core::wait(stream_ref stream, timeline_point point) {
  if (!stream || &stream.timeline()->core() != this)
    throw error(errc::stream_misuse, "the stream that is to wait is none of this runtime's");
  require_known(point);
  const hazard_point wait{point, hazard::free_after_use};
  fence(*stream.timeline(), {&wait, 1});
}

void runtime_core::reclaim_after(std::span<const timeline_point> points, allocation memory,
                                 void (*reclaim)(void* owner, allocation) noexcept, void* owner) {
  for (const auto& point : points) require_known(point);
  reclaimer_.add(points, memory, reclaim, owner);
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
  const std::lock_guard growing(slabs_mutex_);
  {
    const std::lock_guard lock(records_lock_);
    if (unused_ != nullptr) return;  // another thread has been here
  }
  slabs_.push_back(std::make_unique<slab>());
  for (auto& record : *slabs_.back()) {
    record.core = this;
    record.next_unused = &record + 1;
  }
  auto& added = *slabs_.back();
  const std::lock_guard lock(records_lock_);
  added.back().next_unused = std::exchange(unused_, &added.front());
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
    // Memory that a consumer has for good: who may still look at its uses is to have finished.
    const std::lock_guard guard(record.guard);
    record.uses.begin({}, {});
  }
  last = put_back(record);
}

template <class Ask>
auto runtime_core::obtain(Ask ask) -> decltype(ask()) {
  try {
    return ask();
  } catch (const error& e) {
    if (e.code() != errc::out_of_memory && e.code() != errc::over_budget) throw;
  }
  // Owners of completed launches may hold what is missing, or the resource itself.
  releases_->drain_and_wait();
  (void)resource_->make_room();
  return ask();
}

memory_reservation runtime_core::reserve(std::span<const std::size_t> sizes) {
  require_open();
  std::size_t sum = 0;
  for (const auto bytes : sizes) {
    const auto footprint = bytes == 0 ? 0 : resource_->footprint(bytes);
    if (footprint > std::numeric_limits<std::size_t>::max() - sum)
      throw error(errc::invalid_argument, "reserve_memory: the number of bytes overflows");
    sum += footprint;
  }
  return obtain([&] { return resource_->reserve(sum); });
}

void runtime_core::note_misuse(memory_misuse misuse, const allocation& known) noexcept {
  const std::lock_guard lock(misuse_mutex_);
  if (resource_) resource_->note_misuse(misuse, known);
}

granted_memory runtime_core::grant(const allocation_request& request) {
  try {
    return obtain([&] { return resource_->allocate(request); });
  } catch (const error& e) {
    // A device does not know what the memory is for.
    if (e.code() != errc::out_of_memory) throw;
    throw error(e.code(),
                std::string(e.what()) + ", wanted for '" + std::string(request.tag.name()) + "'",
                e.status(), e.where());
  }
}

block_ref runtime_core::allocate(allocation_request request) {
  const auto [bytes, stream, tag] = std::tuple(request.bytes, request.stream, request.tag);
  require_open();
  auto& on = require(stream);
  const auto taken = take_record();
  auto& record = *taken.record;
  request.generation = taken.generation;
  granted_memory granted{.memory = {nullptr, 0, tag, request.generation}};
  timeline_point ready;
  bool ordered = false;
  try {
    if (bytes != 0) granted = grant(request);
    for (const auto& point : granted.inherited) require_known(point);
    // Allocating is a use: the memory is ready when this point has completed.
    if (auto* place = granted.ready_at.release()) {
      ordered = true;
      ready = {place->id(), place->submit()};
    }
  } catch (...) {
    // When the stream was retired meanwhile (or the device is lost), its last ticket is behind the
    // allocation.
    if (granted.memory.address != nullptr) {
      give_up(granted, stream, ordered ? on.newest() : timeline_point{});
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
  return begin_block(taken);
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
    report("memory that was not needed stays allocated: the host has no memory to list its uses");
  }
}

block_ref runtime_core::begin_block(const taken_record& taken) noexcept {
  auto& record = *taken.record;
  record.memory.generation = taken.generation;
  record.generation.store(taken.generation, std::memory_order_relaxed);
  record.references.store(1, std::memory_order_relaxed);
  record.pins.store(1, std::memory_order_relaxed);
  record.holds = 2;
  record.lease.revive();  // from here on statistics look at it
  return block_ref(&record);
}

block_ref runtime_core::adopt(allocation memory, bool read_only, timeline_point written,
                              std::unique_ptr<foreign_memory>& owner) {
  require_open();
  reclaimer_.start();
  const auto taken = take_record();
  auto& record = *taken.record;
  record.memory = memory;
  record.bytes = memory.bytes;
  record.stream = {};
  record.tracked = true;
  record.read_only = read_only;
  record.foreign = owner.release();
  count_import(1);
  record.uses.begin_written(written);
  return begin_block(taken);
}

std::shared_ptr<const void> runtime_core::keep(std::unique_ptr<foreign_memory>& owner) {
  require_open();
  reclaimer_.start();
  owner->core_ = shared_from_this();
  count_import(1);
  // If there is no memory for the count, the deleter is called with what is not armed yet.
  return {owner.release(), [](foreign_memory* memory) noexcept {
            memory->core_->reclaimer_.add(memory);
          }};
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
      const std::lock_guard lock(record.guard);
      foreign->uses_ = std::move(record.uses);
      record.uses.begin({}, {});
    }
    reclaimer_.add(foreign);
    return false;
  }
  timeline_points points;
  bool listed = true;
  {
    const std::lock_guard lock(record.guard);
    try {
      record.uses.collect_all(points);
    } catch (...) {
      listed = false;
    }
    record.uses.begin({}, {});
  }
  if (!listed) {
    report("a block stays allocated: the host has no memory to list its uses");
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
  record.references.store(0, std::memory_order_relaxed);
  block_end end{.holds = 1};
  if (record.lease.mark_dying() == lease::end::complete_now) {
    // Exports have handles, so no pin is added meanwhile; but one may have been left behind.
    const bool only_pin = record.pins.load(std::memory_order_acquire) == 1;
    end = {.life = true, .memory = only_pin ? give_memory_back(record) : unpin(record), .holds = 2};
  }
  note_end(record, end);
}

void runtime_core::note_lease_wait(std::chrono::nanoseconds took) noexcept {
  lease_wait_total_.fetch_add(took.count(), std::memory_order_relaxed);
  auto longest = lease_wait_longest_.load(std::memory_order_relaxed);
  while (longest < took.count() && !lease_wait_longest_.compare_exchange_weak(
                                       longest, took.count(), std::memory_order_relaxed)) {
  }
}

runtime_statistics runtime_core::statistics() const {
  runtime_statistics s;
  s.imports = imports_.load(std::memory_order_relaxed);
  s.exports = exports_.load(std::memory_order_relaxed);
  s.streams = live_streams_.load(std::memory_order_relaxed);
  s.events = events_.load(std::memory_order_relaxed);
  s.releases_pending = releases_->size();
  s.recorders_abandoned = abandoned_.load(std::memory_order_relaxed);
  s.bytes_lost = bytes_lost_.load(std::memory_order_relaxed);
  s.lease_waits = lease_waits_.load(std::memory_order_relaxed);
  s.lease_wait_total = std::chrono::nanoseconds(lease_wait_total_.load(std::memory_order_relaxed));
  s.lease_wait_longest =
      std::chrono::nanoseconds(lease_wait_longest_.load(std::memory_order_relaxed));
  {
    const std::lock_guard lock(records_lock_);
    s.bytes_outstanding = bytes_;
    s.peak_bytes = peak_bytes_;
    s.blocks = blocks_;
  }
  {
    const std::lock_guard slabs(slabs_mutex_);
    for (const auto& all : slabs_) {
      const std::lock_guard lock(records_lock_);
      for (auto& record : *all) {
        s.references += record.references.load(std::memory_order_relaxed);
        if (record.lease.dying()) continue;  // or not begun, and no block before it ends meanwhile
        const std::lock_guard guard(record.guard);
        s.points += record.uses.points();
      }
    }
  }
  std::int64_t leases = 0;
  for_each_timeline([&](timeline& t) {
    s.launches += t.newest().ticket;
    s.waits += t.waits();
    leases += t.leases();
  });
  s.leases = static_cast<std::size_t>(leases);
  return s;
}

bool runtime_core::drain(std::chrono::milliseconds timeout) noexcept {
  closing_.store(true, std::memory_order_release);
  const auto end = std::chrono::steady_clock::now() + timeout;
  auto pause = std::chrono::microseconds(20);
  for (;;) {
    bool idle = true;
    for_each_timeline([&](timeline& t) { idle = t.advance() >= t.newest().ticket && idle; });
    if (idle) return true;
    if (device_->lost()) return false;
    if (std::chrono::steady_clock::now() >= end) {
      device_->lose(error(errc::shutting_down,
                          "work was still unfinished when the time for shutting down was over"));
      return false;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(1000));
  }
}

bool runtime_core::finish_frees(clock::time_point end) noexcept {
  resource_->close();  // nobody else hands anything over meanwhile
  // What a resource keeps may go by the reclaim thread, which may give what it has waited for to a
  // resource that keeps it: so a second time.
  for (int round = 0; round < 2; ++round) {
    (void)resource_->trim();
    if (!reclaimer_.idle_by(end)) {
      device_->lose(error(errc::shutting_down,
                          "memory was still in use when the time for shutting down was over"));
      // What a lost device still touches is not waited for here.
      if (!reclaimer_.idle_by(clock::now() + std::chrono::seconds(1))) return false;
    }
    reclaimer_.stop();
  }
  return true;
}

void runtime_core::outlive() noexcept {
  outlived_ = true;
  (void)resource_->trim();
  const std::lock_guard lock(adoption_mutex_);
  for_each_timeline([this](timeline& t) {
    const bool adopts = std::find(adoption_.begin(), adoption_.end(), &t) != adoption_.end();
    if (&t != reclaim_timeline_ && !adopts && t.leases() == 0) t.retire();
  });
}

void runtime_core::tear_down(std::chrono::milliseconds timeout) noexcept {
  if (std::exchange(torn_down_, true)) return;
  end_work(timeout);
  // Two runtimes that depend on each other's tickets would keep each other.
  for_each_timeline([](timeline& t) { t.forget_upstream(); });
  releases_->drain();
  // Handles that are still around keep what they know of their blocks.
  const std::lock_guard lock(records_lock_);
  if (records_in_use_ != 0) self_ = shared_from_this();
}

void runtime_core::end_work(std::chrono::milliseconds timeout) noexcept {
  releases_->drain();
  // References that are still around become stale; records are walked without the lock, since slabs
  // never go.
  std::vector<slab*> all;
  {
    const std::lock_guard lock(slabs_mutex_);
    for (auto& s : slabs_) all.push_back(s.get());
  }
  for (auto* s : all) {
    for (auto& record : *s) (void)free(record);
  }
  // Other threads may be completing frees; a recorder between preflight and commit completes its
  // own.
  const auto end = std::chrono::steady_clock::now() + timeout;
  while (blocks() != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  // Imports are on their way back; they may be exports of our own. Not while a producer that is
  // given one back ends the runtime, on the thread that gives them back.
  const bool giving_back = reclaimer_.runs_here();
  while (!giving_back && reclaimer_.foreign() != 0 && std::chrono::steady_clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
  const bool recorded = blocks() != 0;
  const bool imported = !giving_back && reclaimer_.foreign() != 0;
  if (recorded || giving_back || reclaimer_.deferrals() != 0 ||
      exports_.load(std::memory_order_acquire) != 0) {
    // The resource, its reclaim stream and the reclaim thread stay until that recorder is gone, or
    // what came in or went out is back, or nothing runs that was lost; and the streams that order
    // that.
    if (recorded) report("a launch recorder still holds memory of a runtime that is gone");
    if (imported) report("work or a producer still holds imports of a runtime that is gone");
    return outlive();
  }
  if (!finish_frees(end)) return outlive();
  {
    const std::lock_guard lock(misuse_mutex_);
    resource_.reset();
  }
  // The frees that have to wait, too, have run when the device goes; unless a launch that was
  // committed after the drain does not end in time.
  try {
    reclaim_timeline_->reserve();
    const auto last = reclaim_timeline_->submit();
    const auto limit = std::chrono::steady_clock::now() + timeout;
    while (reclaim_timeline_->advance() < last && !device_->lost() &&
           std::chrono::steady_clock::now() < limit) {
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
  } catch (...) {
    // Lost: nothing runs any more.
  }
  for_each_timeline([](timeline& t) { t.retire(); });
}

}  // namespace sluice::detail

namespace sluice {

std::optional<device_id> device_of(stream_id id) {
  return detail::runtime_serials::instance().device_of(id.runtime);
}

std::string to_string(stream_id id) {
  const auto device = device_of(id);
  return "stream " + std::to_string(id.index) + " of runtime " + std::to_string(id.runtime) + " (" +
         (device ? to_string(*device) : std::string("none")) + ")";
}

}  // namespace sluice
