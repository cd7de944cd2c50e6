// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/size_class.hpp"
#include "runtime/reports/report.hpp"
#include "runtime/timelines/timeline.hpp"

#include <sluice/runtime/memory_adaptor.hpp>
#include <sluice/runtime/memory_guard.hpp>
#include <sluice/runtime/user_code_scope.hpp>

#include <algorithm>
#include <chrono>
#include <cinttypes>
#include <cstdio>
#include <limits>
#include <map>
#include <mutex>
#include <new>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

namespace sluice {
namespace {

constexpr std::byte zone_byte{0xBD};
constexpr std::byte allocated_byte{0xFF};
constexpr std::byte freed_byte{0xDF};
constexpr std::size_t least_staging = std::size_t{1} << 20;
/// Small enough that no sum of sizes overflows.
constexpr std::size_t max_red_zone = std::size_t{1} << 30;

/// A block with the guard's records of it.
struct guarded {
  allocation memory;              // as handed out, inside its red zones
  allocation extent;              // as upstream granted it
  stream_ref stream;              // the stream of the fill
  std::uint64_t fill_ticket = 0;  // the ticket after the fill
  timeline_points uses{};         // at the free
  bool poisoned = false;          // all bytes are `freed_byte`
  bool unsure = false;            // a comparison was not possible
};

/// The unexpected bytes in a range.
struct damage {
  std::size_t first = 0;
  std::size_t count = 0;

  /// Compares `bytes`, which begin at `position` of the whole range, with `expected`.
  void look(std::span<const std::byte> bytes, std::byte expected, std::size_t position = 0) {
    for (std::size_t i = 0; i < bytes.size(); ++i) {
      if (bytes[i] == expected) continue;
      if (count++ == 0) first = position + i;
    }
  }
};

class guard_resource final : public memory_adaptor {
 public:
  guard_resource(std::unique_ptr<memory_resource> upstream_resource, guard_options options)
      : memory_adaptor(std::move(upstream_resource), "make_guard_resource"),
        options_(std::move(options)) {
    if (!upstream().supports_use_tracking()) {
      throw error(errc::invalid_argument, "make_guard_resource: upstream '" +
                                              std::string(upstream().name()) +
                                              "' does not track uses, which a guard requires");
    }
    if (zone() == 0 || zone() > max_red_zone || zone() % detail::block_alignment != 0) {
      throw error(errc::invalid_argument, "make_guard_resource: red_zone is " +
                                              std::to_string(zone()) +
                                              "; must be a multiple of 256 from 256 to 2^30");
    }
    if (!options_.counters) options_.counters = std::make_shared<guard_counters>();
    if (options_.remembered > history_.max_size()) throw std::bad_alloc();
    history_.resize(options_.remembered);
  }

  ~guard_resource() override {
    if (context_ == nullptr) return;
    (void)empty();
    // The remaining blocks have been lost with the device.
    options_.counters->unchecked += freed_.size() + quarantine_.size();
    auto& device = context_->device();
    const auto reclaim = context_->reclaim_stream();
    // Work on a lost device may not end. The staging memory then stays with the device.
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(1);
    while (device.lost() && !detail::timeline::of(reclaim)->quiescent()) {
      if (std::chrono::steady_clock::now() >= limit) return;
      std::this_thread::yield();
    }
    device.deallocate_staging(staging_);
  }

  void bind(resource_context& context) override {
    memory_adaptor::bind(context);
    staging_ = static_cast<std::byte*>(context.device().allocate_staging(staging_bytes_));
    context_ = &context;
  }

