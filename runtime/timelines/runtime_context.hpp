// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sluice/runtime/memory_resource.hpp>
#include <sluice/runtime/releasable.hpp>

#include <cstddef>
#include <memory>

namespace sluice::detail {

class release_list;
class timeline;

/// What timelines, blocks and transfers ask of the runtime that they belong to. The runtime's core
/// implements it, so that these rooms need not know the core. All functions are thread-safe.
class runtime_context : public resource_context {
 public:
  [[nodiscard]] virtual const std::shared_ptr<sluice::device>& shared_device() const noexcept = 0;
  /// Whether any launch of the device can fail after it was enqueued. Otherwise only those can
  /// that depend on one of another runtime.
  [[nodiscard]] virtual bool tasks_may_fail() const noexcept = 0;
  /// @throws error `shutting_down`, `device_lost`
  virtual void require_open() const = 0;

  /// The record of a stream of this runtime, also of a retired one; nullptr for an id from
  /// elsewhere.
  [[nodiscard]] virtual timeline* find(stream_id id) const noexcept = 0;
  virtual void wait_until_complete(timeline_point point) noexcept = 0;
  /// Takes a retired timeline over, to free its slots when everything on it has completed.
  virtual void note_retired(timeline& t) noexcept = 0;
  /// Has the reclaim thread forget the oldest failures of `t`.
  virtual void forget_failures_later(timeline& t) noexcept = 0;
  virtual void count_events(std::ptrdiff_t change) noexcept = 0;
  virtual void count_stream_retired() noexcept = 0;

  [[nodiscard]] virtual release_list& releases() noexcept = 0;
  /// Has the reclaim thread release `item`. Without a reclaim thread the next drain of the release
  /// list does.
  virtual void release_later(releasable* item) noexcept = 0;
  /// Makes sure that there is a reclaim thread. @throws std::system_error
  virtual void start_reclaiming() = 0;
};

}  // namespace sluice::detail
