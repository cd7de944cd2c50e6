// SPDX-License-Identifier: Apache-2.0
#include "runtime/base/size_class.hpp"
#include "runtime/sync/spin_lock.hpp"
#include "runtime/timelines/timeline.hpp"

#include <sluice/runtime/device.hpp>
#include <sluice/runtime/memory_adaptor.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Memory that can be handed out again.
struct free_block {
  allocation memory;     // as upstream granted it
  timeline_points uses;  // uses that had not completed at the free
};

/// The free blocks of one size that were last granted on one stream, mostly in the order of their
/// frees.
struct stream_list {
  stream_ref stream;
  std::vector<free_block> blocks;
};

/// The free blocks of one size.
struct bin {
  std::vector<stream_list> lists;
  // The position at which the next search continues.
  std::size_t next_list = 0;
  std::size_t next_block = 0;
  std::size_t looks = 0;  // the unused allowance of earlier searches, see `looks_gained`

  [[nodiscard]] std::size_t size() const noexcept {
    std::size_t sum = 0;
    for (const auto& list : lists) sum += list.blocks.size();
    return sum;
  }
};

/// The state of one search for a block that no other stream may still use.
struct search {
  stream_id stream{};
  timeline_points queried{};  // points of the streams that the device has been queried about
  timeline_points open{};     // the newest unfinished points, to be queried
  std::size_t may_look = 0;
  std::size_t visited = 0;  // blocks that it need not visit again
};

class pool_resource final : public memory_adaptor {
 public:
  pool_resource(std::unique_ptr<memory_resource> upstream_resource, pool_options options)
      : memory_adaptor(std::move(upstream_resource), "make_pool_resource"), options_(options) {
    if (upstream().supports_use_tracking()) return;
    throw error(errc::invalid_argument, "make_pool_resource: upstream '" +
                                            std::string(upstream().name()) +
                                            "' does not track uses, which a pool requires");
  }
  ~pool_resource() override {
    if (context_ != nullptr) give_all_back();
  }

  void bind(resource_context& context) override {
    memory_adaptor::bind(context);
    context_ = &context;
  }

  granted_memory allocate(const allocation_request& request) override {
    const auto size = detail::size_class(request.bytes);
    const auto number = detail::class_number(size);
    if (auto block = find(number, request.stream)) return grant(std::move(*block), request);
    try {
      auto rounded_request = request;
      rounded_request.bytes = size;
      auto granted = upstream().allocate(rounded_request);
      granted.memory.first_tag = granted.memory.tag;
      return granted;
    } catch (const error& e) {
      if (e.code() != errc::out_of_memory && e.code() != errc::over_budget) throw;
      std::unique_lock lock(lock_);
      auto block = take_unfinished(number, request.stream);
      lock.unlock();
      if (!block) throw;
      return grant(std::move(*block), request);
    }
  }

  void deallocate(allocation memory, stream_ref stream,
                  std::span<const timeline_point> unfinished) noexcept override {
    try {
      free_block block{memory, {}};
      block.memory.generation = 0;
      block.memory.tag = memory.first_tag;  // until it is handed out again
      block.uses.append(unfinished);
      const std::lock_guard lock(lock_);
      if (memory.bytes <= options_.max_kept - std::min(kept_bytes_, options_.max_kept)) {
        list_of(detail::class_within(memory.bytes), stream).blocks.push_back(std::move(block));
        kept_bytes_ += memory.bytes;
        return;
      }
    } catch (const std::bad_alloc&) {
      // If the host has no memory to note the block, it is returned at once.
    }
    memory.tag = memory.first_tag;
    upstream().deallocate(memory, stream, unfinished);
  }

  bool keeps(std::size_t bytes) const noexcept override {
    const std::lock_guard lock(lock_);
    return detail::size_class(bytes) <=
           options_.max_kept - std::min(kept_bytes_, options_.max_kept);
  }