  granted_memory allocate(const allocation_request& request) override {
    if (request.bytes > std::numeric_limits<std::size_t>::max() - 2 * zone()) {
      throw error(errc::out_of_memory,
                  "out of memory: red zones around " + std::to_string(request.bytes) + " bytes");
    }
    auto padded = request;
    padded.bytes += 2 * zone();
    auto granted = upstream().allocate(padded);
    guarded block{
        .memory = {static_cast<std::byte*>(granted.memory.address) + zone(), request.bytes,
                   request.tag, request.generation},
        .extent = granted.memory,
        .stream = request.stream,
    };
    try {
      for (const auto& point : granted.inherited) context_->wait(request.stream, point);
      block.fill_ticket = fill(block, std::move(granted.ready_at));
      const std::lock_guard lock(mutex_);
      live_.emplace(block.memory.address, block);
    } catch (...) {
      give_up(granted, request.stream);
      throw;
    }
    granted_memory result{.memory = block.memory};
    result.inherited.push_back({request.stream.id(), block.fill_ticket});
    return result;
  }

  void deallocate(allocation memory, stream_ref,
                  std::span<const timeline_point> unfinished) noexcept override {
    std::uint64_t number = 0;
    try {
      std::unique_lock lock(mutex_);
      const auto position = live_.find(memory.address);
      if (position == live_.end()) {
        lock.unlock();
        return tell({.finding = guard_finding::double_free, .block = memory});
      }
      auto block = position->second;
      // A pool above may have granted the block again, with another tag and generation.
      block.memory.tag = memory.tag;
      block.memory.generation = memory.generation;
      block.uses.append(unfinished);
      freed_.emplace(frees_ + 1, std::move(block));
      number = ++frees_;
      live_.erase(position);
      remember(memory);
    } catch (...) {
      detail::report("memory could not be freed: out of host memory");
      return;
    }
    try {
      memory.generation = number;
      context_->reclaim_after(
          unfinished, memory,
          [](void* owner, allocation freed) noexcept {
            static_cast<guard_resource*>(owner)->last_use_has_ended(freed.generation);
          },
          this);
    } catch (...) {
      detail::report("a freed block is kept until the next trim: out of host memory");
    }
  }

  std::size_t trim() noexcept override {
    const auto freed_bytes = empty();
    return std::max(freed_bytes, upstream().trim());
  }
  std::size_t release_unused() noexcept override {
    const auto freed_bytes = empty();
    return std::max(freed_bytes, upstream().release_unused());
  }
  std::size_t make_room() noexcept override {
    const auto freed_bytes = empty();
    return std::max(freed_bytes, upstream().make_room());
  }
  std::size_t max_obtainable() const noexcept override {
    const auto more = upstream().max_obtainable();
    const std::lock_guard lock(mutex_);
    auto bytes = quarantined_;
    for (const auto& [_, freed] : freed_) bytes += freed.extent.bytes;
    return more + std::min(bytes, std::numeric_limits<std::size_t>::max() - more);
  }
  std::size_t footprint(std::size_t bytes) const noexcept override {
    constexpr auto limit = std::numeric_limits<std::size_t>::max();
    return bytes > limit - 2 * zone() ? limit : upstream().footprint(bytes + 2 * zone());
  }

  void note_misuse(memory_misuse misuse, const allocation& memory) noexcept override {
    guard_report report{.finding = misuse == memory_misuse::double_free ? guard_finding::double_free
                                                                        : guard_finding::stale_use,
                        .block = memory};
    {
      const std::lock_guard lock(mutex_);
      if (memory.address == nullptr) report.block = known(memory.generation);
      report.now_there = at(report.block);
    }
    tell(report);
    upstream().note_misuse(misuse, memory);
  }

  std::string_view name() const noexcept override { return "guard"; }

 private:
  /// Blocks by the number of their free.
  using blocks = std::map<std::uint64_t, guarded>;

  [[nodiscard]] std::size_t zone() const noexcept { return options_.red_zone; }
  [[nodiscard]] std::byte* begin_of(const guarded& block) const noexcept {
    return static_cast<std::byte*>(block.memory.address) - zone();
  }

  // Allocation

