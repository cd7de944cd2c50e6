#include "runtime/memory/adaptor.hpp"
#include "runtime/memory/size_class.hpp"
#include "runtime/timeline.hpp"

#include <sluice/runtime/error.hpp>
#include <sluice/runtime/memory_resource.hpp>

#include <algorithm>
#include <mutex>
#include <optional>
#include <utility>
#include <vector>

namespace sluice {
namespace {

/// Memory that waits to be handed out again.
struct free_block {
  void* address = nullptr;
  timeline_points unfinished;  // uses that had not completed when it was freed
};

/// The free blocks of one size that were allocated last on one stream, the newest last.
struct stream_list {
  stream_ref stream;
  std::vector<free_block> blocks;
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

  granted_memory allocate(std::size_t bytes, stream_ref stream, allocation_tag tag) override {
    const auto rounded = detail::size_class(bytes);
    const auto granted = [&](free_block&& block) {
      drop_settled(block.unfinished);
      return granted_memory{.memory = {block.address, rounded, tag},
                            .inherited = std::move(block.unfinished)};
    };
    {
      const std::lock_guard lock(mutex_);
      if (auto block = find(rounded, stream)) return granted(std::move(*block));
    }
    try {
      auto fresh = upstream().allocate(rounded, stream, tag);
      fresh.memory.bytes = rounded;
      return fresh;
    } catch (const error& e) {
      if (e.code() != errc::out_of_memory && e.code() != errc::over_budget) throw;
      const std::lock_guard lock(mutex_);
      if (auto block = take_unfinished(rounded, stream)) return granted(std::move(*block));
      throw;
    }
  }

  void deallocate(allocation memory, stream_ref stream,
                  std::span<const timeline_point> unfinished) noexcept override {
    try {
      free_block block{memory.address, {}};
      block.unfinished.append(unfinished);
      const std::lock_guard lock(mutex_);
      if (memory.bytes <= options_.most_kept - std::min(kept_, options_.most_kept)) {
        list_of(memory.bytes, stream).blocks.push_back(std::move(block));
        kept_ += memory.bytes;
        return;
      }
    } catch (const std::bad_alloc&) {
      // Without memory to note it, it goes back at once.
    }
    upstream().deallocate(memory, stream, unfinished);
  }

  std::size_t trim() noexcept override {
    const auto given = give_all_back();
    return given + upstream().trim();
  }

  std::string_view name() const noexcept override { return "pool"; }

 private:
  using bin = std::vector<stream_list>;

  // Looking further is not worth the time: what is not found here is asked for above.
  static constexpr std::size_t looked_at = 8;

  /// What can be handed out without a wait of another stream's, or, where that is wanted, with one.
  std::optional<free_block> find(std::size_t rounded, stream_ref stream) {
    auto* lists = bin_of(rounded);
    if (lists == nullptr) return std::nullopt;
    if (auto block = take_own(rounded, *lists, stream)) return block;
    if (auto block = take_settled(rounded, *lists)) return block;
    if (options_.prefer_unfinished) {
      if (auto block = take_unfinished(rounded, stream)) return block;
    }
    // Asking the device costs less than new memory.
    for (const auto& list : *lists) {
      if (list.blocks.empty()) continue;
      for (const auto& point : list.blocks.front().unfinished) context_->look_at(point);
    }
    return take_settled(rounded, *lists);
  }

  /// Of the blocks that were last on `stream`: a late one that nobody else may still be using.
  std::optional<free_block> take_own(std::size_t rounded, bin& lists, stream_ref stream) {
    for (auto& list : lists) {
      if (!(list.stream == stream)) continue;
      const auto size = list.blocks.size();
      for (std::size_t i = 0; i < std::min(size, looked_at); ++i) {
        const auto index = size - 1 - i;
        const auto& points = list.blocks[index].unfinished;
        if (std::all_of(points.begin(), points.end(), [&](const timeline_point& point) {
              return point.stream == stream.id() || context_->settled(point);
            })) {
          return take(rounded, list, index);
        }
      }
      return std::nullopt;
    }
    return std::nullopt;
  }

  /// Of all streams' blocks: an early one that nobody uses any more.
  std::optional<free_block> take_settled(std::size_t rounded, bin& lists) {
    for (auto& list : lists) {
      for (std::size_t index = 0; index < std::min(list.blocks.size(), looked_at); ++index) {
        const auto& points = list.blocks[index].unfinished;
        if (std::all_of(points.begin(), points.end(),
                        [&](const timeline_point& point) { return context_->settled(point); })) {
          return take(rounded, list, index);
        }
      }
    }
    return std::nullopt;
  }

  /// Any block, one of `stream`'s own first.
  std::optional<free_block> take_unfinished(std::size_t rounded, stream_ref stream) {
    auto* lists = bin_of(rounded);
    if (lists == nullptr) return std::nullopt;
    stream_list* chosen = nullptr;
    for (auto& list : *lists) {
      if (list.blocks.empty()) continue;
      if (chosen == nullptr || list.stream == stream) chosen = &list;
    }
    if (chosen == nullptr) return std::nullopt;
    return take(rounded, *chosen, 0);
  }

  free_block take(std::size_t rounded, stream_list& list, std::size_t index) {
    auto block = std::move(list.blocks[index]);
    if (index + 1 != list.blocks.size()) list.blocks[index] = std::move(list.blocks.back());
    list.blocks.pop_back();
    kept_ -= rounded;
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

  [[nodiscard]] bin* bin_of(std::size_t rounded) noexcept {
    const auto number = detail::class_number(rounded);
    return number < bins_.size() ? &bins_[number] : nullptr;
  }

  stream_list& list_of(std::size_t rounded, stream_ref stream) {
    const auto number = detail::class_number(rounded);
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
      const std::lock_guard lock(mutex_);
      bins.swap(bins_);
      given = std::exchange(kept_, 0);
    }
    for (std::size_t number = 0; number < bins.size(); ++number) {
      for (auto& list : bins[number]) {
        for (auto& block : list.blocks) {
          drop_settled(block.unfinished);
          upstream().deallocate({block.address, detail::class_size(number), {}}, list.stream,
                                block.unfinished.view());
        }
      }
    }
    return given;
  }

  const pool_options options_;
  resource_context* context_ = nullptr;
  std::mutex mutex_;
  std::vector<bin> bins_;  // by size class
  std::size_t kept_ = 0;
};

}  // namespace

std::unique_ptr<memory_resource> make_pool_resource(std::unique_ptr<memory_resource> upstream,
                                                    pool_options options) {
  return std::make_unique<pool_resource>(std::move(upstream), options);
}

}  // namespace sluice