  std::size_t trim() noexcept override {
    auto freed_bytes = give_unused_back();
    freed_bytes += give_all_back();
    (void)upstream().trim();
    return freed_bytes;
  }
  std::size_t release_unused() noexcept override {
    const auto freed_bytes = give_unused_back();
    (void)upstream().release_unused();
    return freed_bytes;
  }
  std::size_t make_room() noexcept override {
    const auto freed_bytes = give_unused_back();
    (void)upstream().make_room();
    return freed_bytes;
  }
  std::size_t max_obtainable() const noexcept override {
    const auto more = upstream().max_obtainable();
    const std::lock_guard lock(lock_);
    return more + std::min(kept_bytes_, std::numeric_limits<std::size_t>::max() - more);
  }
  std::size_t footprint(std::size_t bytes) const noexcept override {
    return upstream().footprint(detail::size_class(bytes));
  }

  std::string_view name() const noexcept override { return "pool"; }

 private:
  /// The position of a walk over all blocks.
  struct position {
    std::size_t bin = 0;
    std::size_t list = 0;
    std::size_t block = 0;
  };
  // The number of its own newest blocks that an allocation visits.
  static constexpr std::size_t newest_visited = 8;
  // The number of blocks that a search visits under the lock at a time.
  static constexpr std::size_t looked_at_once = 64;
  // The allowance of one search over the blocks of all streams, which bounds the time of an
  // allocation. A search also uses the allowance that earlier ones left, and continues at their
  // position.
  //
  // With up to this many blocks of a size, the pool grows only if all of them are in use. With n
  // blocks beyond, it grows only if each was in use when it was visited by the last n /
  // looks_gained searches, or one of these searches took or moved it. That is about the number of
  // blocks in use at one time. Allocations from a stream's own blocks make no search; even in step
  // with searches they at most double a stream's list.
  static constexpr std::size_t looks_gained = 256;

  /// The state of a walk that returns blocks.
  struct release {
    timeline_points queried{};  // points of the streams that the device has been queried about
    timeline_points open{};     // the newest unfinished points, to be queried
    std::size_t count = 0;
    std::array<free_block, looked_at_once> blocks{};  // taken out of the lists
    std::array<stream_ref, looked_at_once> streams{};
  };

  [[nodiscard]] granted_memory grant(free_block&& block,
                                     const allocation_request& request) const noexcept {
    block.memory.tag = request.tag;
    block.memory.generation = request.generation;
    drop_settled(block.uses);
    return {.memory = block.memory, .inherited = std::move(block.uses)};
  }

  /// Finds a block that needs no wait for another stream or, if the options prefer it, one that
  /// does.
  std::optional<free_block> find(std::size_t number, stream_ref stream) {
    std::unique_lock lock(lock_);
    auto* source = bin_of(number);
    if (source == nullptr) return std::nullopt;
    if (auto block = take_own(*source, stream)) return block;
    search state{.stream = stream.id()};
    state.may_look = std::min(std::exchange(source->looks, 0) + looks_gained, source->size());
    auto block = look_on(*source, state);
    if (!block && options_.prefer_unfinished) block = take_unfinished(number, stream);
    while (!block &&
           (!state.open.empty() || (state.may_look != 0 && state.visited < source->size()))) {
      lock.unlock();
      // A query of the device costs less than new memory. It runs without the lock, and other
      // threads may take the lock between two steps of the search.
      for (const auto& point : state.open) context_->look_at(point);
      state.queried.append(state.open.view());
      state.open.clear();
      lock.lock();
      source = bin_of(number);
      if (source == nullptr) return std::nullopt;
      block = look_on(*source, state);
    }
    source->looks = std::min(source->looks + state.may_look, source->size());
    return block;
  }