  /// Fills a new block and its red zones on its stream. Returns the ticket after the fill.
  std::uint64_t fill(const guarded& block, point_reservation place) {
    auto& stream_timeline = *detail::timeline::of(block.stream);
    auto* const memory = static_cast<std::byte*>(block.memory.address);
    if (!place) place = point_reservation(block.stream);
    const auto first = stream_timeline.newest().ticket + 1;
    if (!stream_timeline.unless_retired([&](native_stream* native) {
          auto& device = context_->device();
          device.fill(begin_of(block), &zone_byte, 1, zone(), native);
          device.fill(memory, &allocated_byte, 1, block.memory.bytes, native);
          device.fill(memory + block.memory.bytes, &zone_byte, 1, zone(), native);
        })) {
      throw error(errc::stream_misuse, "the stream has been destroyed");
    }
    return detail::timeline::take(place)->submit({}, nullptr, first);
  }

  /// Returns memory that may have been filled on `stream`.
  void give_up(granted_memory& granted, stream_ref stream) noexcept {
    try {
      auto& stream_timeline = *detail::timeline::of(stream);
      try {
        stream_timeline.reserve();
        granted.inherited.push_back({stream_timeline.id(), stream_timeline.submit()});
      } catch (...) {
        if (!stream_timeline.retired()) throw;
        // Its last ticket follows all of its work.
        granted.inherited.push_back(stream_timeline.newest());
      }
      upstream().deallocate(granted.memory, stream, granted.inherited.view());
    } catch (...) {
      stays();
    }
  }

  // After a free

  void last_use_has_ended(std::uint64_t number) noexcept {
    const std::lock_guard checking(checking_);
    blocks::node_type freed;
    {
      const std::lock_guard lock(mutex_);
      freed = freed_.extract(number);
    }
    if (freed) finish(std::move(freed));  // otherwise a trim has taken it
  }

  /// Checks a block whose uses have ended, then keeps or returns it. Under `checking_`.
  void finish(blocks::node_type freed) noexcept {
    auto& block = freed.mapped();
    const auto number = freed.key();
    const bool small =
        options_.quarantine_blocks != 0 && block.extent.bytes <= options_.quarantine_bytes;
    try {
      compare_zones(block, small && number > released_);
    } catch (...) {
      return lose();
    }
    if (!block.poisoned) return give_back(block);
    blocks evicted;
    {
      const std::lock_guard lock(mutex_);
      quarantined_ += block.extent.bytes;
      quarantine_.insert(std::move(freed));
      while (quarantine_.size() > options_.quarantine_blocks ||
             quarantined_ > options_.quarantine_bytes) {
        auto oldest = quarantine_.extract(quarantine_.begin());
        quarantined_ -= oldest.mapped().extent.bytes;
        evicted.insert(std::move(oldest));
      }
    }
    for (auto& [_, oldest] : evicted) leave_quarantine(oldest);
  }

  /// Compares the red zones of a freed block. Fills all of it if it is to be kept.
  void compare_zones(guarded& block, bool keep) {
    const auto reclaim = context_->reclaim_stream();
    // The uses have completed, but compute-sanitizer recognizes only waits.
    for (const auto& point : block.uses) context_->wait(reclaim, point);
    auto* const begin = begin_of(block);
    const bool done = run([&](device& device, native_stream* native) {
      device.copy(staging_, begin, zone(), copy_direction::device_to_host, native);
      device.copy(staging_ + zone(), begin + zone() + block.memory.bytes, zone(),
                  copy_direction::device_to_host, native);
      if (keep) device.fill(begin, &freed_byte, 1, extent(block), native);
    });
    block.poisoned = keep && done;
    auto* fill_timeline = detail::timeline::of(block.stream);
    fill_timeline->wait_until(block.fill_ticket);  // it has completed, but the watermark may lag
    block.unsure = !done || fill_timeline->failure_of(block.fill_ticket).has_value();
    if (block.unsure) return;
    damage head;
    damage tail;
    head.look({staging_, zone()}, zone_byte);
    tail.look({staging_ + zone(), zone()}, zone_byte);
    const auto zone_size = static_cast<std::ptrdiff_t>(zone());
    if (head.count != 0) {
      tell({guard_finding::underrun, block.memory,
            static_cast<std::ptrdiff_t>(head.first) - zone_size, head.count});
    }
    if (tail.count != 0) {
      tell({guard_finding::overrun, block.memory,
            static_cast<std::ptrdiff_t>(block.memory.bytes + tail.first), tail.count});
    }
  }

