#include "runtime/memory/adaptor.hpp"
#include "runtime/memory/size_class.hpp"
#include "runtime/spin_lock.hpp"
#include "runtime/timeline.hpp"

#include <sluice/runtime/device.hpp>

#include <algorithm>
#include <mutex>
#include <new>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Memory that waits to be handed out again.
struct free_block {
  allocation memory;           // as upstream granted it
  timeline_points unfinished;  // uses that had not completed when it was freed
};

/// The free blocks of one size that were granted last for one stream, the newest last for the most
/// part.
struct stream_list {
  stream_ref stream;
  std::vector<free_block> blocks;
  std::size_t next_look = 0;  // where the search for settled blocks goes on
};

class pool_resource final : public detail::memory_adaptor {
 public:
  pool_resource(std::unique_ptr<memory_resource> under, pool_options options)
      : memory_adaptor(std::move(under), "make_pool_resource"), options_(options) {
    if (upstream().supports_use_tracking()) return;
    throw error(errc::invalid_argument,
                "make_pool_resource: upstream '" + std::string(upstream().name()) +
                    "' does not track uses, so nobody knows when its memory may be used again");
  }
  ~pool_resource() override {
    if (context_ != nullptr) give_all_back();
  }

  void bind(resource_context& context) override {
    memory_adaptor::bind(context);
    context_ = &context;
  }

  granted_memory allocate(const allocation_request& request) override {
    const auto rounded = detail::size_class(request.bytes);
    const auto number = detail::class_number(rounded);
    if (auto block = find(number, request.stream)) return grant(std::move(*block), request);
    try {
      auto larger = request;
      larger.bytes = rounded;
      auto granted = upstream().allocate(larger);
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
      block.unfinished.append(unfinished);
      const std::lock_guard lock(lock_);
      if (memory.bytes <= options_.most_kept - std::min(kept_, options_.most_kept)) {
        list_of(detail::class_within(memory.bytes), stream).blocks.push_back(std::move(block));
        kept_ += memory.bytes;
        return;
      }
    } catch (const std::bad_alloc&) {
      // Without memory to note it, it goes back at once.
    }
    memory.tag = memory.first_tag;
    upstream().deallocate(memory, stream, unfinished);
  }

  std::size_t trim() noexcept override {
    const auto given = give_all_back();
    (void)upstream().trim();
    return given;
  }
  std::size_t make_room() noexcept override {
    const auto given = give_all_back();
    (void)upstream().make_room();
    return given;
  }
  std::size_t footprint(std::size_t bytes) const noexcept override {
    return upstream().footprint(detail::size_class(bytes));
  }

  std::string_view name() const noexcept override { return "pool"; }

 private:
  using bin = std::vector<stream_list>;

  // Looking further at a time is not worth it; the next search goes on where this one ended.
  static constexpr std::size_t looked_at = 8;

  [[nodiscard]] granted_memory grant(free_block&& block,
                                     const allocation_request& request) const noexcept {
    block.memory.tag = request.tag;
    block.memory.generation = request.generation;
    drop_settled(block.unfinished);
    return {.memory = block.memory, .inherited = std::move(block.unfinished)};
  }

  /// What can be handed out without a wait for another stream, or, where that is wanted, with one.
  std::optional<free_block> find(std::size_t number, stream_ref stream) {
    timeline_points open;
    {
      const std::lock_guard lock(lock_);
      auto* lists = bin_of(number);
      if (lists == nullptr) return std::nullopt;
      if (auto block = take_own(*lists, stream)) return block;
      if (auto block = take_settled(*lists, &open)) return block;
      if (options_.prefer_unfinished) {
        if (auto block = take_unfinished(number, stream)) return block;
      }
    }
    if (open.empty()) return std::nullopt;
    // Asking the device costs less than new memory, but not while others want the lists.
    for (const auto& point : open) context_->look_at(point);
    const std::lock_guard lock(lock_);
    auto* lists = bin_of(number);
    return lists == nullptr ? std::nullopt : take_settled(*lists, nullptr);
  }