  /// One of the newest blocks of `stream` that no other stream may still use.
  std::optional<free_block> take_own(bin& source, stream_ref stream) noexcept {
    for (auto& list : source.lists) {
      if (!(list.stream == stream)) continue;
      const auto size = list.blocks.size();
      for (std::size_t i = 0; i < std::min(size, newest_visited); ++i) {
        const auto& points = list.blocks[size - 1 - i].uses;
        if (std::all_of(points.begin(), points.end(), [&](const timeline_point& point) {
              return point.stream == stream.id() || context_->settled(point);
            })) {
          return take(list, size - 1 - i);
        }
      }
    }
    return std::nullopt;
  }

  /// The next block, over all streams, that no other stream may still use. If there is none and the
  /// device must be queried first, the next call visits the same blocks again.
  std::optional<free_block> look_on(bin& source, search& state) {
    const auto limit = std::min({looked_at_once, state.may_look, source.size()});
    auto list_index = source.next_list;
    auto index = source.next_block;
    for (std::size_t visited = 0; visited < limit;) {
      if (list_index >= source.lists.size()) list_index = index = 0;
      auto& list = source.lists[list_index];
      if (index >= list.blocks.size()) {
        ++list_index;
        index = 0;
        continue;
      }
      ++visited;
      if (usable(list.blocks[index], state)) {
        source.next_list = list_index;
        source.next_block = index;
        state.may_look -= visited;
        return take(list, index);
      }
      ++index;
    }
    if (!state.open.empty()) return std::nullopt;
    source.next_list = list_index;
    source.next_block = index;
    state.may_look -= limit;
    state.visited += limit;
    return std::nullopt;
  }

  /// Whether no other stream may still use `block`. Notes unfinished points that have not been
  /// queried.
  [[nodiscard]] bool usable(const free_block& block, search& state) const {
    bool yes = true;
    for (const auto& point : block.uses) {
      if (point.stream == state.stream || context_->settled(point)) continue;
      yes = false;
      if (raise_point(state.queried, point) || raise_point(state.open, point)) continue;
      state.open.push_back(point);
    }
    return yes;
  }

  /// Any block, preferably one of `stream`.
  std::optional<free_block> take_unfinished(std::size_t number, stream_ref stream) noexcept {
    auto* source = bin_of(number);
    if (source == nullptr) return std::nullopt;
    stream_list* list_chosen = nullptr;
    for (auto& list : source->lists) {
      if (list.blocks.empty()) continue;
      if (list_chosen == nullptr || list.stream == stream) list_chosen = &list;
    }
    if (list_chosen == nullptr) return std::nullopt;
    return take(*list_chosen, 0);
  }

  free_block take(stream_list& list, std::size_t index) noexcept {
    auto block = std::move(list.blocks[index]);
    if (index + 1 != list.blocks.size()) list.blocks[index] = std::move(list.blocks.back());
    list.blocks.pop_back();
    kept_bytes_ -= block.memory.bytes;
    return block;
  }

  void drop_settled(timeline_points& points) const noexcept {
    for (std::size_t i = 0; i < points.size();) {
      if (context_->settled(points[i])) {
        points.swap_remove(i);
      } else {
        ++i;
      }
    }
  }

  [[nodiscard]] bin* bin_of(std::size_t number) noexcept {
    return number < bins_.size() ? &bins_[number] : nullptr;
  }

  stream_list& list_of(std::size_t number, stream_ref stream) {
    if (number >= bins_.size()) bins_.resize(number + 1);
    auto& target = bins_[number];
    auto& lists = target.lists;
    for (auto& list : lists) {
      if (list.stream == stream) return list;
    }
    // The lists of retired streams are kept while they hold blocks.
    const auto unused = [](const stream_list& list) {
      return list.blocks.empty() && detail::timeline::of(list.stream)->retired();
    };
    const auto visited_end =
        lists.begin() + static_cast<std::ptrdiff_t>(std::min(target.next_list, lists.size()));
    target.next_list -= static_cast<std::size_t>(std::count_if(lists.begin(), visited_end, unused));
    std::erase_if(lists, unused);
    return lists.emplace_back(stream_list{stream, {}});
  }