  /// Checks a block that leaves the quarantine, and returns it. Under `checking_`, like the next
  /// functions.
  void leave_quarantine(guarded& block) noexcept {
    try {
      compare_freed(block);
    } catch (...) {
      return lose();
    }
    give_back(block);
  }

  void compare_freed(guarded& block) {
    damage damaged;
    for (std::size_t offset = 0; offset < extent(block); offset += staging_bytes_) {
      const auto bytes = std::min(staging_bytes_, extent(block) - offset);
      if (!run([&](device& device, native_stream* native) {
            device.copy(staging_, begin_of(block) + offset, bytes, copy_direction::device_to_host,
                        native);
          })) {
        block.unsure = true;
        break;
      }
      damaged.look({staging_, bytes}, freed_byte, offset);
    }
    if (damaged.count == 0) return;
    tell({guard_finding::write_after_free, block.memory,
          static_cast<std::ptrdiff_t>(damaged.first) - static_cast<std::ptrdiff_t>(zone()),
          damaged.count});
  }

  void give_back(const guarded& block) noexcept {
    // The guard's own last access, which has completed, follows all earlier uses.
    upstream().deallocate(block.extent, context_->reclaim_stream(), {&last_look_, 1});
    ++(block.unsure ? options_.counters->unchecked : options_.counters->checked);
  }

  /// Abandons a block after a failed operation: the device may still use it.
  void lose() noexcept {
    ++options_.counters->unchecked;
    stays();
  }
  void stays() const noexcept {
    if (context_->device().lost()) return;
    detail::report("memory could not be freed", current_error().what());
  }

  /// Returns the blocks of the quarantine, and freed blocks whose uses have ended. Blocks freed
  /// before this call do not enter the quarantine. Returns the number of bytes.
  std::size_t empty() noexcept {
    if (context_->device().lost()) return 0;
    const std::lock_guard checking(checking_);
    look_at_uses();
    blocks unused;
    blocks evicted;
    {
      const std::lock_guard lock(mutex_);
      released_ = frees_;
      for (auto next = freed_.begin(); next != freed_.end();) {
        const auto freed = next++;
        const auto& points = freed->second.uses;
        if (std::all_of(points.begin(), points.end(),
                        [this](timeline_point point) { return context_->settled(point); })) {
          unused.insert(freed_.extract(freed));
        }
      }
      evicted.swap(quarantine_);
      quarantined_ = 0;
    }
    std::size_t freed_bytes = 0;
    while (!unused.empty()) {
      freed_bytes += unused.begin()->second.extent.bytes;
      finish(unused.extract(unused.begin()));
    }
    for (auto& [_, block] : evicted) {
      freed_bytes += block.extent.bytes;
      leave_quarantine(block);
    }
    return freed_bytes;
  }

  /// Queries the device about the last uses of freed blocks.
  void look_at_uses() noexcept {
    try {
      timeline_points open;
      {
        const std::lock_guard lock(mutex_);
        for (const auto& [_, freed] : freed_) {
          for (const auto& point : freed.uses) {
            if (!raise_point(open, point)) open.push_back(point);
          }
        }
      }
      for (const auto& point : open) context_->look_at(point);
    } catch (const std::bad_alloc&) {
      // The reclaim thread will query the device.
    }
  }

  [[nodiscard]] std::size_t extent(const guarded& block) const noexcept {
    return block.memory.bytes + 2 * zone();
  }

  /// Runs the work that `enqueue` puts on the reclaim stream, and waits for it. False if part of it
  /// failed.
  template <class Enqueue>
  bool run(Enqueue enqueue) {
    auto& stream_timeline = *detail::timeline::of(context_->reclaim_stream());
    stream_timeline.reserve();
    const auto first = stream_timeline.newest().ticket + 1;
    try {
      enqueue(context_->device(), stream_timeline.native());
    } catch (...) {
      stream_timeline.unreserve();
      throw;
    }
    const auto ticket = stream_timeline.submit({}, nullptr, first);
    stream_timeline.wait_until(ticket);
    last_look_ = {stream_timeline.id(), ticket};
    return !stream_timeline.failure_of(ticket);
  }

