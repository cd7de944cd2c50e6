// SPDX-License-Identifier: Apache-2.0
#include "runtime/core/runtime_core.hpp"

#include <sluice/runtime/stream_pool.hpp>

#include <mutex>
#include <string>
#include <vector>

namespace sluice {
namespace detail {

class stream_pool_state : public std::enable_shared_from_this<stream_pool_state> {
 public:
  stream_pool_state(std::shared_ptr<runtime_core> core, stream_pool_options options)
      : core_(std::move(core)), options_(options), entries_(options.size) {}

  std::optional<pooled_stream> acquire() {
    core_->require_open();
    auto index = take_known_idle();
    if (!index) index = take_after_asking();
    if (!index) index = take_new();
    if (!index) return std::nullopt;
    // The entry is marked as acquired, so no other thread accesses it.
    auto& e = entries_[*index];
    pooled_stream stream(shared_from_this(), *index);
    if (!e.owner) e.owner = {core_, &core_->make_timeline(options_.priority)};
    return stream;
  }

  void release(std::size_t index) noexcept {
    if (core_->device().inherited()) return;
    const std::lock_guard lock(mutex_);
    auto& e = entries_[index];
    e.out = false;
    --acquired_;
    auto* stream_timeline = detail::timeline::of(e.owner.ref());
    if (stream_timeline == nullptr) return;  // its creation failed
    try {
      // The ticket also covers work that no recorder knows.
      stream_timeline->reserve();
      e.last = stream_timeline->submit();
    } catch (...) {
      e.owner = {};  // nothing could tell when it is idle
    }
  }

  [[nodiscard]] stream_ref at(std::size_t index) const noexcept { return entries_[index].owner; }
  [[nodiscard]] std::size_t size() const noexcept { return options_.size; }
  [[nodiscard]] std::size_t acquired() const noexcept {
    const std::lock_guard lock(mutex_);
    return acquired_;
  }

 private:
  struct entry {
    stream owner;
    std::uint64_t last = 0;
    bool out = false;
  };

  /// Marks an entry as acquired, under the mutex.
  std::size_t take(std::size_t index) noexcept {
    entries_[index].out = true;
    ++acquired_;
    next_ = index + 1;
    return index;
  }

  /// A stream whose work is known to have completed, without a query of the device.
  std::optional<std::size_t> take_known_idle() noexcept {
    const std::lock_guard lock(mutex_);
    // Round robin, because the newest released stream is the least likely to be idle.
    for (std::size_t i = 0; i < stream_count_; ++i) {
      const auto index = (next_ + i) % stream_count_;
      const auto& e = entries_[index];
      if (!e.out && (!e.owner || detail::timeline::of(e.owner.ref())->completed(e.last)))
        return take(index);
    }
    return std::nullopt;
  }

  /// Queries the device for a few streams, without the mutex. The next call continues with others.
  std::optional<std::size_t> take_after_asking() noexcept {
    for (std::size_t queries = 0; queries < stream_pool::max_asked; ++queries) {
      std::size_t index = 0;
      std::uint64_t last = 0;
      timeline* stream_timeline = nullptr;
      {
        const std::lock_guard lock(mutex_);
        if (queries >= stream_count_) return std::nullopt;
        index = ask_next_++ % stream_count_;
        if (entries_[index].out || !entries_[index].owner) continue;
        last = entries_[index].last;
        stream_timeline = detail::timeline::of(entries_[index].owner.ref());
      }
      if (stream_timeline->advance() < last) continue;
      const std::lock_guard lock(mutex_);
      const auto& e = entries_[index];
      // Another thread may have acquired and released it meanwhile.
      if (!e.out && (!e.owner || detail::timeline::of(e.owner.ref())->completed(e.last)))
        return take(index);
    }
    return std::nullopt;
  }

  std::optional<std::size_t> take_new() noexcept {
    const std::lock_guard lock(mutex_);
    if (stream_count_ == entries_.size()) return std::nullopt;
    return take(stream_count_++);
  }

  const std::shared_ptr<runtime_core> core_;
  const stream_pool_options options_;
  mutable std::mutex mutex_;
  // At its full size from the beginning, because an acquired entry must not move.
  std::vector<entry> entries_;
  std::size_t stream_count_ = 0;
  std::size_t next_ = 0;
  std::size_t ask_next_ = 0;
  std::size_t acquired_ = 0;
};

}  // namespace detail

pooled_stream& pooled_stream::operator=(pooled_stream&& other) noexcept {
  pooled_stream temporary(std::move(other));
  std::swap(pool_, temporary.pool_);
  std::swap(index_, temporary.index_);
  return *this;
}

stream_ref pooled_stream::ref() const& noexcept {
  return pool_ ? pool_->at(index_) : stream_ref{};
}

void pooled_stream::release() noexcept {
  if (const auto pool = std::exchange(pool_, nullptr)) pool->release(index_);
}

stream_pool::stream_pool(device_runtime& runtime, stream_pool_options options) {
  if (options.size == 0 || options.size > stream_pool::largest_size) {
    throw error(errc::invalid_argument, "stream_pool: size is " + std::to_string(options.size) +
                                            "; must be from 1 to " +
                                            std::to_string(stream_pool::largest_size));
  }
  state_ = std::make_shared<detail::stream_pool_state>(detail::runtime_core::of(runtime), options);
}

pooled_stream stream_pool::acquire() {
  if (auto stream = try_acquire()) return std::move(*stream);
  throw error(errc::overloaded, "stream_pool: " + std::to_string(acquired()) + " of " +
                                    std::to_string(size()) +
                                    " streams are in use, and any others have unfinished work");
}

std::optional<pooled_stream> stream_pool::try_acquire() {
  return state_->acquire();
}

std::size_t stream_pool::size() const noexcept {
  return state_->size();
}

std::size_t stream_pool::acquired() const noexcept {
  return state_->acquired();
}

}  // namespace sluice