  /// Takes blocks that no unfinished work uses out of the lists. Visits at most `looked_at_once`
  /// blocks, beginning at `next`. Returns whether these were the last ones.
  [[nodiscard]] bool take_unused(position& next, release& round) noexcept {
    const std::lock_guard lock(lock_);
    for (std::size_t visited = 0; visited < looked_at_once;) {
      if (next.bin >= bins_.size()) return true;  // another walk may have taken all
      auto& lists = bins_[next.bin].lists;
      if (next.list >= lists.size()) {
        next = {next.bin + 1, 0, 0};
        continue;
      }
      auto& list = lists[next.list];
      if (next.block >= list.blocks.size()) {
        next = {next.bin, next.list + 1, 0};
        continue;
      }
      ++visited;
      if (unused(list.blocks[next.block], round)) {
        round.streams[round.count] = list.stream;
        round.blocks[round.count++] = take(list, next.block);
      } else {
        ++next.block;
      }
    }
    return false;
  }

  /// Whether no unfinished work uses `block`. Notes unfinished points that have not been queried.
  [[nodiscard]] bool unused(const free_block& block, release& round) const noexcept {
    bool yes = true;
    for (const auto& point : block.uses) {
      if (context_->completed(point)) continue;
      yes = false;
      if (raise_point(round.queried, point) || raise_point(round.open, point)) continue;
      try {
        round.open.push_back(point);
      } catch (const std::bad_alloc&) {
        // The block then stays for now.
      }
    }
    return yes;
  }

  /// Returns the blocks that no unfinished work uses, after queries of the device.
  std::size_t give_unused_back() noexcept {
    if (context_->device().lost()) return 0;  // the memory is lost with the device
    std::size_t freed_bytes = 0;
    try {
      release round;
      position next;
      for (bool last = false; !last;) {
        const auto begin = next;
        round.count = 0;
        last = take_unused(next, round);
        for (std::size_t i = 0; i < round.count; ++i) {
          auto& block = round.blocks[i];
          freed_bytes += block.memory.bytes;
          give_back(block, round.streams[i]);
        }
        if (round.open.empty()) continue;
        for (const auto& point : round.open) context_->look_at(point);
        round.queried.append(round.open.view());
        round.open.clear();
        next = begin;
        last = false;
      }
    } catch (const std::bad_alloc&) {
      // The other blocks stay for now.
    }
    return freed_bytes;
  }

  void give_back(free_block& block, stream_ref stream) noexcept {
    drop_settled(block.uses);
    // The free of an unused block must not queue after the work of a lane.
    const auto target_stream = block.uses.empty() ? context_->reclaim_stream() : stream;
    upstream().deallocate(block.memory, target_stream, block.uses.view());
  }

  std::size_t give_all_back() noexcept {
    std::vector<bin> bins;
    std::size_t freed_bytes = 0;
    {
      const std::lock_guard lock(lock_);
      bins.swap(bins_);
      freed_bytes = std::exchange(kept_bytes_, 0);
    }
    if (context_->device().lost()) return 0;  // the memory is lost with the device
    for (auto& source : bins) {
      for (auto& list : source.lists) {
        for (auto& block : list.blocks) give_back(block, list.stream);
      }
    }
    return freed_bytes;
  }

  const pool_options options_;
  resource_context* context_ = nullptr;
  // Held for short searches. Only a new or growing list allocates under it, which is rare.
  mutable detail::spin_lock lock_;
  std::vector<bin> bins_;  // by number of size class
  std::size_t kept_bytes_ = 0;
};

}  // namespace

std::unique_ptr<memory_resource> make_pool_resource(std::unique_ptr<memory_resource> upstream,
                                                    pool_options options) {
  return std::make_unique<pool_resource>(std::move(upstream), options);
}

}  // namespace sluice