  // The guard's knowledge of blocks; under `mutex_`

  void remember(const allocation& freed) noexcept {
    if (freed.generation == 0 || history_.empty()) return;
    history_[history_count_++ % history_.size()] = freed;
  }

  /// A block that is being freed, or has been.
  [[nodiscard]] allocation known(std::uint64_t generation) const noexcept {
    for (const auto& freed : history_) {
      if (freed.generation == generation) return freed;
    }
    for (const auto& [_, block] : live_) {
      if (block.memory.generation == generation) return block.memory;
    }
    return {nullptr, 0, "unknown", generation};
  }

  /// The live block that contains the first byte of `block_memory`.
  [[nodiscard]] std::optional<allocation> at(const allocation& block_memory) const noexcept {
    const auto address = reinterpret_cast<std::uintptr_t>(block_memory.address);
    for (const auto& [_, block] : live_) {
      const auto begin = reinterpret_cast<std::uintptr_t>(block.memory.address);
      if (block.memory.generation != block_memory.generation && address >= begin &&
          address - begin < block.memory.bytes) {
        return block.memory;
      }
    }
    return std::nullopt;
  }

  void tell(const guard_report& report) noexcept {
    const std::lock_guard lock(report_mutex_);
    try {
      if (options_.on_report) {
        const detail::user_code_scope user_code;
        options_.on_report(report);
      } else {
        detail::report(to_string(report));
      }
      ++options_.counters->reported;
    } catch (...) {
      ++options_.counters->lost_reports;
    }
  }

  guard_options options_;
  resource_context* context_ = nullptr;

  // Held during queries of the device, so longer than an allocating or freeing thread may wait.
  std::mutex checking_;
  const std::size_t staging_bytes_ = std::max(least_staging, 2 * options_.red_zone);
  std::byte* staging_ = nullptr;
  timeline_point last_look_{};  // on the reclaim stream; under `checking_`

  mutable std::mutex mutex_;  // never held during a query of the device
  std::unordered_map<void*, guarded> live_;
  blocks freed_;       // possibly in use
  blocks quarantine_;  // not in use
  std::size_t quarantined_ = 0;
  std::uint64_t frees_ = 0;
  std::uint64_t released_ = 0;       // blocks freed up to this number skip the quarantine
  std::vector<allocation> history_;  // a ring
  std::size_t history_count_ = 0;

  std::mutex report_mutex_;
};

std::string described(const allocation& block) {
  if (block.address == nullptr) {
    return "memory '" + std::string(block.tag.name()) + "' (generation " +
           std::to_string(block.generation) + ")";
  }
  char address[24];
  (void)std::snprintf(address, sizeof address, "0x%" PRIxPTR,
                      reinterpret_cast<std::uintptr_t>(block.address));
  return "memory '" + std::string(block.tag.name()) + "' (" + std::to_string(block.bytes) +
         " bytes at " + address + ", generation " + std::to_string(block.generation) + ")";
}

const char* words_of(guard_finding finding) noexcept {
  switch (finding) {
    case guard_finding::overrun:
      return "was written past its end";
    case guard_finding::underrun:
      return "was written before its beginning";
    case guard_finding::write_after_free:
      return "was written after it had been freed";
    case guard_finding::double_free:
      return "was freed twice";
    case guard_finding::stale_use:
      return "was used after it had been freed";
  }
  return "was misused";
}

}  // namespace

std::string to_string(const guard_report& report) {
  auto line = described(report.block) + " " + words_of(report.finding);
  if (report.damaged != 0) {
    line += ": " + std::to_string(report.damaged) + " bytes are damaged, the first at offset " +
            std::to_string(report.offset);
  }
  if (report.now_there) line += "; its address now belongs to " + described(*report.now_there);
  return line;
}

std::unique_ptr<memory_resource> make_guard_resource(std::unique_ptr<memory_resource> upstream,
                                                     guard_options options) {
  return std::make_unique<guard_resource>(std::move(upstream), std::move(options));
}

}  // namespace sluice