  /// Of `stream`'s own blocks: a late one that no other stream may still be using.
  std::optional<free_block> take_own(bin& lists, stream_ref stream) noexcept {
    for (auto& list : lists) {
      if (!(list.stream == stream)) continue;
      const auto size = list.blocks.size();
      for (std::size_t i = 0; i < std::min(size, looked_at); ++i) {
        const auto& points = list.blocks[size - 1 - i].unfinished;
        if (std::all_of(points.begin(), points.end(), [&](const timeline_point& point) {
              return point.stream == stream.id() || context_->settled(point);
            })) {
          return take(list, size - 1 - i);
        }
      }
    }
    return std::nullopt;
  }

  /// Of all streams' blocks: one that nobody uses any more. `open`: gets the newest point per
  /// stream that was in the way.
  std::optional<free_block> take_settled(bin& lists, timeline_points* open) {
    for (auto& list : lists) {
      const auto size = list.blocks.size();
      const auto start = size == 0 ? 0 : list.next_look % size;
      for (std::size_t i = 0; i < std::min(size, looked_at); ++i) {
        const auto index = (start + i) % size;
        const auto& points = list.blocks[index].unfinished;
        const auto in_the_way =
            std::find_if_not(points.begin(), points.end(),
                             [&](const timeline_point& point) { return context_->settled(point); });
        if (in_the_way == points.end()) {
          list.next_look = index;
          return take(list, index);
        }
        if (open != nullptr && !raise_point(*open, *in_the_way)) open->push_back(*in_the_way);
      }
      // With the device asked, the same ones are looked at once more.
      if (open == nullptr) list.next_look = start + looked_at;
    }
    return std::nullopt;
  }

  /// Any block, one of `stream`'s own first.
  std::optional<free_block> take_unfinished(std::size_t number, stream_ref stream) noexcept {
    auto* lists = bin_of(number);
    if (lists == nullptr) return std::nullopt;
    stream_list* chosen = nullptr;
    for (auto& list : *lists) {
      if (list.blocks.empty()) continue;
      if (chosen == nullptr || list.stream == stream) chosen = &list;
    }
    if (chosen == nullptr) return std::nullopt;
    return take(*chosen, 0);
  }

  free_block take(stream_list& list, std::size_t index) noexcept {
    auto block = std::move(list.blocks[index]);
    if (index + 1 != list.blocks.size()) list.blocks[index] = std::move(list.blocks.back());
    list.blocks.pop_back();
    kept_ -= block.memory.bytes;
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
    auto& lists = bins_[number];
    for (auto& list : lists) {
      if (list.stream == stream) return list;
    }
    // Lists of streams that are gone are of use while they hold something.
    std::erase_if(lists, [](const stream_list& list) {
      return list.blocks.empty() && list.stream.timeline()->retired();
    });
    return lists.emplace_back(stream_list{stream, {}});
  }

  std::size_t give_all_back() noexcept {
    std::vector<bin> bins;
    std::size_t given = 0;
    {
      const std::lock_guard lock(lock_);
      bins.swap(bins_);
      given = std::exchange(kept_, 0);
    }
    if (context_->device().lost()) return 0;  // the memory is lost with it
    for (auto& lists : bins) {
      for (auto& list : lists) {
        for (auto& block : list.blocks) {
          drop_settled(block.unfinished);
          // What nobody uses does not go behind the work that a lane has still to do.
          const auto on = block.unfinished.empty() ? context_->reclaim_stream() : list.stream;
          upstream().deallocate(block.memory, on, block.unfinished.view());
        }
      }
    }
    return given;
  }

  const pool_options options_;
  resource_context* context_ = nullptr;
  // Held for a look at some lists. A list that is new or grows takes memory under it, which is
  // rare.
  detail::spin_lock lock_;
  std::vector<bin> bins_;  // by size class
  std::size_t kept_ = 0;
};

}  // namespace

std::unique_ptr<memory_resource> make_pool_resource(std::unique_ptr<memory_resource> upstream,
                                                    pool_options options) {
  return std::make_unique<pool_resource>(std::move(upstream), options);
}

}  // namespace sluice
